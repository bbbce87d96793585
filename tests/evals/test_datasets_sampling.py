from collections import Counter

import pytest

from retain import InvalidInputError
from retain_evals.datasets import Benchmark, first, longmemeval, sample
from retain_evals.haystack import Haystack, Question

SIZES = {"large": 60, "middle": 30, "small": 9, "tiny": 1}


def question(kind: str, number: int) -> Question:
    return Question(f"{kind}-{number}", kind, "?", "!", None, frozenset(), frozenset())


QUESTIONS = [question(kind, number) for kind, size in SIZES.items() for number in range(size)]
SINGLE = [Haystack(q.id, (), (q,)) for q in QUESTIONS]
CONVERSATIONS = [Haystack(f"c{start}", (), tuple(QUESTIONS[start : start + 20])) for start in range(0, 100, 20)]


def ids(haystacks: list[Haystack]) -> list[str]:
    return [question.id for haystack in haystacks for question in haystack.questions]


def drawn(haystacks: list[Haystack], n: int, seed: int = 1) -> list[str]:
    return ids(list(sample(haystacks, n, seed=seed)))


def test_a_sample_has_n_questions_and_each_type_by_its_size():
    kinds = Counter(question_id.split("-")[0] for question_id in drawn(SINGLE, 20))
    assert kinds == {"large": 11, "middle": 6, "small": 2, "tiny": 1}


@pytest.mark.parametrize("n", [4, 5, 17, 99])
def test_a_sample_with_a_place_for_each_type_has_all_types(n: int):
    assert len(drawn(SINGLE, n)) == n
    assert {question_id.split("-")[0] for question_id in drawn(SINGLE, n)} == set(SIZES)


def test_a_sample_smaller_than_the_number_of_types_takes_the_largest():
    assert {question_id.split("-")[0] for question_id in drawn(SINGLE, 2)} == {"large", "middle"}


def test_a_sample_as_large_as_the_set_is_the_set():
    assert drawn(SINGLE, 100) == drawn(SINGLE, 1000) == ids(SINGLE)


def test_the_same_seed_draws_the_same_and_another_one_draws_others():
    assert drawn(SINGLE, 20) == drawn(SINGLE, 20)
    assert drawn(SINGLE, 20, seed=2) != drawn(SINGLE, 20)


def test_what_is_drawn_does_not_depend_on_the_order_of_the_rows():
    assert sorted(drawn(SINGLE[::-1], 20)) == sorted(drawn(SINGLE, 20))


def test_what_a_seed_draws_never_changes():
    assert drawn(SINGLE, 5) == ["large-10", "large-18", "middle-3", "small-1", "tiny-0"]


def test_a_conversation_keeps_only_the_questions_that_were_drawn():
    assert drawn(CONVERSATIONS, 20) == drawn(SINGLE, 20)
    assert all(haystack.questions for haystack in sample(CONVERSATIONS, 3, seed=1))


def test_a_sample_needs_haystacks_that_can_be_read_twice():
    with pytest.raises(InvalidInputError, match="read twice"):
        sample(iter(SINGLE), 5, seed=1)


def test_a_sample_reads_a_benchmark_twice():
    reads = 0

    class Rows:
        def __iter__(self):
            nonlocal reads
            reads += 1
            return iter(())

    assert list(sample(Benchmark("longmemeval", Rows(), longmemeval), 5, seed=1)) == []
    assert reads == 2


def test_the_first_n_questions_come_and_no_row_after_them_is_read():
    def endless():
        yield from CONVERSATIONS
        raise AssertionError("read on")

    assert ids(list(first(endless(), 30))) == [question.id for question in QUESTIONS[:30]]
    assert ids(list(first(SINGLE, 1000))) == ids(SINGLE)


@pytest.mark.parametrize("n", [0, -1])
def test_no_questions_at_all_are_refused(n: int):
    with pytest.raises(InvalidInputError, match="ask for at least 1"):
        sample(SINGLE, n, seed=1)
    with pytest.raises(InvalidInputError, match="ask for at least 1"):
        first(SINGLE, n)
