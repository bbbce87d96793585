import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain_evals import metrics
from retain_evals.metrics import GROUPED, KS, METRICS, RAW, TURNS, judged, views
from tests.evals.runs import asked

names = st.sampled_from([f"s{n}" for n in range(12)])
rankings = st.lists(names, max_size=30)
evidences = st.frozensets(names, min_size=1, max_size=6)
ks = st.sampled_from(KS)


@given(rankings, evidences, ks)
def test_recall_is_what_counting_by_hand_gives(ranking: list[str], evidence: frozenset[str], k: int):
    found = 0
    for one in evidence:
        for place in range(min(k, len(ranking))):
            if ranking[place] == one:
                found += 1
                break
    assert metrics.recall_any(ranking, evidence, k) == (1.0 if found > 0 else 0.0)
    assert metrics.recall_all(ranking, evidence, k) == (1.0 if found == len(evidence) else 0.0)
    assert metrics.recall_fraction(ranking, evidence, k) == found / len(evidence)


@given(st.lists(names, max_size=12, unique=True), evidences, ks)
def test_ndcg_is_the_published_formula_over_distinct_documents(ranking: list[str], evidence: frozenset[str], k: int):
    """LongMemEval's `ndcg_any`: gains over log2 of the place, the first two places undiscounted."""
    corpus = [f"s{n}" for n in range(12)]
    gains = np.array([float(one in evidence) for one in ranking[:k]])
    ideal = np.sort([float(one in evidence) for one in corpus])[::-1][:k]

    def dcg(values: np.ndarray) -> float:
        return sum(value if place == 1 else value / math.log2(place) for place, value in enumerate(values, 1))

    assert metrics.ndcg(ranking, evidence, k) == pytest.approx(dcg(gains) / dcg(ideal))


@given(rankings, evidences)
def test_the_reciprocal_rank_is_that_of_the_first_evidence(ranking: list[str], evidence: frozenset[str]):
    places = [place for place, one in enumerate(ranking, 1) if one in evidence]
    assert metrics.reciprocal_rank(ranking, evidence) == (1 / places[0] if places else 0)


@given(rankings, evidences, ks)
def test_every_value_lies_between_0_and_1_and_any_is_at_least_fraction_is_at_least_all(
    ranking: list[str], evidence: frozenset[str], k: int
):
    least, middle, most = (
        measure(ranking, evidence, k) for measure in (metrics.recall_all, metrics.recall_fraction, metrics.recall_any)
    )
    assert 0 <= least <= middle <= most <= 1
    assert 0 <= metrics.ndcg(ranking, evidence, k) <= 1


@given(rankings, evidences)
def test_recall_never_falls_with_k(ranking: list[str], evidence: frozenset[str]):
    for measure in (metrics.recall_any, metrics.recall_all, metrics.recall_fraction):
        values = [measure(ranking, evidence, k) for k in KS]
        assert values == sorted(values)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40, unique=True), ks)
def test_grouping_is_longmemevals_way_from_turns_to_sessions(turns: list[tuple[int, int]], k: int):
    """LongMemEval reads on in the ranking of turns until it has met k sessions."""
    places = [f"s{session}:{turn}" for session, turn in turns]
    question = asked("q", places, ["s0:0", "s4:1"])
    met: list[str] = []
    for place in places:
        session = place.partition(":")[0]
        if session not in met and len(met) < k:
            met.append(session)
    values = judged(question, GROUPED)
    assert values is not None
    assert values[f"recall_all@{k}"] == float({"s0", "s4"} <= set(met))
    assert values[f"recall_any@{k}"] == float(bool({"s0", "s4"} & set(met)))


def test_a_session_that_is_found_twice_counts_once():
    question = asked("q", ["s1:0", "s1:1", "s1:2", "s2:0"], ["s1:0", "s2:0"])
    raw, grouped = judged(question, RAW), judged(question, GROUPED)
    assert raw is not None and grouped is not None
    assert (raw["recall_fraction@3"], grouped["recall_fraction@3"]) == (0.5, 1.0)
    assert raw["ndcg@3"] == pytest.approx(0.5)
    assert grouped["ndcg@3"] == 1.0


def test_turns_are_judged_by_the_turns_that_hold_the_answer():
    question = asked("q", ["s1:1", "s1:0"], ["s1:0"])
    turns, sessions = judged(question, TURNS), judged(question, RAW)
    assert turns is not None and sessions is not None
    assert (turns["recall_any@1"], turns["recall_any@3"], turns[metrics.MRR]) == (0, 1, 0.5)
    assert sessions["recall_any@1"] == 1


def test_a_question_without_evidence_is_not_judged():
    assert judged(asked("q", ["s1:0"], []), GROUPED) is None


def test_all_measures_have_their_full_names():
    assert set(METRICS) == {
        f"{name}@{k}" for name in ("recall_any", "recall_all", "recall_fraction", "ndcg") for k in (1, 3, 5, 10, 20)
    } | {"mrr@20"}
    assert list(judged(asked("q", ["s1:0"], ["s1:0"]), GROUPED) or {}) == list(METRICS)


def test_only_turns_that_were_stored_as_memories_are_judged_as_turns():
    assert views("turn") == (GROUPED, RAW, TURNS)
    assert views("session") == (GROUPED, RAW)
