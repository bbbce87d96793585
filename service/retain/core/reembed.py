"""Changing the embedding model of a store without losing anything, resumably."""

from collections.abc import Callable
from typing import Protocol

from retain.core.embedding import entries
from retain.core.ports import Embedder, Maintenance, MemoryStore, Reembedding
from retain.domain.memory import EVERYTHING, Model

BATCH = 100
Progress = Callable[[int, int], None]
"""Called with how many memories are done and how many there are."""


class ReembeddableStore(MemoryStore, Reembedding, Maintenance, Protocol):
    """A store that can change its model, and be copied first."""


async def is_due(store: ReembeddableStore, embedder: Embedder, /, *, force: bool = False) -> bool:
    """Whether there are memories, and vectors of `embedder`'s model are not what they have (or `force` says so).

    Raises:
        EmbeddingError: the model can't be had.
    """
    if not await store.ids(EVERYTHING):
        return False
    await embedder.embed_query("dimensions")  # a remote model knows its size only after the first answer
    return force or await store.model() != Model(embedder.model_id, embedder.dimensions)


async def reembed(store: ReembeddableStore, embedder: Embedder, progress: Progress = lambda done, total: None) -> int:
    """Build the vectors of `embedder` for every memory, then switch at once; return how many were embedded.

    Stopped half-way, it goes on where it was. Until the switch the store answers with its old vectors. Memories
    that come in or change meanwhile are taken along.

    Raises:
        EmbeddingError: the model failed; the store keeps its old vectors.
        ConflictError: another process re-embeds too.
    """
    await embedder.embed_query("dimensions")
    model = Model(embedder.model_id, embedder.dimensions)
    total = await store.begin_reembedding(model)
    done = 0
    while True:
        while batch := await store.unembedded(BATCH):
            made, _ = await entries(embedder, batch)
            await store.put_reembedded(made, model=model)
            done += len(batch)
            progress(done, max(total, done))
        if await store.finish_reembedding(model):
            return done
