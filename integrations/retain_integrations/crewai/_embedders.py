"""From text to vectors: Retain's own model as CrewAI wants it, and CrewAI's vectors as Retain wants them."""

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import retain
from retain_integrations._question import question_of

T = TypeVar("T")
Vectors = NDArray[np.float32]

GIVEN_MODEL = "crewai:given"
"""What a database says of vectors that came from CrewAI's side: whose they are is not told to a storage."""
PART_CHARS = 1_000
"""Longest passage of Retain; a part of up to so many characters is one passage."""
_WHOLE_TEXT = 2**31 - 1

_MOST_TEXTS = 16_384
_MOST_CHARS = 4_000
"""Of a longer text the beginning is kept to search for; CrewAI searches for whole contents when it looks for similar
ones."""


class RetainEmbedder:
    """Retain's own model as CrewAI's `embedder=`: a callable from texts to vectors. Needs no key and no network.

    CrewAI hands a storage the vector of a question and not its words. The words of what was embedded last are
    remembered, so that a `RetainStorage` finds by words as well as by meaning. Safe to use from several threads; all
    embedders of the same settings in a process share one model, which is loaded at first use.
    """

    def __init__(self, **settings: Any) -> None:
        """Nothing is loaded yet.

        Args:
            **settings: Any setting of Retain by name; `embedding` names the model.

        Raises:
            InvalidInputError: a setting is impossible.
        """
        self.model = SharedModel.of(settings)

    def __call__(self, input: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for each text, in order. Of a very long one, beginning and end count.

        Raises:
            InvalidInputError: `input` is no list of texts.
            EmbeddingError: the model failed.
        """
        if isinstance(input, str) or not all(isinstance(cast("object", text), str) for text in input):
            raise retain.InvalidInputError("RetainEmbedder takes a list of texts", field="input")
        rows: list[list[float]] = [row.tolist() for row in self.model.queries([question_of(text) for text in input])]
        _remembered.add(rows, input)
        return rows

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class _Remembered:
    """The texts of the vectors made last, of every embedder in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: OrderedDict[bytes, str] = OrderedDict()

    def add(self, vectors: Sequence[Sequence[float]], texts: Sequence[str]) -> None:
        made = [(_digest(vector), text[:_MOST_CHARS]) for vector, text in zip(vectors, texts, strict=True)]
        with self._lock:
            for digest, text in made:
                self._texts[digest] = text
                self._texts.move_to_end(digest)
            while len(self._texts) > _MOST_TEXTS:
                self._texts.popitem(last=False)

    def text(self, vector: Sequence[float]) -> str | None:
        digest = _digest(vector)
        with self._lock:
            return self._texts.get(digest)


_remembered = _Remembered()


def text_of(vector: Sequence[float], /) -> str | None:
    """Return the text that a `RetainEmbedder` made `vector` of; None for any other vector."""
    return _remembered.text(vector)


def _digest(vector: Sequence[float]) -> bytes:
    return hashlib.sha256(np.asarray(vector, dtype=np.float32).tobytes()).digest()[:16]


class SharedModel:
    """A model of Retain on an event loop of its own, for everybody in the process who wants the same settings."""

    _models: dict[str, "SharedModel"] = {}  # noqa: RUF012 - one for the process
    _lock = threading.Lock()

    @classmethod
    def of(cls, settings: dict[str, Any], /) -> "SharedModel":
        """Return the model of these settings."""
        name = repr(sorted(settings.items(), key=lambda item: item[0]))
        with cls._lock:
            if name not in cls._models:
                cls._models[name] = cls(retain.load_embedder(**settings))
            return cls._models[name]

    def __init__(self, embedder: retain.Embedder) -> None:
        self.embedder = embedder
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def queries(self, texts: Sequence[str], /) -> list[Vectors]:
        """Return the vector of each text. Blocks."""

        async def made() -> list[Vectors]:
            return await asyncio.gather(*map(self.embedder.embed_query, texts))

        return asyncio.run_coroutine_threadsafe(made(), self._running_loop()).result()

    async def answer(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return what `work` on the embedder returns, awaited from another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running_loop()))

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="retain-crewai-model", daemon=True).start()
            return self._loop


@dataclass
class Given:
    """Vectors that came from CrewAI, for one call: of each part that is stored, or of the question that is asked."""

    dimensions: int
    question: Vectors | None = None
    parts: list[str] = field(default_factory=list[str])
    vectors: list[Vectors] = field(default_factory=list[Vectors])
    _taken: set[int] = field(default_factory=set[int])

    def take(self, texts: Sequence[str], /) -> Vectors:
        """Return the rows of a run of parts. Runs may come in any order; equal runs are taken in turn."""
        wanted, size = list(texts), len(texts)
        for start in range(len(self.parts) - size + 1):
            if start not in self._taken and self.parts[start : start + size] == wanted:
                self._taken.add(start)
                return np.stack(self.vectors[start : start + size])
        raise retain.EmbeddingError("these texts came without vectors; use RetainEmbedder, which makes them")


given: ContextVar[Given | None] = ContextVar("retain_crewai_given", default=None)
"""Set around a call of `SyncMemory`, which runs it in a copy of the caller's context."""


class GivenOrOwn:
    """The `retain.Embedder` of a `RetainStorage`: hands on the vectors given with a call, else asks Retain's model."""

    def __init__(self, model: SharedModel) -> None:
        self._model = model

    @property
    def model_id(self) -> str:
        """Whose vectors this call brings."""
        return self._model.embedder.model_id if given.get() is None else GIVEN_MODEL

    @property
    def dimensions(self) -> int:
        """Their length."""
        here = given.get()
        return self._model.embedder.dimensions if here is None else here.dimensions

    @property
    def passage_tokens(self) -> int:
        """Most tokens of a passage; whatever has a vector already has no limit."""
        return self._model.embedder.passage_tokens if given.get() is None else _WHOLE_TEXT

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return the tokens; a text that has a vector is a single one."""
        if given.get() is None:
            return self._model.embedder.token_offsets(text)
        return np.array([[0, len(text)]], dtype=np.int32)

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """See `retain.Embedder.embed_passages`."""
        here = given.get()
        if here is None:
            return await self._model.answer(_as_coroutine(self._model.embedder.embed_passages(texts)))
        return here.take(texts) if texts else np.empty((0, here.dimensions), dtype=np.float32)

    async def embed_query(self, text: str, /) -> Vectors:
        """See `retain.Embedder.embed_query`."""
        here = given.get()
        if here is None or here.question is None:
            return await self._model.answer(_as_coroutine(self._model.embedder.embed_query(text)))
        return here.question

    async def aclose(self) -> None:
        """Leave the model to the others in the process."""


async def _as_coroutine(work: Awaitable[T]) -> T:
    return await work


def unit(vector: Sequence[float], /) -> Vectors | None:
    """Return a vector at length one; None for an empty one or nothing but zeros, which is near to nothing.

    Raises:
        InvalidInputError: it holds something else than finite numbers.
    """
    try:
        row = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError):
        row = np.empty((0, 0), dtype=np.float32)
    if row.ndim != 1 or not np.isfinite(row).all():
        raise retain.InvalidInputError("an embedding must be a list of finite numbers", field="embedding")
    length = float(np.linalg.norm(row))
    return row / np.float32(length) if length > 0 else None


def parts_of(text: str, /) -> list[tuple[int, int]]:
    """Return spans of up to `PART_CHARS` that hold all of a text, none of them blank, for one passage each."""
    spans = ((start, min(start + PART_CHARS, len(text))) for start in range(0, len(text), PART_CHARS))
    return [(start, end) for start, end in spans if not text[start:end].isspace()]
