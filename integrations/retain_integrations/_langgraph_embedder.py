"""An embedding model of LangChain behind Retain's port."""

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from langgraph.store.base import IndexConfig, ensure_embeddings
from numpy.typing import NDArray

import retain

_NO_LIMIT = 1_000_000


class GivenEmbedder:
    """Embeds with the `embed` of an index configuration: each text by one vector, however long it is."""

    passage_tokens = _NO_LIMIT

    def __init__(self, index: IndexConfig, /) -> None:
        """Nothing is loaded.

        Raises:
            InvalidInputError: `dims` is no whole number of at least 1.
        """
        dims: Any = index.get("dims")
        if isinstance(dims, bool) or not isinstance(dims, int) or dims < 1:
            raise retain.InvalidInputError(f"index['dims'] must be a whole number from 1, not {dims!r}", field="index")
        self.dimensions = dims
        embed = index.get("embed")
        self.embeddings = ensure_embeddings(embed)
        self.model_id = f"{_name(embed)}:{dims}"

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (1, 2): the whole text is one token, so that it is never cut."""
        return np.array([[0, len(text)]], dtype=np.int32)

    async def embed_passages(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """Return (n, d) float32 unit rows.

        Raises:
            EmbeddingError: the model failed or gave something else than n vectors of d numbers.
        """
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        try:
            vectors = await self.embeddings.aembed_documents(list(texts))
        except Exception as error:
            raise retain.EmbeddingError(f"the embedding model failed: {type(error).__name__}: {error}") from error
        return self._units(vectors, len(texts))

    async def embed_query(self, text: str, /) -> NDArray[np.float32]:
        """Return the (d,) float32 unit vector of a question.

        Raises:
            EmbeddingError: the model failed or gave something else than d numbers.
        """
        try:
            vector = await self.embeddings.aembed_query(text)
        except Exception as error:
            raise retain.EmbeddingError(f"the embedding model failed: {type(error).__name__}: {error}") from error
        return self._units([vector], 1)[0]

    def cosines(self, query: str, groups: Iterable[Sequence[str]], /) -> list[float]:
        """Return for each group of texts the largest cosine to `query`, in [-1, 1]. Blocks; for any thread."""
        with ThreadPoolExecutor(1) as pool:  # this thread may have a running event loop
            return pool.submit(lambda: asyncio.run(self._cosines(query, groups))).result()

    async def _cosines(self, query: str, groups: Iterable[Sequence[str]]) -> list[float]:
        asked = await self.embed_query(query)
        return [float((await self.embed_passages(group) @ asked).max()) for group in groups]

    async def aclose(self) -> None:
        """Nothing is held."""

    def _units(self, vectors: Sequence[Sequence[float]], count: int) -> NDArray[np.float32]:
        try:
            made = np.asarray(vectors, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise retain.EmbeddingError(f"the embedding model gave no table of numbers: {error}") from None
        if made.shape != (count, self.dimensions):
            raise retain.EmbeddingError(
                f"the embedding model gave an array {made.shape} for {count} texts; index['dims'] is {self.dimensions}"
            )
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return (made / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _name(embed: Any) -> str:
    """Return what tells one model from another: a name as it was given, or where it is defined and its model."""
    if isinstance(embed, str):
        return embed
    kind: Any = embed if hasattr(embed, "__qualname__") else embed.__class__
    model = getattr(embed, "model", None) or getattr(embed, "model_name", None)
    return ":".join((f"{kind.__module__}.{kind.__qualname__}", *([str(model)] if model else [])))
