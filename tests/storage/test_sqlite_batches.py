"""Storing many memories at once does what storing them one by one does."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from retain.core.ports import Entry, Written
from retain.domain.errors import ConflictError, NotFoundError
from retain.domain.memory import EVERYTHING, Memory, TurnSpan
from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.making import MODEL, START, entry

_BATCHES = 12
_PLACES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"namespace": "/a"},
    {"conversation_id": "c"},
    {"conversation_id": "c", "sequence": 0},
)


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Another database."""
    store = await open_sqlite(tmp_path / "apart.db", clock=lambda: START)
    yield store
    await store.aclose()


@pytest.mark.parametrize("seed", range(8))
async def test_a_batch_does_what_its_entries_do_one_by_one(store: SqliteStore, apart: SqliteStore, seed: int) -> None:
    chance = random.Random(seed)
    ids: list[str] = []
    for number in range(_BATCHES):
        batch: list[Entry] = []
        one_by_one: list[Written] = []
        for _ in range(chance.randrange(1, 12)):
            made = _made_up(chance, ids, number)
            try:
                one_by_one += await apart.put([made], model=MODEL)
            except (ConflictError, NotFoundError):
                continue
            batch.append(made)
            ids.append(made.memory.id)
        written = await store.put(batch, model=MODEL)
        assert [(one.memory.id, one.created) for one in written] == [(o.memory.id, o.created) for o in one_by_one]
        assert [one.memory for one in written] == await store.get([one.memory.id for one in written])
        doomed = replace(EVERYTHING, ids=tuple(chance.sample(ids, min(2, len(ids)))))
        assert await store.delete(doomed, at=START) == await apart.delete(doomed, at=START)
        assert await _all(store) == await _all(apart)
    assert await store.tombstones(EVERYTHING) == await apart.tombstones(EVERYTHING)
    assert await store.tags(EVERYTHING) == await apart.tags(EVERYTHING)
    assert await store.events(0, 1_000, namespace="/") == await apart.events(0, 1_000, namespace="/")
    assert await store.check() == []


def _made_up(chance: random.Random, ids: list[str], number: int) -> Entry:
    """Return an entry that is often a repeat, a replacement, put away, or of an id that was there before."""
    made = entry(
        f"text {chance.randrange(25)} 會議",
        chance.choices("abcd", k=chance.randrange(4)),
        after=number,
        supersedes=chance.choice(ids) if ids and chance.random() < 0.2 else None,
        archived_at=START if chance.random() < 0.1 else None,
        **chance.choice(_PLACES),
    )
    if ids and chance.random() < 0.2:
        return replace(made, memory=replace(made.memory, id=chance.choice(ids)))
    return made


async def _all(store: SqliteStore) -> list[Memory]:
    return await store.get(await store.ids(EVERYTHING))


async def test_what_storing_returns_is_what_is_read_afterwards(store: SqliteStore) -> None:
    finer = START + timedelta(microseconds=1_999)
    given = [
        entry("plain", ["b", "a", "b"], metadata={"list": (1, 2.0), "none": None}),
        entry("finer than a millisecond", created_at=finer, updated_at=finer, occurred_at=finer),
        entry("turns", turns=(TurnSpan("user", 0, 2, finer), TurnSpan("assistant", 2, 5)), conversation_id="c"),
        entry("away", archived_at=finer, agent_id="r", namespace="/x"),
    ]
    written = [one.memory for one in await store.put(given, model=MODEL)]
    assert written == await store.get([one.memory.id for one in given])
    assert written[0] == replace(given[0].memory, tags=("b", "a"), metadata={"list": [1, 2.0], "none": None})


async def test_a_memory_of_a_batch_that_is_replaced_within_it_comes_back_replaced(store: SqliteStore) -> None:
    first = entry("first")
    one, two = await store.put([first, entry("second", supersedes=first.memory.id)], model=MODEL)
    assert one.created and two.created
    assert one.memory.superseded_by == two.memory.id
    assert [event.kind for event in await store.events(0, 9, namespace="/")] == ["stored", "updated", "stored"]


async def test_a_batch_of_memories_without_passages_is_stored(store: SqliteStore) -> None:
    empty = entry("kept, not searched")
    await store.put([replace(empty, passages=[], vectors=empty.vectors[:0])], model=MODEL)
    assert await store.unsearchable(9) == [empty.memory]
