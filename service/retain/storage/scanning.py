"""What a search does without an index: a filter, cosines and BM25 over plain objects, one after the other."""

import base64
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from retain.core.ports import Candidate, Vectors
from retain.domain.errors import InvalidInputError
from retain.domain.ids import parse_id
from retain.domain.memory import Filter, Memory, Passage
from retain.domain.text import ROOT, is_within
from retain.storage.words import K1, B, Terms, metadata_matches, spellings, weight


@dataclass(frozen=True, slots=True)
class Kept:
    """A memory with its passages, their vectors, and the words of each."""

    memory: Memory
    passages: tuple[Passage, ...]
    vectors: Vectors
    words: tuple[Counter[str], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """One passage of a memory."""

    kept: Kept
    number: int

    def candidate(self, semantic: float | None, keyword: float | None) -> Candidate:
        """Return the passage as a candidate with those values."""
        memory, passage = self.kept.memory, self.kept.passages[self.number]
        return Candidate(memory.id, memory.conversation_id, passage.start, passage.end, semantic, keyword)


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


def cosines_to(places: Sequence[Place], vector: Vectors) -> list[float]:
    """Return the cosine of each passage, in [-1, 1]."""
    if not places:
        return []
    rows = np.array([place.kept.vectors[place.number] for place in places])
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    return np.clip(rows @ vector / np.where(lengths > 0, lengths, 1), -1, 1).tolist()


def shares(places: Sequence[Place], corpus: Sequence[Counter[str]], asked: Terms) -> list[float]:
    """Return BM25 as a share of the most that the question could reach; statistics over the whole `corpus`."""
    average = max(sum(words.total() for words in corpus) / max(len(corpus), 1), 1)
    idf = {term: weight(len(corpus), sum(_frequency(w, term) > 0 for w in corpus)) for term in _each(asked)}
    most = sum(idf.values()) * (K1 + 1) or 1
    return [
        sum(_bm25(place.kept.words[place.number], term, average) * idf[term] for term in idf) / most for place in places
    ]


def _each(asked: Terms) -> list[str]:
    return [*asked.stems, *asked.pairs, *(f"{start}*" for start in asked.starts)]


def _frequency(words: Counter[str], term: str) -> int:
    if term.endswith("*"):
        return sum(count for word, count in words.items() if word.startswith(term[0]))
    return sum(words[form] for form in spellings(term))


def _bm25(words: Counter[str], term: str, average: float) -> float:
    frequency = _frequency(words, term)
    return frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * words.total() / average))


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
