"""The memories of a run with the vectors that the real model gives them, and databases filled with them."""

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
    """An embedder that remembers the vectors of passages in a file, so that a second run fills its databases quickly.

    Only databases are filled with it; nothing that is measured embeds through it. The file belongs to one model, and
    a vector to the exact text of a passage.
    """

    def __init__(self, embedder: Embedder, folder: Path) -> None:
        self._embedder = embedder
        self._file = folder / f"vectors-{hashlib.sha256(embedder.model_id.encode()).hexdigest()[:16]}.npz"
        self._known: dict[str, Vectors] = {}
        if self._file.is_file():
            with np.load(self._file) as held:
                self._known = dict(zip(held["digests"].tolist(), held["vectors"], strict=True))
        self.used: dict[str, Vectors] = {}
        """Every passage embedded so far in this run, with its vector."""
        self.model_id = embedder.model_id
        self.dimensions = embedder.dimensions
        self.passage_tokens = embedder.passage_tokens
        self.token_offsets = embedder.token_offsets
        self.embed_query = embedder.embed_query

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows; the model makes those that are not known."""
        digests = [hashlib.sha256(text.encode()).hexdigest()[:32] for text in texts]
        missing = [place for place, digest in enumerate(digests) if digest not in self._known]
        made = await self._embedder.embed_passages([texts[place] for place in missing])
        self._known |= {digests[place]: vector for place, vector in zip(missing, made, strict=True)}
        vectors = np.stack([self._known[digest] for digest in digests])
        self.used |= dict(zip(texts, vectors, strict=True))
        return vectors

    def save(self) -> None:
        """Write the file anew."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(self._file, digests=np.array(list(self._known)), vectors=np.stack(list(self._known.values())))

    async def warm_up(self) -> None:
        """Do nothing: the model is loaded when it is needed."""

    async def aclose(self) -> None:
        """Leave the embedder open: it is not this one's."""


def settings(database: Path, **more: object) -> Settings:
    """Return the default settings for a database, whatever the environment says."""
    chosen = {"database_url": str(database), "offline": True, **more}
    return SettingsWithSources.read(chosen, environment={}).settings


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
