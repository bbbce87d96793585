"""Bag-of-words hashing: deterministic, instant and without meaning. For tests only; never chosen silently."""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from retain.embeddings.text import concatenated, refuse_long

_TOKEN = re.compile(r"\w+|[^\w\s]")


class HashedEmbedder:
    """Texts that share words are near each other; synonyms are not. An `Embedder` for tests that need no model."""

    def __init__(self, dimensions: int = 384, passage_tokens: int = 254) -> None:
        self.model_id = f"hashed-{dimensions}@test-only"
        self.dimensions = dimensions
        self.passage_tokens = passage_tokens

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2): start and end character of each word or mark."""
        return np.array([match.span() for match in _TOKEN.finditer(text)], np.int32).reshape(-1, 2)

    async def warm_up(self) -> None:
        """Nothing to load."""

    async def embed_passages(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return (n, d) float32 unit rows.

        Raises:
            TooLargeError: a text has more than `passage_tokens` words.
        """
        for text in texts:
            refuse_long(len(self.token_offsets(text)), self.passage_tokens, self.model_id)
        return concatenated([self._vector(text)[None] for text in texts], self.dimensions)

    async def embed_query(self, text: str, /) -> NDArray[np.float32]:
        """Return the (d,) float32 unit row of a question of any length."""
        return self._vector(text)

    async def aclose(self) -> None:
        """Nothing to free."""

    def _vector(self, text: str) -> NDArray[np.float32]:
        total = np.zeros(self.dimensions, np.float64)
        total[0] = 1e-3  # a text without words has a vector too
        for word in _TOKEN.findall(text.lower()):
            digest = int.from_bytes(blake2b(word.encode("utf-8", "replace"), digest_size=8).digest())
            total[(digest >> 1) % self.dimensions] += 1 if digest & 1 else -1
        return (total / np.linalg.norm(total)).astype(np.float32)
