import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retain.domain.memory import RecallMode
from retain.domain.scoring import (
    ABSENT_SHARE,
    AROUND,
    LEADERS,
    OWN,
    REACH,
    USUAL,
    Candidates,
    Weighing,
    best_of_threads,
    best_passages,
    evidence,
    scores,
)
from retain.domain.scoring import cosines as cosines_between

MODES: list[RecallMode] = ["hybrid", "semantic", "keyword"]
cosines = st.floats(-1, 1)
shares = st.floats(0, 1)
beside = st.one_of(st.just(math.nan), cosines)


def found(*passages: tuple[int, float, float]) -> Candidates:
    """Passages as (number of the memory, cosine, keyword share), each memory without a conversation."""
    numbers, semantic, keyword = zip(*passages, strict=True)
    return Candidates(
        np.array(numbers), np.array(numbers), np.array(semantic, dtype=float), np.array(keyword, dtype=float)
    )


def in_a_conversation(own: float, before: float, after: float, keyword: float = 0, around: float = 0) -> Candidates:
    """One passage with those before and after it."""
    return Candidates(
        memories=np.array([1]),
        threads=np.array([1]),
        semantic=np.array([own]),
        keyword=np.array([keyword]),
        keyword_around=np.array([max(keyword, around)]),
        before=np.array([before]),
        after=np.array([after]),
    )


def score(cosine: float, share: float = 0.0, mode: RecallMode = "hybrid") -> float:
    return float(scores(evidence(found((1, cosine, share)), mode), mode)[0])


def ranked(candidates: Candidates, mode: RecallMode = "hybrid") -> list[int]:
    return best_passages(candidates, scores(evidence(candidates, mode), mode)).tolist()


founds = st.lists(st.tuples(st.integers(1, 4), cosines, shares), min_size=1).map(lambda passages: found(*passages))


@st.composite
def whole_candidates(draw: st.DrawFn) -> Candidates:
    """Candidates with everything that a hybrid search finds."""
    n = draw(st.integers(1, 8))

    def column(values: st.SearchStrategy[float]) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=n, max_size=n)))

    keyword = column(shares)
    vectors = np.random.default_rng(draw(st.integers(0, 99))).normal(size=(n, 4))
    memories = np.sort(np.array(draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))))
    return Candidates(
        memories=memories,
        threads=memories % 3,
        semantic=column(cosines),
        keyword=keyword,
        keyword_around=np.maximum(keyword, column(shares)),
        before=column(beside),
        after=column(beside),
        vectors=(vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32),
    )


@given(cosines, shares, st.sampled_from(MODES))
def test_a_score_lies_between_zero_and_one(cosine: float, share: float, mode: RecallMode):
    assert 0 <= score(cosine, share, mode) <= 1


@given(cosines, shares)
def test_a_score_is_the_curve_over_the_weighed_sum_of_the_evidence(cosine: float, share: float):
    total = max(cosine, 0.0) + 0.7 * share
    assert score(cosine, share) == pytest.approx(1 - math.exp(-((total / 0.6) ** 2.5)), abs=1e-12)


@given(shares, shares, shares)
def test_all_three_parts_of_a_score_add_up(semantic: float, keyword: float, related: float):
    parts = {"semantic": np.array([semantic]), "keyword": np.array([keyword]), "related": np.array([related])}
    total = semantic + 2 * keyword + 0.5 * related
    assert scores(parts, "hybrid", Weighing(keyword=2, related=0.5))[0] == pytest.approx(
        1 - math.exp(-((total / 0.6) ** 2.5)), abs=1e-12
    )


@pytest.mark.parametrize("mode", ["semantic", "keyword"])
def test_a_single_signal_counts_whole_whatever_the_weights(mode: RecallMode):
    parts = {mode: np.array([0.5])}
    assert scores(parts, mode, Weighing(keyword=0, related=0)) == scores(parts, mode) == pytest.approx(score(0.5))


@given(cosines, cosines, shares, shares)
def test_more_evidence_never_lowers_a_score(a: float, b: float, c: float, d: float):
    assert score(max(a, b), max(c, d)) >= score(min(a, b), min(c, d))


@pytest.mark.parametrize("name", ["semantic", "keyword", "related"])
@given(parts=st.tuples(shares, shares, shares), more=shares)
def test_a_score_never_falls_when_one_part_grows(name: str, parts: tuple[float, float, float], more: float):
    less = {part: np.array([value]) for part, value in zip(("semantic", "keyword", "related"), parts, strict=True)}
    grown = less | {name: np.maximum(less[name], more)}
    assert scores(grown, "hybrid") >= scores(less, "hybrid")


@pytest.mark.parametrize("name", ["semantic", "keyword", "related"])
def test_a_score_grows_with_each_part(name: str):
    parts = {part: np.array([0.2, 0.2]) for part in ("semantic", "keyword", "related")}
    parts[name] = np.array([0.2, 0.3])
    low, high = scores(parts, "hybrid")
    assert high > low + 0.01


@given(cosines, shares)
def test_a_second_signal_never_lowers_a_score(cosine: float, share: float):
    assert score(cosine, share) >= max(score(cosine, 0), score(0, share))
    assert score(cosine, share, "semantic") == score(cosine, 0)
    assert score(cosine, share, "keyword") >= score(0, share)


def test_identical_text_scores_near_one_in_each_mode():
    assert score(1) > 0.95
    assert score(0, 1, "keyword") > 0.95
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


@given(whole_candidates(), st.sampled_from(MODES), shares)
def test_each_part_of_a_score_lies_between_zero_and_one(candidates: Candidates, mode: RecallMode, surroundings: float):
    least = -1 if mode == "semantic" else 0  # the cosine as it is
    for part in evidence(candidates, mode, Weighing(surroundings=surroundings)).values():
        assert part.shape == candidates.memories.shape
        assert ((part >= least) & (part <= 1)).all()


@given(cosines, cosines, cosines)
def test_in_a_conversation_a_cosine_is_mixed_with_those_beside_it(own: float, before: float, after: float):
    part = evidence(in_a_conversation(own, before, after), "hybrid")["semantic"][0]
    mixed = 0.7 * max(own, 0) + 0.5 * (max(before, 0) + max(after, 0)) / 2
    assert part == pytest.approx(min(1, mixed))


@given(cosines)
def test_a_passage_that_stands_alone_keeps_its_cosine(own: float):
    part = evidence(in_a_conversation(own, math.nan, math.nan), "hybrid")["semantic"][0]
    assert part == pytest.approx(max(own, 0))


@given(cosines, cosines)
def test_a_missing_neighbour_counts_as_a_usual_one(own: float, after: float):
    first = evidence(in_a_conversation(own, math.nan, after), "hybrid")["semantic"][0]
    usual = evidence(in_a_conversation(own, 0.6 * own, after), "hybrid")["semantic"][0]
    assert first == pytest.approx(usual)


@given(cosines, beside, beside, shares, shares)
def test_without_surroundings_a_passage_stands_for_itself(
    own: float, before: float, after: float, keyword: float, around: float
):
    candidates = in_a_conversation(own, before, after, keyword, around)
    parts = evidence(candidates, "hybrid", Weighing(surroundings=0))
    assert parts["semantic"] == pytest.approx(max(own, 0))
    assert parts["keyword"] == pytest.approx(keyword)


@given(whole_candidates())
def test_without_weight_words_change_no_score(candidates: Candidates):
    weighing = Weighing(keyword=0)
    nothing = np.zeros(len(candidates))
    wordless = replace(candidates, keyword=nothing, keyword_around=nothing)
    mine, others = (scores(evidence(each, "hybrid", weighing), "hybrid", weighing) for each in (candidates, wordless))
    assert mine == pytest.approx(others)


def test_without_weight_words_make_no_leader():
    said = replace(
        with_vectors((1, 0.9, (1, 0)), (2, 0.9, (1, 0)), (3, 0.9, (1, 0)), (4, 0.5, (0, 1))),
        keyword=np.array([0, 0, 0, 1.0]),
    )
    assert evidence(said, "hybrid", Weighing(keyword=0))["related"] == pytest.approx([0.9, 0.9, 0.9, 0])
    assert evidence(said, "hybrid")["related"] == pytest.approx([2 / 3, 2 / 3, 2 / 3, 1 / 3])


@given(whole_candidates())
def test_without_weight_relation_changes_no_score(candidates: Candidates):
    weighing = Weighing(related=0)
    alone = evidence(replace(candidates, vectors=None), "hybrid", weighing)
    assert "related" not in alone
    with_relation = scores(evidence(candidates, "hybrid", weighing), "hybrid", weighing)
    assert with_relation == pytest.approx(scores(alone, "hybrid", weighing))


def test_shares_that_rounding_raised_above_one_count_as_one():
    candidates = in_a_conversation(0.5, math.nan, math.nan, keyword=1 + 1e-6, around=1 + 2e-6)
    assert evidence(candidates, "keyword")["keyword"].tolist() == [1]


def test_words_around_a_passage_count_with_it():
    candidates = in_a_conversation(0.5, 0.9, 0.9, keyword=0.2, around=0.6)
    assert evidence(candidates, "hybrid")["keyword"] == pytest.approx(0.6)
    assert evidence(candidates, "keyword")["keyword"] == pytest.approx(0.6)
    assert evidence(candidates, "hybrid", Weighing(surroundings=0.5))["keyword"] == pytest.approx(0.4)


def test_a_semantic_search_compares_each_passage_alone():
    assert evidence(in_a_conversation(0.5, 0.9, 0.9), "semantic") == {"semantic": pytest.approx(0.5)}


def with_vectors(*passages: tuple[int, float, tuple[float, float]]) -> Candidates:
    """Passages as (thread, cosine, vector), each a memory of its own."""
    threads, semantic, vectors = zip(*passages, strict=True)
    n = len(threads)
    return Candidates(
        memories=np.arange(n),
        threads=np.array(threads),
        semantic=np.array(semantic),
        keyword=np.zeros(n),
        before=np.full(n, np.nan),
        after=np.full(n, np.nan),
        vectors=np.array(vectors, dtype=np.float32),
    )


def test_what_is_near_the_best_answers_is_related():
    near, far = (0.8, 0.6), (0.0, 1.0)
    candidates = with_vectors((1, 0.9, (1, 0)), (2, 0.8, (1, 0)), (3, 0.7, (1, 0)), (4, 0.3, near), (5, 0.3, far))
    related = evidence(candidates, "hybrid")["related"]
    assert related == pytest.approx(0.9 * np.array([1, 1, 1, 0.8, 0]))
    assert ranked(candidates) == [0, 1, 2, 3, 4]


def test_related_looks_at_one_passage_of_each_of_the_best_conversations():
    candidates = with_vectors(
        (1, 0.9, (1, 0)), (1, 0.89, (0, 1)), (1, 0.88, (0, 1)), (2, 0.5, (1, 0)), (3, 0.4, (1, 0)), (4, 0.1, (0, 1))
    )
    assert LEADERS == 3
    assert evidence(candidates, "hybrid")["related"] == pytest.approx(0.9 * np.array([1, 0, 0, 1, 1, 0]))


def test_relation_counts_no_more_than_whole_however_good_the_best_answer_is():
    candidates = with_vectors((1, 1.0, (1, 0)), (2, 1.0, (1, 0)), (3, 1.0, (1, 0)), (4, 0.1, (0.6, 0.8)))
    candidates = replace(candidates, keyword=np.array([1, 1, 1, 0.0]))
    assert evidence(candidates, "hybrid")["related"] == pytest.approx([1, 1, 1, 0.6])


def test_the_opposite_of_the_best_answers_is_not_related():
    candidates = with_vectors((1, 0.9, (1, 0)), (2, 0.8, (1, 0)), (3, 0.7, (1, 0)), (4, 0.1, (-1, 0)))
    assert evidence(candidates, "hybrid")["related"][3] == 0


def test_nothing_is_related_when_nothing_answers():
    assert evidence(with_vectors((1, 0.0, (1, 0)), (2, 0.0, (1, 0))), "hybrid")["related"].tolist() == [0, 0]


def test_a_conversation_that_is_missing_among_the_best_three_is_near_nothing():
    candidates = with_vectors((1, 0.9, (1, 0)))
    assert evidence(candidates, "hybrid")["related"] == pytest.approx(0.9 / LEADERS)


@given(whole_candidates(), st.sampled_from(MODES))
def test_ranking_gives_each_memory_once_best_first(candidates: Candidates, mode: RecallMode):
    scored = scores(evidence(candidates, mode), mode)
    best = best_passages(candidates, scored)
    assert sorted(candidates.memories[best].tolist()) == sorted(set(candidates.memories.tolist()))
    assert scored[best].tolist() == sorted(scored[best].tolist(), reverse=True)


@given(founds)
def test_a_memory_scores_as_its_best_passage(candidates: Candidates):
    scored = scores(evidence(candidates, "hybrid"), "hybrid")
    for place in best_passages(candidates, scored).tolist():
        own = scored[candidates.memories == candidates.memories[place]]
        assert scored[place] == own.max()


@given(whole_candidates())
def test_of_each_conversation_the_best_passage_is_kept_in_order(candidates: Candidates):
    scored = scores(evidence(candidates, "hybrid"), "hybrid")
    everything = best_passages(candidates, scored)
    firsts = best_of_threads(candidates, everything).tolist()
    expected: dict[int, int] = {}
    for place in everything.tolist():
        expected.setdefault(int(candidates.threads[place]), place)
    assert firsts == list(expected.values())


def test_ties_go_to_the_memory_stored_later_and_the_earlier_passage():
    assert ranked(found((1, 0.5, 0), (2, 0.5, 0), (2, 0.5, 0), (3, 0.4, 0))) == [1, 0, 3]


@pytest.mark.parametrize(
    ("mode", "names"),
    [("hybrid", ["semantic", "keyword", "related"]), ("semantic", ["semantic"]), ("keyword", ["keyword"])],
)
def test_each_mode_reads_only_its_own_signals(mode: RecallMode, names: list[str]):
    assert list(evidence(with_vectors((1, 0.5, (1, 0))), mode)) == names


def test_the_usual_weights_are_the_documented_ones():
    assert Weighing(keyword=0.7, related=0.3, surroundings=1.0) == USUAL
    assert (REACH, ABSENT_SHARE, OWN, AROUND, LEADERS) == ((0.6, 0.5, 0.4), 0.25, 0.7, 0.5, 3)


@given(st.integers(0, 999), st.integers(1, 5), st.integers(1, 5))
def test_a_cosine_is_that_of_the_directions_whatever_the_lengths(seed: int, n: int, m: int):
    random = np.random.default_rng(seed)
    rows, others = (random.normal(size=(count, 4)).astype(np.float32) for count in (n, m))
    between = cosines_between(rows * np.float32(random.uniform(0.1, 50)), others)
    assert between.shape == (n, m)
    for row in range(n):
        for other in range(m):
            one, two = rows[row].astype(float), others[other].astype(float)
            assert between[row, other] == pytest.approx(one @ two / (math.hypot(*one) * math.hypot(*two)), abs=1e-5)


def test_a_vector_of_zeros_has_no_direction():
    between = cosines_between(np.array([[0, 0], [3, 4]], np.float32), np.array([[0, 0], [6, 8]], np.float32))
    assert between.tolist() == [[0, 0], [0, pytest.approx(1)]]


def test_equal_rows_of_whole_numbers_have_equal_cosines_to_the_last_bit():
    random = np.random.default_rng(5)
    rows = random.integers(-127, 128, size=(40, 384)).astype(np.float32)
    other = random.integers(-127, 128, size=(1, 384)).astype(np.float32)
    alone = [cosines_between(rows[[n]], other)[0, 0] for n in range(len(rows))]
    assert cosines_between(rows, other)[:, 0].tolist() == alone


def test_nothing_ranks_as_nothing():
    assert ranked(Candidates(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), None)) == []
