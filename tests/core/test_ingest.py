"""Importing many: what overlaps, what is left after a failure, how a second run goes on. The model is a stand-in."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from retain import EmbeddingError, MemoryPatch, NewMemory
from retain.core.api import Record
from retain.core.embedding import PART
from retain.core.ingest import BATCH, BATCH_CHARS, UNDER_WAY
from retain.core.ports import Entry, Written
from retain.core.service import MemoryService
from retain.embeddings import open_embedder
from retain.embeddings.hashed import HashedEmbedder
from retain.embeddings.onnx import OnnxEmbedder, SentenceModel
from retain.storage.in_memory import InMemoryStore
from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conftest import SetClock


class Held(HashedEmbedder):
    """Remembers what it was asked to embed, and fails when told to."""

    def __init__(self) -> None:
        super().__init__(dimensions=16)
        self.asked: list[str] = []
        self.bad = ""
        self._more = asyncio.Event()

    async def embed_passages(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        self.asked += texts
        self._more.set()
        if self.bad in texts:
            raise EmbeddingError("out of luck")
        return await super().embed_passages(texts)

    async def has_been_asked_for(self, count: int) -> None:
        while len(self.asked) < count:
            self._more.clear()
            await self._more.wait()


@pytest.fixture
def embedder() -> Held:
    return Held()


@pytest.fixture
def importing(store: SqliteStore, embedder: Held, clock: SetClock) -> MemoryService:
    return MemoryService(store, embedder, clock=clock)


@pytest.fixture
async def records(clock: SetClock) -> list[Record]:
    """An export of seven batches and a half; its memories are called m0, m1, …"""
    source = MemoryService(InMemoryStore(clock=clock), HashedEmbedder(dimensions=16), clock=clock)
    texts = [f"m{number}" for number in range(7 * BATCH + BATCH // 2)]
    for start in range(0, len(texts), 1_000):
        await source.store_many(texts[start : start + 1_000])
    return [record async for record in source.export()]


async def stream(records: Iterable[Record], *, read: Callable[[Record], object] = id) -> AsyncIterator[Record]:
    for record in records:
        read(record)
        yield record


async def total(service: MemoryService) -> int:
    return (await service.list()).total


async def test_all_is_stored_in_the_order_of_the_file(importing: MemoryService, records: list[Record]) -> None:
    imported = await importing.import_records(stream(records))
    assert (imported.created, imported.skipped) == (len(records) - 1, 0)
    assert [record["content"] async for record in importing.export() if record["kind"] == "memory"] == [
        record["content"] for record in records[1:]
    ]
    keys = await importing._store._database.read(lambda db: db.rows("SELECT content FROM memory ORDER BY key"))
    assert [content for (content,) in keys] == [record["content"] for record in records[1:]]


async def test_the_next_batches_are_embedded_while_one_is_written(
    importing: MemoryService, embedder: Held, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    put = importing._store.put

    async def waits_for_later_ones(entries: Sequence[Entry], **more: Any) -> Sequence[Written]:
        if entries[0].memory.content == "m0":
            await embedder.has_been_asked_for(3 * BATCH)
        return await put(entries, **more)

    monkeypatch.setattr(importing._store, "put", waits_for_later_ones)
    async with asyncio.timeout(20):
        assert (await importing.import_records(stream(records))).created == len(records) - 1


async def test_only_a_few_batches_are_in_memory_at_once(
    importing: MemoryService, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    put, written, ahead = importing._store.put, list[Entry](), list[int]()
    read: list[Record] = []

    async def noted(entries: Sequence[Entry], **more: Any) -> Sequence[Written]:
        done = await put(entries, **more)
        written.extend(entries)
        return done

    def count(record: Record) -> None:
        read.append(record)
        ahead.append(len(read) - len(written))

    monkeypatch.setattr(importing._store, "put", noted)
    await importing.import_records(stream(records, read=count))
    assert 2 * BATCH < max(ahead) <= (UNDER_WAY + 1) * BATCH


async def test_after_a_failure_whole_batches_are_there_and_a_second_run_embeds_only_the_rest(
    importing: MemoryService, embedder: Held, records: list[Record]
) -> None:
    embedder.bad = f"m{4 * BATCH + 3}"
    with pytest.raises(EmbeddingError, match="out of luck"):
        await importing.import_records(stream(records))
    written = await total(importing)
    assert written == 4 * BATCH
    embedder.bad = ""
    embedder.asked.clear()
    imported = await importing.import_records(stream(records))
    assert (imported.created, imported.skipped) == (len(records) - 1 - written, written)
    assert len(embedder.asked) == imported.created
    embedder.asked.clear()
    assert (await importing.import_records(stream(records))).created == 0
    assert embedder.asked == []


async def test_a_cancelled_import_leaves_whole_batches_and_goes_on_later(
    importing: MemoryService, embedder: Held, records: list[Record]
) -> None:
    def stop(record: Record) -> None:
        if record.get("content") == f"m{6 * BATCH}":
            running.cancel()

    running = asyncio.create_task(importing.import_records(stream(records, read=stop)))
    with pytest.raises(asyncio.CancelledError):
        await running
    written = await total(importing)
    assert written and written % BATCH == 0
    assert (await importing.import_records(stream(records))).created == len(records) - 1 - written


async def test_an_id_that_comes_twice_is_stored_once(importing: MemoryService, records: list[Record]) -> None:
    header, first, *rest = records
    twice = [header, first, first, *rest[:BATCH], first, *rest[BATCH:], first]
    imported = await importing.import_records(stream(twice))
    assert (imported.created, imported.skipped) == (len(records) - 1, 3)


async def test_a_batch_of_long_texts_ends_early(
    importing: MemoryService, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MemoryService(InMemoryStore(clock=clock), HashedEmbedder(dimensions=16), clock=clock)
    text = "word " * (BATCH_CHARS // 5 // 4)
    for number in range(9):
        await source.store(f"{text}{number}")
    put, sizes = importing._store.put, list[int]()

    async def noted(entries: Sequence[Entry], **more: Any) -> Sequence[Written]:
        sizes.append(len(entries))
        return await put(entries, **more)

    monkeypatch.setattr(importing._store, "put", noted)
    assert (await importing.import_records(source.export())).created == 9
    assert sizes == [4, 4, 1]


async def test_a_large_batch_of_new_memories_is_one_transaction_embedded_in_parts(
    importing: MemoryService, embedder: Held
) -> None:
    embedder.bad = "n900"
    with suppress(EmbeddingError):
        await importing.store_many([f"n{number}" for number in range(1_000)])
    assert await total(importing) == 0
    embedder.bad = ""
    stored = await importing.store_many([NewMemory(content=f"n{number}") for number in range(1_000)])
    assert [one.memory.content for one in stored] == [f"n{number}" for number in range(1_000)]
    assert PART < 1_000
    (hit, *_) = (await importing.recall("n777", k=1)).hits
    assert hit.memory.content == "n777"


async def test_an_edit_embeds_only_the_passages_that_changed(
    tmp_path: Path, clock: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = open_embedder()
    assert isinstance(embedder, OnnxEmbedder)
    service = MemoryService(await open_sqlite(tmp_path / "edited.db", clock=clock), embedder, clock=clock)
    lines = [f"Paragraph {n} is about the subject number {n} and about nothing else at all." for n in range(20)]
    stored = await service.store("\n\n".join(lines))
    clock.advance(timedelta(seconds=1))
    run: list[int] = []
    working = SentenceModel.run

    def counted(self: SentenceModel, rows: Sequence[list[int]]) -> NDArray[np.float32]:
        run.append(len(rows))
        return working(self, rows)

    monkeypatch.setattr(SentenceModel, "run", counted)
    lines[10] = "The tenth one is about whales now."
    await service.update(stored.memory.id, MemoryPatch(content="\n\n".join(lines)))
    assert 1 <= sum(run) <= 3
    assert (await service.recall("whales")).hits[0].snippet.startswith("The tenth one is about whales now.")
    await service.aclose()
