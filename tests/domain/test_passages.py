import itertools
import re
import time

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from retain.domain.memory import Passage, TurnSpan
from retain.domain.passages import MAX_PASSAGE_CHARS, SENTENCE_TOKENS, TARGET_TOKENS, split


def words(text: str) -> NDArray[np.int32]:
    """One token a word or mark, as WordPiece makes of common English."""
    spans = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    return np.array(spans, np.int32).reshape(-1, 2)


def parts(text: str, limit: int = 10, **options: object) -> list[str]:
    return [text[passage.start : passage.end] for passage in split(text, words(text), limit=limit, **options)]


texts = st.text(st.sampled_from("aé 語。.,!\n\t\u0301\u200d👍🏽🇩🇪x-"), max_size=300) | st.text(max_size=300)
limits = st.integers(1, 40)


@given(texts, limits)
def test_every_visible_character_lies_in_a_passage(text: str, limit: int):
    covered: set[int] = set()
    for passage in split(text, words(text), limit=limit):
        covered.update(range(passage.start, passage.end))
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered


@given(texts, limits)
def test_no_passage_has_more_tokens_than_the_limit(text: str, limit: int):
    tokens = words(text)
    for passage in split(text, tokens, limit=limit):
        inside = (tokens[:, 0] < passage.end) & (tokens[:, 1] > passage.start)
        assert inside.sum() <= limit


@given(texts, limits)
@example("00000:", 1)
def test_passages_are_in_order_trimmed_and_never_blank(text: str, limit: int):
    passages = split(text, words(text), limit=limit)
    for passage in passages:
        part = text[passage.start : passage.end]
        assert part
        assert part == part.strip()
    assert [p.start for p in passages] == sorted({p.start for p in passages})
    assert [p.end for p in passages] == sorted({p.end for p in passages})


@given(texts, limits)
def test_splitting_twice_gives_the_same_and_a_passage_that_fits_stays_whole(text: str, limit: int):
    first = split(text, words(text), limit=limit)
    assert first == split(text, words(text), limit=limit)
    for passage in first:
        part = text[passage.start : passage.end]
        if len(words(part)) <= limit:
            assert split(part, words(part), limit=limit) == [Passage(0, len(part))]


@given(st.lists(st.text(st.sampled_from("ab .\n"), min_size=1, max_size=60), min_size=1, max_size=6), limits)
def test_no_passage_holds_parts_of_two_turns(contents: list[str], limit: int):
    text, turns = "", list[TurnSpan]()
    for content in contents:
        text += "user: "
        turns.append(TurnSpan("user", len(text), len(text) + len(content)))
        text += content + "\n\n"
    covered: set[int] = set()
    for passage in split(text, words(text), limit=limit, turns=turns):
        covered.update(range(passage.start, passage.end))
        assert sum(turn.start < passage.end and passage.start < turn.end for turn in turns) <= 1
    assert {position for position, character in enumerate(text) if not character.isspace()} <= covered


def test_short_neighbouring_turns_stay_separate():
    text = "Yes.\nNo."
    turns = [TurnSpan("user", 0, 4), TurnSpan("assistant", 5, 8)]
    assert parts(text, turns=turns) == ["Yes.", "No."]


def test_a_role_label_goes_with_the_turn_that_follows():
    text = "user: Yes.\nbot: No."
    turns = [TurnSpan("user", 6, 10), TurnSpan("bot", 16, 19)]
    assert parts(text, turns=turns) == ["user: Yes.", "bot: No."]


def test_a_short_text_is_one_passage():
    assert parts("  The deploy freeze ends on Friday.\n") == ["The deploy freeze ends on Friday."]


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_a_blank_text_has_no_passage(text: str):
    assert split(text, words(text), limit=5) == []


def test_sentences_stay_whole_where_they_fit():
    assert parts("One two three four. Five six seven eight. Nine ten.") == [
        "One two three four.",
        "Five six seven eight. Nine ten.",
    ]


def test_a_paragraph_border_is_preferred_to_a_sentence_border():
    text = "One two three. Four five.\n\nSix seven eight. Nine ten."
    assert parts(text) == ["One two three. Four five.", "Six seven eight. Nine ten."]


def test_chinese_sentences_are_borders_without_spaces():
    text = "数据库连接池上限改为五十。明天上午十点开会。"
    tokens = np.array([(i, i + 1) for i in range(len(text))], np.int32)
    cut = [text[p.start : p.end] for p in split(text, tokens, limit=15)]
    assert cut == ["数据库连接池上限改为五十。", "明天上午十点开会。"]


def test_a_long_sentence_is_cut_between_words_and_overlaps():
    text = " ".join(f"word{i}" for i in range(30))
    cut = parts(text)
    assert all(len(words(part)) <= 10 for part in cut)
    for before, after in itertools.pairwise(cut):
        assert after.split()[0] in before.split()


def test_a_text_of_one_unknown_token_is_cut_by_characters():
    text = "a" * 200_000
    passages = split(text, np.array([(0, len(text))], np.int32), limit=64)
    assert len(passages) <= 260
    assert max(passage.end - passage.start for passage in passages) <= MAX_PASSAGE_CHARS


@pytest.mark.parametrize("character", ["e\u0301", "👍🏽", "🇩🇪", "👩\u200d💻"])
def test_a_character_of_several_code_points_is_not_cut(character: str):
    text = character * 3_000
    for passage in split(text, np.array([(0, len(text))], np.int32), limit=64):
        assert (passage.start % len(character), passage.end % len(character)) == (0, 0)


def test_tokens_without_characters_are_ignored():
    text = "One two"
    tokens = np.array([(0, 0), (0, 3), (4, 7), (0, 0)], np.int32)
    assert split(text, tokens, limit=2) == [Passage(0, 7)]


def test_a_text_without_tokens_is_one_passage():
    assert split("\x01\x02", np.empty((0, 2), np.int32), limit=4) == [Passage(0, 2)]


def test_a_sentence_over_the_target_stays_whole():
    long = " ".join(f"word{i}" for i in range(SENTENCE_TOKENS - 1)) + "."
    assert parts(f"{long} Two short words. {long}", limit=254) == [long, "Two short words.", long]


def test_a_text_without_sentences_is_cut_into_long_parts_and_the_limit_wins():
    text = "word " * 300
    longest = [max(len(words(part)) for part in parts(text, limit=limit)) for limit in (254, 9)]
    assert TARGET_TOKENS < longest[0] <= SENTENCE_TOKENS
    assert longest[1] <= 9


def test_a_limit_without_room_is_refused():
    with pytest.raises(ValueError, match="at least one token"):
        split("text", words("text"), limit=0)


def test_a_content_of_the_greatest_length_is_cut_in_time_linear_in_it():
    def seconds(text: str) -> float:
        tokens = words(text)
        start = time.process_time()
        split(text, tokens, limit=254)
        return time.process_time() - start

    for unit in ("The pool is capped at fifty. ", "x ", "a\n", "a,"):
        assert seconds(unit * (200_000 // len(unit))) < 1.5
