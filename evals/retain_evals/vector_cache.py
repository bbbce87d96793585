"""Vectors on disk, so that a text is embedded once and every later run of an evaluation reads it."""

import asyncio
import hashlib
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from retain import Embedder, StoreError

Vectors = NDArray[np.float32]

_KEYS_AT_ONCE = 500


class VectorCache:
    """float32 vectors by (model, text) in one SQLite file. Several processes may use it at once; thread safe.

    Vectors are kept as the model made them, so that a run from the cache gives the figures of the first one.
    """

    def __init__(self, path: Path, model_id: str, /) -> None:
        """Raises StoreError: the file is something else, or can't be written."""
        self._path = path
        self._salt = hashlib.sha256(model_id.encode()).digest()
        self._lock = Lock()
        with self._failures():
            self._database = sqlite3.connect(path, timeout=600, check_same_thread=False, isolation_level=None)
            self._database.executescript(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;"
                "CREATE TABLE IF NOT EXISTS vector (key BLOB NOT NULL UNIQUE, embedding BLOB NOT NULL)"
            )

    @contextmanager
    def _failures(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreError(
                f"the cache of vectors {self._path} can't be used: {error}; remove it, give another --cache, or "
                "--no-cache"
            ) from error

    def key(self, text: str, /) -> bytes:
        """Return the 16 bytes that stand for a text under this model."""
        return hashlib.sha256(self._salt + text.encode("utf-8", "surrogatepass")).digest()[:16]

    def read(self, keys: Sequence[bytes], /) -> dict[bytes, Vectors]:
        """Return the vectors that are known."""
        found: dict[bytes, Vectors] = {}
        with self._lock, self._failures():
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[start : start + _KEYS_AT_ONCE]
                rows = self._database.execute(
                    f"SELECT key, embedding FROM vector WHERE key IN ({','.join('?' * len(some))})", some
                )
                found.update((key, np.frombuffer(blob, np.float32)) for key, blob in rows)
        return found

    def write(self, vectors: dict[bytes, Vectors], /) -> None:
        """Keep vectors, in one transaction."""
        rows = [(key, vector.astype(np.float32, copy=False).tobytes()) for key, vector in vectors.items()]
        with self._lock, self._failures():
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                self._database.executemany("INSERT OR IGNORE INTO vector VALUES (?, ?)", rows)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


class CachedEmbedder:
    """An embedder for many databases, one after the other, that asks another one only for what the cache lacks.

    Closing a database leaves it loaded; `release` ends it.
    """

    def __init__(self, embedder: Embedder, cache: VectorCache | None, /) -> None:
        self._embedder = embedder
        self._cache = cache

    @property
    def model_id(self) -> str:
        """The model's own identity: its vectors are the same."""
        return self._embedder.model_id

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self._embedder.dimensions

    @property
    def passage_tokens(self) -> int:
        """Most tokens that one passage may have."""
        return self._embedder.passage_tokens

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2): start and end character of each token."""
        return self._embedder.token_offsets(text)

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows, in the order of `texts`."""
        if self._cache is None or not texts:
            return await self._embedder.embed_passages(texts)
        keys = [self._cache.key(text) for text in texts]
        found = await asyncio.to_thread(self._cache.read, list(dict.fromkeys(keys)))
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            made = await self._embedder.embed_passages(list(missing.values()))
            new = dict(zip(missing, made, strict=True))
            await asyncio.to_thread(self._cache.write, new)
            found |= new
        return np.stack([found[key] for key in keys])

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the (d,) vector of a question. Never from the cache, so that the time of a recall is real."""
        return await self._embedder.embed_query(text)

    async def aclose(self) -> None:
        """Nothing: the next database uses it again."""

    async def release(self) -> None:
        """Close the embedder and the cache."""
        await self._embedder.aclose()
        if self._cache is not None:
            self._cache.close()
