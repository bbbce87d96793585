"""What a search does without an index: a filter, cosines and words over plain objects, one after the other."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from retain.core.ports import Chosen, Vectors
from retain.domain.errors import InvalidInputError
from retain.domain.ids import parse_id
from retain.domain.memory import Filter, Memory, Passage
from retain.domain.metadata_filter import metadata_matches
from retain.domain.scoring import REACH, Values, cosines
from retain.domain.text import ROOT, is_within
from retain.storage.words import Terms, spellings, total_weight, weight


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory with its passages, their vectors, and the words of each."""

    memory: Memory
    passages: tuple[Passage, ...]
    vectors: Vectors
    words: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One passage of a memory."""

    kept: Kept
    number: int

    @property
    def words(self) -> frozenset[str]:
        """What it holds: stems and pairs."""
        return self.kept.words[self.number]

    @property
    def text(self) -> str:
        """Its part of the content."""
        passage = self.kept.passages[self.number]
        return self.kept.memory.content[passage.start : passage.end]

    def chosen(self, place: int) -> Chosen:
        """Return it as the chosen candidate at `place`."""
        passage = self.kept.passages[self.number]
        return Chosen(place, self.kept.memory, passage.start, passage.end)


TIMES = ("created_at", "updated_at", "occurred_at", "archived_at")


def to_the_ms(moment: datetime | None) -> Any:
    """Return the time as stores keep it, to the millisecond; None stays None."""
    return None if moment is None else moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def identity(memory: Memory) -> tuple[object, ...]:
    """Return what no two active memories share."""
    if memory.key is not None:
        return (memory.id,)
    return memory.namespace, memory.conversation_id or "", memory.sequence, memory.content_hash


def matches(memory: Memory, where: Filter) -> bool:
    """Whether a memory is meant by `where`."""
    wanted, excluded = _names(where.tags), _names(where.exclude_tags)
    enough = all if where.tag_match == "all" else any
    return (
        memory.state in where.states
        and is_within(memory.namespace, where.namespace or ROOT)
        and (where.ids is None or memory.id in where.ids)
        and (not wanted or enough(tag in memory.tags for tag in wanted))
        and not any(tag in memory.tags for tag in excluded)
        and (not where.types or memory.type in where.types)
        and (where.since is None or memory.occurred_at >= where.since)
        and (where.until is None or memory.occurred_at < where.until)
        and where.agent_id in (None, memory.agent_id)
        and where.conversation_id in (None, memory.conversation_id)
        and metadata_matches(memory.metadata, where.metadata)
    )


def _names(tags: Sequence[str] | str) -> list[str]:
    return [tags] if isinstance(tags, str) and tags else list(tags)


def vectors_of(places: Sequence[Place]) -> Vectors:
    """Return (n, d)."""
    return np.array([place.kept.vectors[place.number] for place in places], dtype=np.float32)


def cosines_to(places: Sequence[Place], vector: Vectors) -> Values:
    """Return (n,) the cosine of each passage, in [-1, 1]."""
    return cosines(vectors_of(places), vector[None, :])[:, 0] if places else np.empty(0)


def word_shares(corpus: Sequence[Place], asked: Terms) -> dict[str, float]:
    """Return what part of the question each of its terms is; how rare they are is counted over the `corpus`."""
    matching = {term: sum(_holds(place, term) for place in corpus) for term in _each(asked)}
    weights = {term: weight(len(corpus), count) for term, count in matching.items()}
    most = total_weight(list(weights.values()), list(matching.values()))
    return {term: value / most for term, value in weights.items()}


def held(places: Sequence[Place], shares: Mapping[str, float]) -> Values:
    """Return (n,) how much of the question each passage holds itself, in [0, 1]."""
    return np.array([sum(share for term, share in shares.items() if _holds(place, term)) for place in places])


class Surroundings:
    """What stands before and after each passage in its conversation or, without one, in its memory."""

    def __init__(self, places: Sequence[Place]) -> None:
        """`places`: memories as they were stored, passages as they stand in them."""
        self._threads: dict[object, list[Place]] = {}
        self._at: dict[tuple[str, int], int] = {}
        for place in places:
            thread = self._threads.setdefault(_thread(place.kept.memory), [])
            self._at[place.kept.memory.id, place.number] = len(thread)
            thread.append(place)

    def number(self, place: Place) -> int:
        """Return a number for the conversation of a passage, or for its memory."""
        return list(self._threads).index(_thread(place.kept.memory))

    def cosines_beside(self, places: Sequence[Place], vector: Vectors, step: int) -> Values:
        """Return (n,) the cosine of the passage a step from each in its conversation; NaN where there is none."""
        cosines = np.full(len(places), np.nan)
        for n, place in enumerate(places):
            there = self.beside(place, step)
            if there is not None and place.kept.memory.conversation_id is not None:
                cosines[n] = cosines_to([there], vector)[0]
        return cosines

    def beside(self, place: Place, step: int) -> Place | None:
        """Return the passage so many steps on (or back); None where there is none."""
        thread = self._threads[_thread(place.kept.memory)]
        wanted = self._at[place.kept.memory.id, place.number] + step
        return thread[wanted] if 0 <= wanted < len(thread) else None

    def held(self, place: Place, shares: Mapping[str, float]) -> float:
        """Return how much of the question a passage holds with those around it, in [0, 1]."""
        steps = {0: 1.0} | {sign * (n + 1): reach for n, reach in enumerate(REACH) for sign in (-1, 1)}
        near = [(reach, there) for step, reach in steps.items() if (there := self.beside(place, step)) is not None]
        return sum(
            share * max((reach for reach, there in near if _holds(there, term)), default=0.0)
            for term, share in shares.items()
        )


def _thread(memory: Memory) -> object:
    return memory.id if memory.conversation_id is None else (memory.namespace, memory.conversation_id)


def _each(asked: Terms) -> list[str]:
    return [*asked.stems, *asked.pairs, *(f"{start}*" for start in asked.starts)]


def _holds(place: Place, term: str) -> bool:
    if term.endswith("*"):
        return any(word.startswith(term[0]) for word in place.words)
    return not place.words.isdisjoint(spellings(term))


def position(memory: Memory) -> tuple[str, str]:
    """Return what listings are sorted by."""
    return memory.created_at.isoformat(timespec="microseconds"), memory.id


def encoded(position: tuple[str, str]) -> str:
    """Return the cursor for the place behind `position`."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode()


def decoded(cursor: str) -> tuple[str, str]:
    """Return the position of a cursor.

    Raises:
        InvalidInputError: it is not one of ours.
    """
    try:
        created_at, id_ = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
        datetime.fromisoformat(created_at)
    except (ValueError, TypeError, RecursionError):
        raise InvalidInputError("cursor is not one that a listing returned", field="cursor") from None
    return created_at, parse_id(id_, field="cursor")
