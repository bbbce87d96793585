"""An embedding model on this machine's CPU, by onnxruntime."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError, RetainError
from retain.embeddings.batching import Batcher, Request, slices
from retain.embeddings.model_files import TOKENIZER, WEIGHTS, ModelFiles
from retain.embeddings.recent import PASSAGE_BYTES, QUERY_BYTES, RecentVectors
from retain.embeddings.runtime import Session, Tokens, load_session, return_free_memory
from retain.embeddings.text import concatenated, refuse_long
from retain.embeddings.unread import Reading

Vectors = NDArray[np.float32]

SENTENCE, HIDDEN = "sentence_embedding", "last_hidden_state"
KNOWN_INPUTS = {"input_ids", "attention_mask", "token_type_ids"}
# Batches side by side on one thread each beat one batch on all threads (docs/embeddings.md), but cost memory.
MOST_LANES = 4
# Texts of one call that are tokenised and sorted together, and how many such parts are under way at once.
SLICE, SLICES_UNDER_WAY = 128, 2


class SentenceModel:
    """A loaded graph: token ids in, unit vectors out. Thread safe."""

    def __init__(self, files: ModelFiles, tokens: Tokens) -> None:
        """Raises EmbeddingError when the files are damaged or the graph is not a sentence encoder."""
        self._session = _open_session(files)
        self._tokens = tokens
        self._pooling = files.pooling
        self._inputs = {
            port.name: np.int32 if "int32" in port.type else np.int64 for port in self._session.get_inputs()
        }
        outputs = [port.name for port in self._session.get_outputs()]
        self._output = next((name for name in (SENTENCE, HIDDEN) if name in outputs), None)
        if self._output is None or not {"input_ids"} <= self._inputs.keys() <= KNOWN_INPUTS:
            raise EmbeddingError(
                f"{files.folder / WEIGHTS} is not a sentence encoder: its inputs are {sorted(self._inputs)} "
                f"and its outputs {outputs}, expected inputs from {sorted(KNOWN_INPUTS)} and an output "
                f"{SENTENCE} or {HIDDEN}"
            )

    def run(self, rows: Sequence[list[int]]) -> Vectors:
        """(n, d) unit rows of n sequences of token ids without special tokens; only real tokens count."""
        head, tail = self._tokens.head, self._tokens.tail
        longest = max(map(len, rows)) + len(head) + len(tail)
        ids = np.full((len(rows), longest), self._tokens.pad_id, np.int64)
        mask = np.zeros_like(ids)
        for i, row in enumerate(rows):
            whole = [*head, *row, *tail]
            ids[i, : len(whole)] = whole
            mask[i, : len(whole)] = 1
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        assert self._output is not None
        found = self._session.run(
            [self._output],
            {name: feeds[name].astype(kind, copy=False) for name, kind in self._inputs.items()},
        )[0]
        if found.ndim == 3 and self._pooling == "cls":
            found = found[:, 0]
        elif found.ndim == 3:
            # The mean's divisor cancels in the norm.
            found = np.matmul(mask[:, None, :].astype(np.float32), found)[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):  # a zero row becomes NaN, which the batcher refuses
            return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32, copy=False)


def _open_session(files: ModelFiles) -> Session:
    if files.external_weights:
        files.check(f"{WEIGHTS}_data")
    return load_session(files.check(WEIGHTS))


class OnnxEmbedder:
    """A local model as the core's `Embedder`. Loads on first use, or by `warm_up`; closes by `aclose`.

    `lanes` batches run side by side, by default one for each core the process may use, at most four.
    """

    def __init__(self, files: ModelFiles, /, *, lanes: int | None = None) -> None:
        self._files = files
        self._loading = Lock()
        self._problem: RetainError | None = None
        self._known_dimensions = files.dimensions
        self._loaded_tokens: Tokens | None = None
        self._loaded_model: SentenceModel | None = None
        self._batcher = Batcher(lambda rows: self._model().run(rows), lanes or min(_cores(), MOST_LANES))
        self._queries, self._passages = RecentVectors(QUERY_BYTES), RecentVectors(PASSAGE_BYTES)

    def __repr__(self) -> str:
        return f"OnnxEmbedder({self._files.name!r}, {str(self._files.folder)!r})"

    @property
    def model_id(self) -> str:
        """The model's name, `@` and the first 12 hex digits of the SHA-256 of its weights, and how text is read.

        Never waits.

        Raises:
            EmbeddingError: the files don't say the hash and the model isn't loaded (yet).
        """
        if not self._files.has_model_id:
            raise self._not_loaded()
        return self._files.model_id

    @property
    def dimensions(self) -> int:
        """Length of a vector. Never waits.

        Raises:
            EmbeddingError: the files don't say it and the model isn't loaded (yet).
        """
        if self._known_dimensions is None:
            raise self._not_loaded()
        return self._known_dimensions

    @property
    def passage_tokens(self) -> int:
        """Most tokens of one passage, special tokens and the model's prefix not counted."""
        return self._files.passage_tokens or self._room(self._files.passage_prefix)

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2): first and past-the-end character of each token of `text`. CPU work; thread safe."""
        return self._tokens().offsets(text)

    async def warm_up(self) -> None:
        """Load the model now, in a worker thread.

        Raises:
            EmbeddingError: the files are missing, damaged or no sentence encoder.
        """
        if self._loaded_model is None:
            await asyncio.to_thread(self._model)

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows in the order of `texts`; those embedded last are remembered.

        Raises:
            TooLargeError: a text has more than `passage_tokens` tokens; nothing is ever cut silently.
            EmbeddingError: the model can't be loaded or failed.
        """
        if not texts:
            await self.warm_up()
            return np.empty((0, self.dimensions), np.float32)
        return await self._passages.or_made(texts, self._embed_passages)

    async def _embed_passages(self, texts: Sequence[str]) -> Vectors:
        parts: list[Vectors] = []
        under_way: deque[tuple[_Call, Future[Vectors]]] = deque()
        try:
            for part in slices(texts, SLICE):
                if len(under_way) == SLICES_UNDER_WAY:
                    parts.append(await _answer(*under_way.popleft()))
                call = _Call(part, self._passage_reading, self._one_window)
                under_way.append((call, self._batcher.submit(call.request, urgent=False)))
            while under_way:
                parts.append(await _answer(*under_way.popleft()))
        finally:
            for _, future in under_way:
                future.cancel()
        return concatenated(parts, 0)

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the (d,) float32 unit row of a question; those asked last are remembered.

        A text longer than the model reads is embedded as the normalised mean of its windows.

        Raises:
            EmbeddingError: the model can't be loaded or failed.
        """
        return (await self._queries.or_made([text], self._embed_queries))[0]

    async def _embed_queries(self, texts: Sequence[str]) -> Vectors:
        call = _Call(texts, self._query_reading, self._query_windows)
        return await _answer(call, self._batcher.submit(call.request, urgent=True))

    async def aclose(self) -> None:
        """Fail what still waits, let running batches end and free the model."""
        await asyncio.to_thread(self._batcher.close)
        self._queries.clear()
        self._passages.clear()
        self._loaded_model = None

    def _not_loaded(self) -> RetainError:
        if self._problem is not None:
            return type(self._problem)(str(self._problem))
        return EmbeddingError(f"the embedding model {self._files.name} is not loaded yet")

    def _tokens(self) -> Tokens:
        with self._loading:
            if self._loaded_tokens is None:
                self._loaded_tokens = Tokens(self._files.read(TOKENIZER))
            return self._loaded_tokens

    def _model(self) -> SentenceModel:
        if (loaded := self._loaded_model) is not None:
            return loaded
        try:
            return self._load(self._tokens())
        except RetainError as error:
            self._problem = error
            raise

    def _load(self, tokens: Tokens) -> SentenceModel:
        with self._loading:
            if self._loaded_model is None:
                model = SentenceModel(self._files, tokens)
                if self._known_dimensions is None:
                    self._known_dimensions = int(model.run([[]]).shape[1])
                _ = self._files.model_id  # hashes the weights, unless the manifest says the hash
                self._loaded_model = model
                return_free_memory()
            return self._loaded_model

    def _room(self, prefix: str) -> int:
        tokens = self._tokens()
        return self._files.max_tokens - tokens.specials - len(tokens.ids(prefix))

    def _passage_reading(self, text: str) -> Reading:
        tokens = self._tokens()
        reading = tokens.read(text, prefix=self._files.passage_prefix)
        refuse_long(reading.count, self._files.max_tokens - tokens.specials, self._files.name)
        return reading

    def _one_window(self, ids: list[int]) -> list[list[int]]:
        return [ids]

    def _query_reading(self, text: str) -> Reading:
        return self._tokens().read(text)

    def _query_windows(self, ids: list[int]) -> list[list[int]]:
        prefix = self._tokens().ids(self._files.query_prefix)
        most = self._room(self._files.query_prefix)
        count = max(1, -(-len(ids) // most))
        size = -(-len(ids) // count) or 1
        return [prefix + ids[start : start + size] for start in range(0, max(1, len(ids)), size)]


class _Call:
    """A request to the batcher whose texts may hold something that the model can't read."""

    def __init__(
        self,
        texts: Sequence[str],
        read: Callable[[str], Reading],
        windows: Callable[[list[int]], list[list[int]]],
    ) -> None:
        self._texts = texts
        self._read = read
        self._windows = windows
        self._partly_read: dict[str, Reading] = {}
        self.request = Request(texts, self._encode)

    def _encode(self, text: str) -> list[list[int]]:
        reading = self._read(text)
        if reading.pieces:
            self._partly_read[text] = reading
        return self._windows(reading.ids)

    def finish(self, vectors: Vectors) -> Vectors:
        """`vectors` with what the model could not read."""
        for row, text in enumerate(self._texts):
            if (reading := self._partly_read.get(text)) is not None:
                vectors[row] = reading.blended(vectors[row])
        return vectors


async def _answer(call: _Call, future: "Future[Vectors]") -> Vectors:
    return call.finish(await asyncio.wrap_future(future))


def _cores() -> int:
    affinity: Callable[[int], set[int]] | None = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
