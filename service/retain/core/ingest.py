"""Storing any number of memories: while one batch is written, the next are embedded and those after them cut."""

import asyncio
from asyncio import Semaphore, Task
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from retain.core.embedding import cut, embedded
from retain.core.ports import Embedder, MemoryStore, Written
from retain.domain.memory import Memory, Model

BATCH = 256
BATCH_CHARS = 250_000
"""A batch, which is one transaction, ends at so many memories or characters, whichever comes first."""
UNDER_WAY = 4
"""Batches in memory at once: two that are embedded, so that the model never waits for the last texts of one, and two
that are cut already, or wait to be written."""
_EMBEDDED_AT_ONCE = 2


async def ingest(
    store: MemoryStore, embedder: Embedder, batches: AsyncIterator[Sequence[Memory]], /
) -> AsyncGenerator[Sequence[Written], None]:
    """Store batch after batch; yield what became of each, in order.

    Each batch is written as a whole, after the one before it. When one fails, or `batches` does, or the caller stops,
    a write that has begun is ended, what is written stays, and nothing more is.

    Raises:
        EmbeddingError: the model failed.
        StoreError: a batch was not written.
    """
    under_way: deque[Task[Sequence[Written]]] = deque()
    turn = Semaphore(_EMBEDDED_AT_ONCE)
    try:
        async for batch in batches:
            before = under_way[-1] if under_way else None
            under_way.append(asyncio.create_task(_stored(store, embedder, batch, turn, before)))
            if len(under_way) == UNDER_WAY:
                yield await under_way[0]
                under_way.popleft()
        while under_way:
            yield await under_way[0]
            under_way.popleft()
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _stored(
    store: MemoryStore,
    embedder: Embedder,
    memories: Sequence[Memory],
    turn: Semaphore,
    before: Task[Sequence[Written]] | None,
) -> Sequence[Written]:
    passages = await cut(embedder, memories)
    async with turn:
        made = await embedded(embedder, memories, passages)
    if before is not None:
        await before
    writing = asyncio.ensure_future(store.put(made, model=Model(embedder.model_id, embedder.dimensions)))
    try:
        return await asyncio.shield(writing)
    except asyncio.CancelledError:
        await asyncio.wait([writing])
        raise
