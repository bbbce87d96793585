import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.domain.memory import RecallMode
from retain.domain.scoring import FULL_SHARE, KEYWORD_WEIGHT, Candidates, best_passages, evidence, scores

MODES: list[RecallMode] = ["hybrid", "semantic", "keyword"]
cosines = st.floats(-1, 1)
shares = st.floats(0, 1)


def found(*passages: tuple[int, float, float]) -> Candidates:
    """Passages as (number of the memory, cosine, keyword share)."""
    numbers, semantic, keyword = zip(*passages, strict=True)
    return Candidates(np.array(numbers), np.array(semantic, dtype=np.float64), np.array(keyword, dtype=np.float64))


def score(cosine: float, share: float = 0.0, mode: RecallMode = "hybrid") -> float:
    return float(scores(evidence(found((1, cosine, share)), mode))[0])


def ranked(candidates: Candidates, mode: RecallMode = "hybrid") -> list[int]:
    return best_passages(candidates, scores(evidence(candidates, mode))).tolist()


founds = st.lists(st.tuples(st.integers(1, 4), cosines, shares), min_size=1).map(lambda passages: found(*passages))


@given(cosines, shares, st.sampled_from(MODES))
def test_a_score_lies_between_zero_and_one(cosine: float, share: float, mode: RecallMode):
    assert 0 <= score(cosine, share, mode) <= 1


@given(cosines, shares)
def test_a_score_is_the_curve_over_the_sum_of_the_evidence(cosine: float, share: float):
    total = max(cosine, 0.0) + KEYWORD_WEIGHT * min(1.0, share / FULL_SHARE)
    assert score(cosine, share) == pytest.approx(1 - math.exp(-((total / 0.6) ** 2.5)), abs=1e-12)


@given(cosines, cosines, shares, shares)
def test_more_evidence_never_lowers_a_score(a: float, b: float, c: float, d: float):
    assert score(max(a, b), max(c, d)) >= score(min(a, b), min(c, d))


@given(cosines, shares)
def test_a_second_signal_never_lowers_a_score(cosine: float, share: float):
    assert score(cosine, share) >= max(score(cosine, 0), score(0, share))
    assert score(cosine, share, "semantic") == score(cosine, 0)
    assert score(cosine, share, "keyword") == score(0, share)


def test_identical_text_scores_near_one_in_each_mode():
    assert score(1) > 0.95
    assert score(0, 1) > 0.95
    assert score(1, 0.7) > 0.99


def test_opposite_and_orthogonal_vectors_score_zero():
    assert score(-1) == score(0) == 0


@pytest.mark.parametrize("cosine", [0.21, 0.26])
def test_the_best_of_many_unrelated_texts_scores_near_zero(cosine: float):
    assert score(cosine) < 0.15


def test_a_paraphrase_stands_clearly_above_unrelated_text():
    assert score(0.43) > 0.3
    assert score(0.1) < 0.02


def test_a_rare_token_found_exactly_beats_its_semantic_neighbours():
    assert ranked(found((1, 0.6, 0.0), (2, 0.05, 1.0))) == [1, 0]


@given(founds, st.sampled_from(MODES))
def test_each_part_of_a_score_lies_between_zero_and_one(candidates: Candidates, mode: RecallMode):
    for part in evidence(candidates, mode).values():
        assert ((part >= 0) & (part <= 1)).all()


def test_each_word_in_a_passage_of_average_length_is_the_full_signal():
    parts = evidence(found((1, 0, FULL_SHARE), (1, 0, 1), (1, 0, FULL_SHARE / 2)), "keyword")
    assert {name: part.tolist() for name, part in parts.items()} == {"keyword": [1, 1, 0.5]}


@given(founds, st.sampled_from(MODES))
def test_ranking_gives_each_memory_once_best_first(candidates: Candidates, mode: RecallMode):
    scored = scores(evidence(candidates, mode))
    best = best_passages(candidates, scored)
    assert sorted(candidates.memories[best].tolist()) == sorted(set(candidates.memories.tolist()))
    assert scored[best].tolist() == sorted(scored[best].tolist(), reverse=True)


@given(founds)
def test_a_memory_scores_as_its_best_passage(candidates: Candidates):
    scored = scores(evidence(candidates, "hybrid"))
    for place in best_passages(candidates, scored).tolist():
        own = scored[candidates.memories == candidates.memories[place]]
        assert scored[place] == own.max()


def test_ties_go_to_the_memory_stored_later_and_the_earlier_passage():
    assert ranked(found((1, 0.5, 0), (2, 0.5, 0), (2, 0.5, 0), (3, 0.4, 0))) == [1, 0, 3]


@pytest.mark.parametrize(("mode", "names"), [("hybrid", ["semantic", "keyword"]), ("keyword", ["keyword"])])
def test_each_mode_reads_only_its_own_signals(mode: RecallMode, names: list[str]):
    assert list(evidence(found((1, 0.5, 0.5)), mode)) == names


def test_nothing_ranks_as_nothing():
    assert ranked(Candidates(np.empty(0, np.int64), np.empty(0), None)) == []
