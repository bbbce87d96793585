"""An embedder that is named but not opened yet: nothing about it can hinder listing and keyword search."""

import asyncio
import time
from collections.abc import Callable, Sequence
from threading import Event, Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError, RetainError

if TYPE_CHECKING:
    from retain.embeddings.choice import LoadableEmbedder

Vectors = NDArray[np.float32]
# A hub that can't be reached is asked again after this; until then its error is repeated at once.
PAUSE_S = 30.0


class DeferredEmbedder:
    """An `Embedder` that `make` opens at first use, or by `warm_up`, in a worker thread.

    Whatever is wrong with it, such as a folder that is not there, is an EmbeddingError of each use, and is mended as
    soon as the reason is: every use tries again, `pause_s` seconds after a failure at the earliest.
    """

    def __init__(
        self,
        name: str,
        make: "Callable[[Callable[[], bool]], LoadableEmbedder]",
        /,
        *,
        at_hand: Callable[[], bool] = lambda: True,
        pause_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Remember how to open it.

        Args:
            name: what the user called it.
            make: opens it; may block. It is given a function that says whether to give up.
            at_hand: whether `make` only has to look at local files.
            pause_s: how long a failure is repeated without trying again.
            clock: seconds that never run backwards.
        """
        self._name = name
        self._make = make
        self._at_hand = at_hand
        self._pause_s = pause_s
        self._clock = clock
        self._opening = Lock()
        self._closed = Event()
        self._opened: LoadableEmbedder | None = None
        self._problem: tuple[float, RetainError] | None = None

    def __repr__(self) -> str:
        return f"DeferredEmbedder({self._name!r})"

    @property
    def model_id(self) -> str:
        """Identity of the model. Reads small files at most and never downloads.

        Raises:
            EmbeddingError: the model is not there (yet).
        """
        return self._without_download().model_id

    @property
    def dimensions(self) -> int:
        """Length of a vector. Reads small files at most and never downloads.

        Raises:
            EmbeddingError: the model is not there, or not loaded (yet).
        """
        return self._without_download().dimensions

    @property
    def passage_tokens(self) -> int:
        """Most tokens of one passage. Opens the model and may block, so not for the event loop."""
        return self._open().passage_tokens

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2) like the model. Opens it and may block, so not for the event loop."""
        return self._open().token_offsets(text)

    async def warm_up(self) -> None:
        """Open and load the model now; one of a hub is downloaded, with a progress bar on a terminal.

        Raises:
            EmbeddingError: it can't be had; the message says what is missing.
        """
        await (await self._ready()).warm_up()

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows in the order of `texts`.

        Raises:
            TooLargeError: a text has more than `passage_tokens` tokens.
            EmbeddingError: the model can't be had or failed.
        """
        return await (await self._ready()).embed_passages(texts)

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the (d,) float32 unit row of a question of any length.

        Raises:
            EmbeddingError: the model can't be had or failed.
        """
        return await (await self._ready()).embed_query(text)

    async def aclose(self) -> None:
        """Give up a download and free the model."""
        self._closed.set()
        if self._opened is not None:
            await self._opened.aclose()

    async def _ready(self) -> "LoadableEmbedder":
        return self._opened or await asyncio.to_thread(self._open)

    def _without_download(self) -> "LoadableEmbedder":
        if self._opened is not None:
            return self._opened
        if not self._at_hand():
            self._repeat_problem(always=True)
            raise EmbeddingError(
                f"the embedding model {self._name} is not downloaded yet; its first use, or retain reembed, does that"
            )
        return self._open()

    def _repeat_problem(self, *, always: bool = False) -> None:
        """Raise what went wrong the last time if that was just now, or `always`."""
        if self._problem is not None:
            when, problem = self._problem
            if always or self._clock() < when + self._pause_s:
                raise EmbeddingError(str(problem))

    def _open(self) -> "LoadableEmbedder":
        with self._opening:
            if self._closed.is_set():
                raise EmbeddingError("the embedding model is closed")
            if self._opened is None:
                self._repeat_problem()
                try:
                    self._opened = self._make(self._closed.is_set)
                except RetainError as error:
                    # Not InvalidInputError: the request that needs the model is not what is wrong.
                    self._problem = (self._clock(), error)
                    raise EmbeddingError(str(error)) from error
            return self._opened
