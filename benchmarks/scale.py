"""Databases of very many short memories, one passage each, with vectors of the real model or synthetic ones."""

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import KnownVectors, Vectors, opened
from benchmarks.texts import Author, Text
from retain.core.ports import Embedder
from retain.domain.memory import NewMemory
from retain.embeddings.hashed import HashedEmbedder
from retain.storage.sqlite.migrations import SCHEMA_VERSION

DIMENSIONS = 384
SMALL_NAMESPACE, SMALL_SIZE = "/small", 500
NAMESPACES = ("/", "/team", "/team/search", "/team/shop", "/ops")
ONE_PERCENT, TEN_PERCENT = "one-percent", "ten-percent"
_BATCH = 1_000
_CLUSTERS = 2_000


def short_texts(count: int, seed: int = 7) -> Iterator[Text]:
    """Yield memories of one sentence."""
    return islice(Author(seed).write_short(), count)


def memory(number: int, text: Text) -> NewMemory:
    """Return the memory of that number: a place, and tags that mark every hundredth and every tenth."""
    tags = [*text.tags, *[ONE_PERCENT] * (number % 100 == 0), *[TEN_PERCENT] * (number % 10 == 0)]
    namespace = SMALL_NAMESPACE if number < SMALL_SIZE else NAMESPACES[number % len(NAMESPACES)]
    return NewMemory(content=text.content, tags=tags, namespace=namespace)


class SyntheticVectors(HashedEmbedder):
    """Makes vectors without reading the text: 2,000 clusters of Zipf sizes, a decaying spectrum, a common mean.

    Passages take the next vectors of one stream, questions those of another.
    """

    def __init__(self, seed: int = 1) -> None:
        super().__init__(DIMENSIONS)
        self.model_id = "synthetic@benchmark-only"
        random = np.random.default_rng(99)
        self._spectrum = (1 / np.sqrt(1 + np.arange(DIMENSIONS) / 8)).astype(np.float32)
        self._centres = random.standard_normal((_CLUSTERS, DIMENSIONS), dtype=np.float32) * self._spectrum
        self._centres += 0.3 * random.standard_normal(DIMENSIONS, dtype=np.float32) * self._spectrum
        self._turn = np.linalg.qr(random.standard_normal((DIMENSIONS, DIMENSIONS)))[0].astype(np.float32)
        self._shares = 1 / np.arange(1, _CLUSTERS + 1)
        self._shares /= self._shares.sum()
        self._random = np.random.default_rng(seed)

    def next(self, count: int) -> Vectors:
        """Return the next (count, 384) unit rows."""
        chosen = self._random.choice(_CLUSTERS, count, p=self._shares)
        noise = self._random.standard_normal((count, DIMENSIONS), dtype=np.float32)
        rows = (self._centres[chosen] + 0.8 * noise * self._spectrum) @ self._turn
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return the next rows of the stream."""
        return self.next(len(texts))


class ReadyVectors(HashedEmbedder):
    """Gives texts vectors that were made before, under the name of the model that made them: it costs nothing.

    What it is not ready for gets a vector of hashed words.
    """

    def __init__(self, model_id: str, ready: dict[str, Vectors]) -> None:
        super().__init__(DIMENSIONS)
        self.model_id = model_id
        self._ready = ready

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the vector of a question."""
        return self._ready[text] if text in self._ready else await super().embed_query(text)

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return the vectors of passages."""
        if all(text in self._ready for text in texts):
            return np.stack([self._ready[text] for text in texts])
        return await super().embed_passages(texts)


@dataclass(frozen=True, slots=True)
class Scaled:
    """A database, and fresh questions with their vectors under the name of its model."""

    path: Path
    model_id: str
    questions: list[str]
    vectors: Vectors

    def split(self, parts: int, /) -> "list[Scaled]":
        """Return the database with questions for each of `parts` measurements, of all of which none asks another's."""
        return [replace(self, questions=self.questions[n::parts], vectors=self.vectors[n::parts]) for n in range(parts)]

    def ready(self) -> ReadyVectors:
        """Return an embedder for the questions."""
        return ReadyVectors(self.model_id, dict(zip(self.questions, self.vectors, strict=True)))

    def stored(self) -> tuple[list[str], NDArray[np.int8]]:
        """Return the texts and the stored vectors of all passages, in the order of their keys."""
        with closing(apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
            rows = db.execute(
                """SELECT substr(content, start_char + 1, length), embedding
                   FROM passage JOIN memory ON memory.key = passage.memory ORDER BY passage.key"""
            ).fetchall()
        texts, blobs = zip(*rows, strict=True)
        return list(texts), np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(len(rows), -1)


def real(path: Path, count: int, known: KnownVectors, embedder: Embedder, asked: int) -> Scaled:
    """Fill a database with the vectors of the real model; ask about memories that are in it."""
    texts = list(short_texts(count))
    _fill(path, texts, known)
    known.save()
    questions = [text.question for text in texts[:: max(1, count // asked)][:asked]]

    async def embed() -> Vectors:
        return np.stack([await embedder.embed_query(question) for question in questions])

    return Scaled(path, embedder.model_id, questions, asyncio.run(embed()))


def synthetic(folder: Path, count: int, asked: int) -> Scaled:
    """Fill a database with synthetic vectors, or take the one of an earlier run; the questions fit the words only."""
    embedder = SyntheticVectors()
    name = hashlib.sha256(f"{SCHEMA_VERSION} {count} {embedder.model_id}".encode()).hexdigest()[:12]
    path = folder / f"synthetic-{name}.db"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.unlink(missing_ok=True)
        _fill(unfinished, short_texts(count), embedder, compact=True)
        unfinished.rename(path)
    questions = [text.question for text in short_texts(asked, seed=8)]
    return Scaled(path, embedder.model_id, questions, SyntheticVectors(seed=2).next(len(questions)))


def _fill(path: Path, texts: Sequence[Text] | Iterator[Text], embedder: Embedder, *, compact: bool = False) -> None:
    async def work() -> None:
        store, service = await opened(path, embedder)
        numbered = enumerate(texts)
        while batch := [memory(number, text) for number, text in islice(numbered, _BATCH)]:
            await service.store_many(batch)
        if compact:
            await store.compact()
        await store.aclose()

    asyncio.run(work())
