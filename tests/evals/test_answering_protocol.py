"""What reader and judge get to read."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retain import InvalidInputError
from retain_evals.answering.history import Excerpt, Granularity, excerpts
from retain_evals.answering.protocol import judge_prompt, reader_prompt, says_yes, stamp
from retain_evals.datasets import locomo, longmemeval
from retain_evals.haystack import Haystack, Question, Turn
from retain_evals.run import Asked, Ranked
from tests.evals.runs import asked

SAMPLES = Path(__file__).parent / "samples"
LONGMEMEVAL = json.loads((SAMPLES / "longmemeval_sample.json").read_text())
HAYSTACKS = {haystack.id: haystack for haystack in longmemeval(LONGMEMEVAL)}
CONVERSATION = next(iter(locomo([json.loads((SAMPLES / "locomo_sample.json").read_text())].pop())))
QUESTION = Question("q", "multi-session", "How many?", "seven", None, frozenset(), frozenset())
GENERAL_TYPES = ["single-session-user", "single-session-assistant", "multi-session", "single-hop", "adversarial"]


def everything(haystack: Haystack, granularity: Granularity = "session") -> tuple[Excerpt, ...]:
    """Return the haystack as if a run had found all of it, the latest first."""
    places = [turn.id for session in reversed(haystack.sessions) for turn in reversed(session.turns)]
    found = asked("q", places, [])
    return excerpts(haystack, replace(found, raw=_whole(places), grouped=found.grouped), 100, granularity)


def _whole(places: list[str]) -> tuple[Ranked, ...]:
    return tuple(Ranked(place.partition(":")[0], place, 1.0) for place in places)


def texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for member in value:
            yield from texts_of(member)
    else:
        yield str(value)


@pytest.mark.parametrize("row", LONGMEMEVAL, ids=lambda row: row["question_id"])
@pytest.mark.parametrize("granularity", ["session", "turn"])
def test_the_reader_gets_what_was_said_and_nothing_that_gives_the_answer_away(row: Any, granularity: Granularity):
    haystack = HAYSTACKS[row["question_id"]]
    question = haystack.questions[0]
    prompt = reader_prompt(question, everything(haystack, granularity), "con")
    for session_id in row["haystack_session_ids"]:
        assert session_id not in prompt
    assert "answer_" not in prompt
    assert "has_answer" not in prompt
    assert row["question_id"] not in prompt
    assert row["question_type"] not in prompt
    elsewhere = replace(question, answer="GOLD", evidence_sessions=frozenset("s"), evidence_turns=frozenset("t"))
    assert reader_prompt(elsewhere, everything(haystack, granularity), "con") == prompt
    for text in texts_of([[turn["content"] for turn in turns] for turns in row["haystack_sessions"]]):
        assert json.dumps(text) in prompt


def test_the_chats_come_by_time_each_with_its_date_then_the_question_with_its_own():
    haystack = HAYSTACKS["7c1e90aa"]
    prompt = reader_prompt(haystack.questions[0], everything(haystack), "direct")
    assert re.findall(r"### Session (\d+):\nSession Date: (.+)\nSession Content:\n\n\[\{\"role\"", prompt) == [
        ("1", "2024/05/01 (Wed) 07:30"),
        ("2", "2024/05/03 (Fri) 18:22"),
        ("3", "2024/05/08 (Wed) 08:00"),
        ("4", "2024/05/12 (Sun) 09:10"),
        ("5", "2024/05/17 (Fri) 21:15"),
        ("6", "2024/05/21 (Tue) 19:05"),
        ("7", "2024/05/26 (Sun) 12:41"),
    ]
    assert prompt.endswith(
        "\n\nCurrent Date: 2024/05/30 (Thu) 20:36\nQuestion: Which part of town did my sister Nadia move to?\nAnswer:"
    )


def test_a_small_prompt_to_the_letter():
    at = datetime(2024, 2, 29, 7, 5, tzinfo=UTC)
    found = [Excerpt(at, (Turn("answer_x:0", "user", 'Seven {cups}, "é"'), Turn("answer_x:1", "assistant", "Good.")))]
    assert reader_prompt(replace(QUESTION, asked_at=at), found, "con") == (
        "Below are past chats between you and a user. Answer the question from what is relevant in them. Work step by "
        "step: first write down everything in the chats that bears on the question, then reason over it until you have "
        "the answer.\n\n\nHistory Chats:\n\n\n### Session 1:\nSession Date: 2024/02/29 (Thu) 07:05\nSession Content:"
        '\n\n[{"role": "user", "content": "Seven {cups}, \\"\\u00e9\\""}, {"role": "assistant", "content": "Good."}]\n'
        "\n\nCurrent Date: 2024/02/29 (Thu) 07:05\nQuestion: How many?\nAnswer (step by step):"
    )


def test_answering_at_once_does_not_ask_for_steps():
    prompt = reader_prompt(QUESTION, [], "direct")
    assert "step" not in prompt
    assert prompt.startswith("Below are past chats between you and a user. Answer the question from what is relevant")


def test_chats_of_named_people_are_told_as_such_and_a_missing_date_is_left_out():
    question = CONVERSATION.questions[0]
    prompt = reader_prompt(question, everything(CONVERSATION), "con")
    assert "between several people" in prompt
    assert '"role": "Ines"' in prompt
    assert "Current Date" not in prompt
    assert not re.search(r"D\d+:\d+", prompt)


def test_a_session_without_a_date_comes_last_and_says_so():
    haystack = HAYSTACKS["7c1e90aa"]
    undated = (*haystack.sessions[1:], replace(haystack.sessions[0], started_at=None))
    prompt = reader_prompt(haystack.questions[0], everything(replace(haystack, sessions=undated)), "con")
    assert "### Session 7:\nSession Date: unknown\n" in prompt


def test_nothing_found_is_said():
    assert "History Chats:\n\n\n(no chat was found)\n\n\nQuestion: How many?" in reader_prompt(QUESTION, [], "con")


def test_only_the_first_k_places_are_read():
    haystack = HAYSTACKS["7c1e90aa"]
    found = asked("q", ["answer_7c1e90aa_1:2", "3f9a77c1_2:0", "b04d12ee_1:0"], [])
    dates = [one.started_at for one in excerpts(haystack, found, 2, "session")]
    assert dates == [datetime(2024, 5, 12, 9, 10, tzinfo=UTC), datetime(2024, 5, 21, 19, 5, tzinfo=UTC)]


def test_sessions_are_read_from_the_grouped_list_and_rounds_from_the_raw_one():
    haystack = HAYSTACKS["7c1e90aa"]
    raw, grouped = Ranked("3f9a77c1_2", "3f9a77c1_2:0", 1), Ranked("b04d12ee_1", None, 1)
    found = Asked("q", "t", False, frozenset(), frozenset(), 7, (raw,), (grouped,), 1.0)
    assert [len(one.turns) for one in excerpts(haystack, found, 5, "session")] == [4]
    assert excerpts(haystack, found, 5, "session")[0].turns[0].id == "b04d12ee_1:0"
    assert [turn.id for one in excerpts(haystack, found, 5, "turn") for turn in one.turns] == [
        "3f9a77c1_2:0",
        "3f9a77c1_2:1",
    ]


@pytest.mark.parametrize(
    ("found", "rounds"),
    [
        ([0], [[0, 1]]),
        ([1], [[0, 1]]),
        ([1, 0], [[0, 1]]),
        ([3, 0], [[0, 1], [2, 3]]),
        ([4], [[4]]),
    ],
)
def test_a_round_is_a_turn_and_its_reply_and_comes_once(found: list[int], rounds: list[list[int]]):
    haystack = HAYSTACKS["7c1e90aa"]
    run = asked("q", [f"answer_7c1e90aa_1:{place}" for place in found], [])
    read = [[int(turn.id[-1]) for turn in one.turns] for one in excerpts(haystack, run, 5, "turn")]
    assert read == rounds


def test_of_people_who_talk_a_round_is_a_turn_and_the_next():
    turns = CONVERSATION.sessions[0].turns
    read = excerpts(CONVERSATION, asked("q", [turns[1].id], []), 5, "turn")
    assert [one.turns for one in read] == [turns[1:3]]


def test_a_session_that_stands_twice_is_read_at_its_own_date_by_turn_and_at_the_last_by_name():
    haystack = HAYSTACKS["f19d2c60"]
    doubled = [session for session in haystack.sessions if session.id == "ultrachat_402266"]
    assert [session.key for session in doubled] in (
        ["ultrachat_402266", "ultrachat_402266#2"],
        ["ultrachat_402266#2", "ultrachat_402266"],
    )
    for session in doubled:
        place = Ranked(session.id, session.turns[0].id, 1)
        run = replace(asked("q", [], []), grouped=(place,))
        assert [one.started_at for one in excerpts(haystack, run, 5, "session")] == [session.started_at]
    by_name = replace(asked("q", [], []), grouped=(Ranked(doubled[0].id, None, 1),) * 2)
    assert [one.started_at for one in excerpts(haystack, by_name, 5, "session")] == [doubled[1].started_at]


@pytest.mark.parametrize("place", [Ranked("nowhere", None, 1), Ranked("nowhere", "nowhere:3", 1)])
def test_a_place_that_the_data_does_not_hold_is_named(place: Ranked):
    run = replace(asked("q7", [], []), grouped=(place,))
    with pytest.raises(InvalidInputError, match=r"nowhere.* for question q7.*give the data of the run"):
        excerpts(HAYSTACKS["7c1e90aa"], run, 5, "session")


def test_rounds_of_a_run_of_whole_sessions_are_refused():
    run = replace(asked("q", [], []), raw=(Ranked("3f9a77c1_2", None, 1),))
    with pytest.raises(InvalidInputError, match="found whole sessions"):
        excerpts(HAYSTACKS["7c1e90aa"], run, 5, "turn")


@pytest.mark.parametrize("kind", GENERAL_TYPES)
def test_most_types_are_judged_by_the_general_instructions(kind: str):
    prompt = judge_prompt(replace(QUESTION, type=kind), "It was 7.")
    assert prompt.endswith(
        "\n\nQuestion: How many?\n\nCorrect Answer: seven\n\nModel Response: It was 7.\n\n"
        "Is the model response correct? Answer yes or no only."
    )
    for part in ("contains the correct answer", "equivalent", "every intermediate step", "only a part"):
        assert part in prompt
    assert "off by one" not in prompt


def test_off_by_one_is_forgiven_in_questions_about_time_only_and_on_top_of_the_general_rule():
    prompt = judge_prompt(replace(QUESTION, type="temporal-reasoning"), "6 days")
    general = judge_prompt(QUESTION, "6 days").partition("\n\n")[0]
    assert prompt.startswith(f"{general} Do not count it against the response if a number of days is off by one")


def test_an_updated_answer_may_come_with_the_earlier_one():
    prompt = judge_prompt(replace(QUESTION, type="knowledge-update"), "Before six, now seven.")
    assert "gives earlier values beside the updated one is correct, as long as its updated answer" in prompt
    assert "only a part" not in prompt


def test_a_preference_is_judged_by_its_rubric():
    prompt = judge_prompt(replace(QUESTION, type="single-session-preference", answer="likes films"), "A film!")
    assert "\n\nRubric: likes films\n\nModel Response: A film!\n\nIs the model response correct?" in prompt
    assert "need not cover every point" in prompt
    assert "Correct Answer" not in prompt


@pytest.mark.parametrize("kind", ["single-session-user", "single-session-preference", "temporal-reasoning"])
def test_abstention_goes_before_the_type(kind: str):
    prompt = judge_prompt(replace(QUESTION, type=kind, is_abstention=True, answer="You named no hamster."), "Unknown.")
    assert "\n\nExplanation: You named no hamster.\n\nModel Response: Unknown.\n\n" in prompt
    assert prompt.endswith("recognise that the question can't be answered? Answer yes or no only.")


@pytest.mark.parametrize("verdict", ["yes", "Yes.", "YES", "**Yes**", "I would say yes, since"])
def test_yes_anywhere_is_correct(verdict: str):
    assert says_yes(verdict)


@pytest.mark.parametrize("verdict", ["no", "No.", "Incorrect", "The response is right"])
def test_anything_else_is_not(verdict: str):
    assert not says_yes(verdict)


def test_dates_are_written_alike_in_every_locale():
    week = [stamp(datetime(2024, 7, day, 0, 0, tzinfo=UTC))[12:15] for day in range(1, 8)]
    assert week == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
