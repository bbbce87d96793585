"""What a search does without an index: a filter, cosines and BM25 over plain objects, one after the other."""

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
from retain.domain.scoring import Values
from retain.domain.text import ROOT, is_within
from retain.storage.words import K1, B, Terms, metadata_matches, spellings, weight


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
    def length(self) -> int:
        """Its length in characters."""
        passage = self.kept.passages[self.number]
        return passage.end - passage.start

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


def cosines_to(places: Sequence[Place], vector: Vectors) -> Values:
    """Return (n,) the cosine of each passage, in [-1, 1]."""
    if not places:
        return np.empty(0)
    rows = np.array([place.kept.vectors[place.number] for place in places], dtype=np.float64)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    return np.clip(rows @ vector / np.where(lengths > 0, lengths, 1), -1, 1)


def shares(places: Sequence[Place], corpus: Sequence[Place], asked: Terms) -> Values:
    """Return (n,) BM25 as a share of the most that the question could reach; statistics over the whole `corpus`."""
    average = max(sum(place.length for place in corpus) / max(len(corpus), 1), 1)
    idf = {term: weight(len(corpus), sum(_holds(place, term) for place in corpus)) for term in _each(asked)}
    most = sum(idf.values()) * (K1 + 1) or 1
    return np.array([_bm25(place, idf, average) / most for place in places])


def _bm25(place: Place, idf: Mapping[str, float], average: float) -> float:
    held = sum(idf[term] for term in idf if _holds(place, term))
    return held * (K1 + 1) / (1 + K1 * (1 - B + B * place.length / average))


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
