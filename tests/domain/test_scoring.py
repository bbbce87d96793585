import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.domain.memory import RecallMode
from retain.domain.scoring import (
    FULL_SHARE,
    Candidate,
    hybrid_score,
    keyword_score,
    keyword_signal,
    rank,
    semantic_score,
)

cosines = st.floats(-1, 1)
shares = st.floats(0, 1)


def found(memory_id: str, semantic: float | None = None, keyword: float | None = None, *, start: int = 0) -> Candidate:
    return Candidate(memory_id, None, start, start + 1, semantic, keyword)


founds = st.builds(
    Candidate,
    memory_id=st.sampled_from("abcd"),
    semantic=st.none() | cosines,
    keyword=st.none() | shares,
    start=st.integers(0, 5),
    end=st.just(6),
    conversation_id=st.none() | st.just("c"),
)


@given(cosines, shares)
def test_a_score_lies_between_zero_and_one(cosine: float, share: float):
    for score in (hybrid_score(cosine, share), semantic_score(cosine), keyword_score(share)):
        assert 0 <= score <= 1


@given(cosines, cosines, shares, shares)
def test_more_evidence_never_lowers_a_score(a: float, b: float, c: float, d: float):
    assert hybrid_score(max(a, b), max(c, d)) >= hybrid_score(min(a, b), min(c, d))


@given(cosines, shares)
def test_a_second_signal_never_lowers_a_score(cosine: float, share: float):
    assert hybrid_score(cosine, share) >= max(semantic_score(cosine), keyword_score(share))
    assert hybrid_score(cosine, 0) == semantic_score(cosine)


def test_identical_text_scores_near_one_in_each_mode():
    assert semantic_score(1) > 0.95
    assert keyword_score(1) > 0.95
    assert hybrid_score(1, 0.7) > 0.99


def test_opposite_and_orthogonal_vectors_score_zero():
    assert semantic_score(-1) == semantic_score(0) == 0


@pytest.mark.parametrize("cosine", [0.21, 0.26])
def test_the_best_of_many_unrelated_texts_scores_near_zero(cosine: float):
    assert semantic_score(cosine) < 0.15


def test_a_paraphrase_stands_clearly_above_unrelated_text():
    assert semantic_score(0.43) > 0.3
    assert semantic_score(0.1) < 0.02


def test_a_rare_token_found_exactly_beats_its_semantic_neighbours():
    ranked = rank([found("neighbour", 0.6, 0.0), found("log line", 0.05, 1.0)], "hybrid")
    assert [item.memory_id for item in ranked] == ["log line", "neighbour"]


@given(shares)
def test_a_keyword_signal_lies_between_zero_and_one(share: float):
    assert 0 <= keyword_signal(share) <= 1


def test_each_word_once_in_a_passage_of_average_length_is_the_full_signal():
    assert keyword_signal(FULL_SHARE) == keyword_signal(1) == 1
    assert keyword_signal(FULL_SHARE / 2) == 0.5


@given(st.lists(founds), st.sampled_from(["hybrid", "semantic", "keyword", "exact"]))
def test_ranking_gives_each_memory_once_best_first_whatever_the_order(candidates: list[Candidate], mode: RecallMode):
    ranked = rank(candidates, mode)
    ids = [item.memory_id for item in ranked]
    assert len(ids) == len(set(ids))
    assert [(-item.score) for item in ranked] == sorted(-item.score for item in ranked)
    assert [(item.memory_id, item.score, item.start) for item in rank(reversed(candidates), mode)] == [
        (item.memory_id, item.score, item.start) for item in ranked
    ]
    for item in ranked:
        assert all(0 <= value <= 1 for value in item.signals.values())


@given(st.lists(founds, min_size=1))
def test_a_memory_scores_as_its_best_passage(candidates: list[Candidate]):
    for item in rank(candidates, "hybrid"):
        own = [hybrid_score(f.semantic or 0, f.keyword or 0) for f in candidates if f.memory_id == item.memory_id]
        assert item.score == max(own)


def test_signals_of_different_passages_are_not_mixed():
    (item,) = rank([found("a", 0.6, 0.0, start=0), found("a", 0.0, 0.2, start=9)], "hybrid")
    assert (item.start, item.signals) == (0, {"semantic": 0.6, "keyword": 0.0})


def test_ties_go_to_the_newer_memory_and_the_earlier_passage():
    ranked = rank([found("1", 0.5, 0), found("2", 0.5, 0, start=7), found("2", 0.5, 0, start=3)], "hybrid")
    assert [(item.memory_id, item.start) for item in ranked] == [("2", 3), ("1", 0)]


def test_keyword_mode_leaves_out_what_holds_no_word_of_the_question():
    assert rank([found("a", 0.9, 0.0), found("b", None, None)], "keyword") == []


def test_each_mode_reads_only_its_own_signals():
    candidates = [found("a", 0.5, FULL_SHARE / 4)]
    assert rank(candidates, "semantic")[0].signals == {"semantic": 0.5}
    assert rank(candidates, "keyword")[0].signals == {"keyword": 0.25}
    assert rank(candidates, "exact")[0].score == 1
