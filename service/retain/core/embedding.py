"""Memories to passages to vectors: what is written beside each memory."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retain.core.ports import Embedder, Entry, Vectors
from retain.domain.memory import Memory, Model, Passage
from retain.domain.passages import split


@dataclass(frozen=True, slots=True)
class Embedding:
    """Passages and vectors of several memories, and the model that made them."""

    model: Model
    passages: list[list[Passage]]
    vectors: list[Vectors]


async def embed(embedder: Embedder, memories: Sequence[Memory], /) -> Embedding:
    """Split each memory into passages that fit the model and embed them all in one go.

    Raises:
        EmbeddingError: the model failed; nothing is embedded in part.
    """
    passages = await asyncio.to_thread(_split_all, embedder, memories)
    texts = [
        memory.content[passage.start : passage.end]
        for memory, cut in zip(memories, passages, strict=True)
        for passage in cut
    ]
    rows = await embedder.embed_passages(texts)
    ends = np.cumsum([len(cut) for cut in passages])[:-1]
    return Embedding(Model(embedder.model_id, embedder.dimensions), passages, np.split(rows, ends))


def _split_all(embedder: Embedder, memories: Sequence[Memory]) -> list[list[Passage]]:
    return [
        split(
            memory.content,
            embedder.token_offsets(memory.content),
            limit=embedder.passage_tokens,
            turns=memory.turns,
        )
        for memory in memories
    ]


async def entries(
    embedder: Embedder, memories: Sequence[Memory], supersedes: Sequence[str | None] | None = None, /
) -> tuple[list[Entry], Model]:
    """Return what the store writes for each memory, and the model.

    Raises:
        EmbeddingError: the model failed.
    """
    made = await embed(embedder, memories)
    replaced = supersedes or [None] * len(memories)
    parts = zip(memories, made.passages, made.vectors, replaced, strict=True)
    return [Entry(memory, passages, vectors, old) for memory, passages, vectors, old in parts], made.model
