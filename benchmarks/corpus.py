"""The memories of a run with the vectors that the real model gives them, and databases filled with them."""

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.texts import Text
from retain.bootstrap import choose_embedder, make_service, open_store
from retain.core.ports import Embedder
from retain.core.service import MemoryService
from retain.domain.memory import NewMemory
from retain.settings import Settings, SettingsWithSources
from retain.storage.sqlite import SqliteStore

Vectors = NDArray[np.float32]
BATCH = 500


class KnownVectors:
    """An embedder that knows the vectors of some texts, so that filling a second database needs no model time.

    Only databases are filled with it; nothing that is measured embeds through it.
    """

    def __init__(self, embedder: Embedder, texts: Sequence[str], vectors: Vectors) -> None:
        self._embedder = embedder
        self._vectors = dict(zip(texts, vectors, strict=True))
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self.passage_tokens = embedder.passage_tokens
        self.token_offsets = embedder.token_offsets
        self.embed_query = embedder.embed_query

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return the known vectors.

        Raises:
            KeyError: a text is not known.
        """
        return np.stack([self._vectors[text] for text in texts])

    async def aclose(self) -> None:
        """Leave the embedder open: it is not this one's."""


def settings(database: Path, **more: object) -> Settings:
    """Return the default settings for a database, whatever the environment says."""
    return SettingsWithSources.read(environment={}, database_url=str(database), offline=True, **more).settings


def real_embedder() -> Embedder:
    """Return the bundled model."""
    return choose_embedder(settings(Path("unused.db")))


async def opened(database: Path, embedder: Embedder) -> tuple[SqliteStore, MemoryService]:
    """Return the store of a database and the core on it; closing the service closes `embedder` too."""
    chosen = settings(database)
    store = await open_store(chosen)
    return store, make_service(store, embedder, chosen)


async def fill(service: MemoryService, texts: Sequence[Text]) -> None:
    """Store texts in batches through the public interface."""
    for start in range(0, len(texts), BATCH):
        batch = texts[start : start + BATCH]
        await service.store_many([NewMemory(content=text.content, tags=text.tags) for text in batch])


def vectors_of(texts: Sequence[Text], embedder: Embedder, cache: Path) -> Vectors:
    """Return the model's vectors of all texts, from `cache` as far as they were made before.

    The file's name holds the model and a digest of the texts, so it can't serve other texts or another model.
    """
    contents = [text.content for text in texts]
    digest = hashlib.sha256("\n".join([embedder.model_id, *contents]).encode()).hexdigest()[:16]
    file = cache / f"vectors-{digest}.npy"
    if file.is_file():
        return np.load(file)
    vectors = asyncio.run(_embedded(embedder, contents))
    cache.mkdir(parents=True, exist_ok=True)
    np.save(file, vectors)
    return vectors


async def _embedded(embedder: Embedder, contents: Sequence[str]) -> Vectors:
    return await embedder.embed_passages(contents)
