"""Memories to passages to vectors: what is written beside each memory."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np

from retain.core.ports import Embedder, Entry
from retain.domain.memory import Memory, Model, Passage
from retain.domain.passages import split

PART = 256
"""Memories that are cut and embedded together; the next ones are cut meanwhile."""


async def entries(
    embedder: Embedder, memories: Sequence[Memory], supersedes: Sequence[str | None] | None = None, /
) -> tuple[list[Entry], Model]:
    """Return what the store writes for each memory, and the model.

    Raises:
        EmbeddingError: the model failed; nothing is embedded in part.
    """
    cutting = asyncio.Lock()

    async def part(start: int) -> list[Entry]:
        some = memories[start : start + PART]
        async with cutting:
            passages = await cut(embedder, some)
        return await embedded(embedder, some, passages, supersedes[start : start + PART] if supersedes else None)

    parts = [asyncio.create_task(part(start)) for start in range(0, len(memories), PART)]
    try:
        done = await asyncio.gather(*parts)
    finally:
        for each in parts:  # when one failed the others are for nothing
            each.cancel()
    return [entry for made in done for entry in made], Model(embedder.model_id, embedder.dimensions)


async def cut(embedder: Embedder, memories: Sequence[Memory], /) -> list[list[Passage]]:
    """Return the passages of each memory, small enough for the model."""
    return await asyncio.to_thread(_cut, embedder, memories)


_NO_TOKENS: Final = np.empty((0, 2), dtype=np.int32)


def _cut(embedder: Embedder, memories: Sequence[Memory]) -> list[list[Passage]]:
    limit = embedder.passage_tokens
    return [
        split(
            memory.content,
            embedder.token_offsets(memory.content) if memory.searchable != () else _NO_TOKENS,
            limit=limit,
            turns=memory.turns,
            searchable=memory.searchable,
        )
        for memory in memories
    ]


async def embedded(
    embedder: Embedder,
    memories: Sequence[Memory],
    passages: Sequence[Sequence[Passage]],
    supersedes: Sequence[str | None] | None = None,
    /,
) -> list[Entry]:
    """Return what the store writes for memories that are cut into `passages`, embedded in one go.

    Raises:
        EmbeddingError: the model failed.
    """
    texts = [
        memory.content[passage.start : passage.end]
        for memory, own in zip(memories, passages, strict=True)
        for passage in own
    ]
    rows = await embedder.embed_passages(texts)
    vectors = np.split(rows, np.cumsum([len(own) for own in passages])[:-1])
    replaced = supersedes or [None] * len(memories)
    return [Entry(*parts) for parts in zip(memories, passages, vectors, replaced, strict=True)]
