"""Switching to another model: resumable, complete, and nothing but vectors changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retain.core.ports import Entry
from retain.domain.errors import ConflictError, EmbeddingError, ModelMismatchError
from retain.domain.memory import EVERYTHING, Filter, Memory, Model, Page, Passage
from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, unit
from tests.storage.conftest import Open

NEW = Model("new-model", 48)


def embedded(memory: Memory) -> Entry:
    """Return the memory in two passages with vectors of the new model."""
    half = len(memory.content) // 2
    vectors = np.stack([unit(len(memory.content), dimensions=48), unit(half, dimensions=48)])
    return Entry(memory, [Passage(0, half), Passage(half, len(memory.content))], vectors)


async def embed_all(store: SqliteStore, model: Model = NEW) -> None:
    while memories := await store.unembedded(3):
        await store.put_reembedded([embedded(memory) for memory in memories], model=model)


async def everything(store: SqliteStore) -> list[object]:
    """Return all that a re-embedding must not touch."""
    return [
        (await store.list(EVERYTHING, Page())).memories, await store.tags(EVERYTHING),
        await store.tombstones(Filter()), await store.events(0, 99, namespace="/"),
    ]  # fmt: skip


async def test_everything_but_passages_and_vectors_stays_the_same(store: SqliteStore) -> None:
    # C012
    written = await store.put(
        [entry(f"memory number {n} 数据库", [f"t{n % 2}"], metadata={"n": n}, after=n) for n in range(10)], model=MODEL
    )
    await store.delete(Filter(ids=tuple(one.memory.id for one in written[:2])), at=START)
    await store.update(written[2].memory.id, edit(archived_at=START))
    before = await everything(store)
    assert await store.begin_reembedding(NEW) == 8
    await embed_all(store)
    assert await store.model() == MODEL
    assert await store.finish_reembedding(NEW)
    assert await everything(store) == before
    assert await store.model() == NEW
    assert await store.check() == []
    found = await candidates(store, Filter(), 20, vector=unit(9, dimensions=48), text="数据", model=NEW)
    assert len({one.memory_id for one in found}) == 7
    with pytest.raises(ModelMismatchError):
        await candidates(store, Filter(), 5, vector=unit(1), model=MODEL)
    await store.put([entry("after", vector=unit(1, dimensions=48))], model=NEW)


async def test_it_goes_on_where_it_was_interrupted(store: SqliteStore, path: Path) -> None:
    await store.put([entry(f"memory {n}") for n in range(6)], model=MODEL)
    await store.begin_reembedding(NEW)
    await store.put_reembedded([embedded(memory) for memory in await store.unembedded(4)], model=NEW)
    assert not await store.finish_reembedding(NEW)
    await store.aclose()
    again = await open_sqlite(path, clock=lambda: START)
    assert await again.begin_reembedding(NEW) == 2
    third = Model("a third", 48)
    assert await again.begin_reembedding(third) == 6
    await embed_all(again, third)
    assert await again.finish_reembedding(third)
    with pytest.raises(ConflictError):
        await again.finish_reembedding(NEW)
    with pytest.raises(ConflictError):
        await again.put_reembedded([], model=NEW)
    await again.aclose()


async def test_what_others_write_meanwhile_is_not_forgotten(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    written = await other.put([entry(f"memory {n}") for n in range(5)], model=MODEL)
    ids = [each.memory.id for each in written]
    await candidates(other, Filter(), 5, vector=unit(1), text="memory", model=MODEL)
    await one.begin_reembedding(NEW)
    stale = await one.unembedded(10)
    await other.update(ids[1], edit("edited before its vectors came"), model=MODEL)
    await one.put_reembedded([embedded(memory) for memory in stale], model=NEW)
    await other.update(ids[2], edit("edited after its vectors came"), model=MODEL)
    await other.delete(Filter(ids=(ids[3],)), at=START)
    await other.put([entry("came in meanwhile")], model=MODEL)
    assert not await one.finish_reembedding(NEW)
    assert len(await one.unembedded(10)) == 3
    await embed_all(one)
    assert await one.finish_reembedding(NEW)
    found = await candidates(other, Filter(), 50, vector=unit(4, dimensions=48), text="meanwhile", model=NEW)
    assert len({each.memory_id for each in found}) == 5
    assert await other.check() == []


async def test_vectors_of_the_wrong_size_are_refused(store: SqliteStore) -> None:
    (written,) = await store.put([entry("memory")], model=MODEL)
    await store.begin_reembedding(NEW)
    with pytest.raises(EmbeddingError):
        await store.put_reembedded(
            [replace(embedded(written.memory), vectors=np.zeros((2, 7), dtype=np.float32))], model=NEW
        )
    assert len(await store.unembedded(10)) == 1


async def test_two_reembeddings_with_different_models_never_mix(store: SqliteStore) -> None:
    await store.put([entry(f"memory {n}", vector=unit(n)) for n in range(4)], model=MODEL)
    await store.begin_reembedding(NEW)
    other = Model("another-model", 48)
    await store.begin_reembedding(other)
    memories = await store.unembedded(9)
    with pytest.raises(ConflictError, match="another-model"):
        await store.put_reembedded([embedded(memory) for memory in memories], model=NEW)
    with pytest.raises(ConflictError, match="another-model"):
        await store.finish_reembedding(NEW)
    await store.put_reembedded([embedded(memory) for memory in memories], model=other)
    assert await store.finish_reembedding(other)
    assert await store.model() == other
