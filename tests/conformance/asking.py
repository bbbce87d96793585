"""Short questions to a store."""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Entry, MemoryStore, Vectors
from retain.domain.memory import Filter, Model, Page
from retain.domain.scoring import NO_CANDIDATES, Candidates
from tests.conformance.making import MODEL, START

LATER = START + timedelta(hours=1)
ANYWHERE = Filter()


async def contents(store: MemoryStore, where: Filter = ANYWHERE) -> list[str]:
    """Return the contents that match, newest first."""
    return [memory.content for memory in (await store.list(where, Page(1000))).memories]


async def put(store: MemoryStore, *entries: Entry) -> list[str]:
    """Store entries and return the ids they got."""
    return [written.memory.id for written in await store.put(entries, model=MODEL)]


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate as one object."""

    memory_id: str
    start: int
    end: int
    semantic: float | None
    keyword: float | None


async def candidates(
    store: MemoryStore,
    where: Filter,
    k: int,
    *,
    vector: Vectors | None = None,
    text: str | None = None,
    model: Model | None = None,
) -> list[Found]:
    """Return every candidate."""
    offered = NO_CANDIDATES

    def every(candidates: Candidates) -> NDArray[np.intp]:
        nonlocal offered
        offered = candidates
        return np.arange(len(candidates))

    chosen = await store.candidates(where, k, every, vector=vector, text=text, model=model)
    return [
        Found(
            one.memory.id,
            one.start,
            one.end,
            None if offered.semantic is None else float(offered.semantic[one.place]),
            None if offered.keyword is None else float(offered.keyword[one.place]),
        )
        for one in chosen
    ]


async def found_by_words(store: MemoryStore, text: str, where: Filter = ANYWHERE) -> list[str]:
    """Return ids, best keyword match first."""
    best = sorted(await candidates(store, where, 50, text=text), key=lambda found: -(found.keyword or 0))
    return list(dict.fromkeys(found.memory_id for found in best))
