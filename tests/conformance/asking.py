"""Short questions to a store."""

from datetime import timedelta

from retain.core.ports import Candidate, Entry, MemoryStore
from retain.domain.memory import Filter, Page
from tests.conformance.making import MODEL, START

LATER = START + timedelta(hours=1)
ANYWHERE = Filter()


async def contents(store: MemoryStore, where: Filter = ANYWHERE) -> list[str]:
    """Return the contents that match, newest first."""
    return [memory.content for memory in (await store.list(where, Page(1000))).memories]


async def put(store: MemoryStore, *entries: Entry) -> list[str]:
    """Store entries and return the ids they got."""
    return [written.memory.id for written in await store.put(entries, model=MODEL)]


async def found_by_words(store: MemoryStore, text: str, where: Filter = ANYWHERE) -> list[str]:
    """Return ids, best keyword match first."""
    return _ranked(await store.candidates(where, 50, text=text))


def _ranked(candidates: list[Candidate]) -> list[str]:
    best = sorted(candidates, key=lambda found: -((found.semantic or 0) + (found.keyword or 0)))
    return list(dict.fromkeys(found.memory_id for found in best))
