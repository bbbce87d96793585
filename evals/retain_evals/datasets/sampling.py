"""A part of a benchmark's questions: a stratified sample, or the first ones."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from dataclasses import replace

from retain import InvalidInputError
from retain_evals.haystack import Haystack


def sample(haystacks: Iterable[Haystack], n: int, /, *, seed: int) -> Iterator[Haystack]:
    """Yield the haystacks of n questions, drawn by type; each holds only the questions that were drawn.

    The types share the n places in proportion to their size (Sainte-Laguë), once each has one; with fewer places than
    types the largest types get them. Within a type the questions with the lowest SHA-256 of seed and id are drawn: the
    order of the rows doesn't matter, and a smaller sample of the same seed is, as far as its places go, part of a
    larger one. Haystacks come in their order, all of them when n is at least the number of questions.

    `haystacks` is read twice, the first time for ids and types only, so that no more than one haystack is in memory.

    Raises:
        InvalidInputError: n is below 1, or `haystacks` is an iterator, which can't be read twice.
    """
    _require_some(n)
    if iter(haystacks) is haystacks:
        raise InvalidInputError(
            "a sample needs haystacks that can be read twice, such as a Benchmark or a list, not an iterator",
            field="haystacks",
        )
    return _those_of(haystacks, _drawn(haystacks, n, seed))


def first(haystacks: Iterable[Haystack], n: int, /) -> Iterator[Haystack]:
    """Yield the haystacks of the first n questions; the last one holds only the questions that fit.

    Raises:
        InvalidInputError: n is below 1.
    """
    _require_some(n)
    return _up_to(haystacks, n)


def _require_some(n: int) -> None:
    if n < 1:
        raise InvalidInputError(f"{n} questions can't be evaluated; ask for at least 1", field="n")


def _up_to(haystacks: Iterable[Haystack], left: int) -> Iterator[Haystack]:
    for haystack in haystacks:
        part = replace(haystack, questions=haystack.questions[:left])
        if part.questions:
            yield part
        left -= len(part.questions)
        if not left:
            return


def _those_of(haystacks: Iterable[Haystack], drawn: Set[str]) -> Iterator[Haystack]:
    for haystack in haystacks:
        questions = tuple(question for question in haystack.questions if question.id in drawn)
        if questions:
            yield replace(haystack, questions=questions)


def _drawn(haystacks: Iterable[Haystack], n: int, seed: int) -> set[str]:
    ids: dict[str, list[str]] = {}
    for haystack in haystacks:
        for question in haystack.questions:
            ids.setdefault(question.type, []).append(question.id)
    places = _places({kind: len(of_kind) for kind, of_kind in ids.items()}, n)
    return {
        question_id
        for kind, of_kind in ids.items()
        for question_id in sorted(of_kind, key=lambda question_id: _lot(seed, question_id))[: places[kind]]
    }


def _places(sizes: dict[str, int], n: int) -> Counter[str]:
    """Return how many questions of each type are drawn."""
    places: Counter[str] = Counter()
    for _ in range(min(n, sum(sizes.values()))):
        open_types = sorted(kind for kind, size in sizes.items() if places[kind] < size)
        places[max(open_types, key=lambda kind: (not places[kind], sizes[kind] / (2 * places[kind] + 1)))] += 1
    return places


def _lot(seed: int, question_id: str) -> bytes:
    return hashlib.sha256(f"{seed}:{question_id}".encode()).digest()
