"""Small things that every embedder does with text before a model sees it."""

import re
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import TooLargeError

CACHED_QUERIES = 512

_SURROGATES = re.compile("[\ud800-\udfff]")


def sound_text(text: str) -> str:
    """`text` with each lone surrogate, which no encoder accepts, replaced by one U+FFFD: offsets stay right."""
    return _SURROGATES.sub("\ufffd", text)


def windows(text: str, offsets: NDArray[np.int32], most: int) -> list[str]:
    """Consecutive parts of `text` of about equal size, each of at most `most` of the tokens at `offsets`."""
    if len(offsets) <= most:
        return [text]
    count = -(-len(offsets) // most)
    size = -(-len(offsets) // count)
    starts = offsets[::size, 0].tolist()
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def refuse_long(tokens: int, most: int, name: str) -> None:
    """Raise TooLargeError for a passage over the limit: cutting it here would lose its end without a word."""
    if tokens > most:
        raise TooLargeError(
            f"a passage of {tokens} tokens is longer than the {most} that {name} reads; split it first",
            field="content",
        )


class RecentQueries:
    """The vectors of the last 512 different questions. Thread safe."""

    def __init__(self, most: int = CACHED_QUERIES) -> None:
        self._most = most
        self._lock = Lock()
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def get(self, text: str) -> NDArray[np.float32] | None:
        """A copy of the vector of `text`, if it is remembered."""
        with self._lock:
            if (vector := self._vectors.get(text)) is None:
                return None
            self._vectors.move_to_end(text)
        return vector.copy()

    def put(self, text: str, vector: NDArray[np.float32]) -> None:
        """Remember a vector and forget the one not asked for the longest."""
        with self._lock:
            self._vectors[text] = vector.copy()
            if len(self._vectors) > self._most:
                self._vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()


def concatenated(parts: Sequence[NDArray[np.float32]], dimensions: int) -> NDArray[np.float32]:
    """All rows in order, (0, dimensions) when there are none."""
    return np.concatenate(parts) if parts else np.empty((0, dimensions), np.float32)
