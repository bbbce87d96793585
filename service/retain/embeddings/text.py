"""Small things that every embedder does with text before a model sees it."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import TooLargeError

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


def concatenated(parts: Sequence[NDArray[np.float32]], dimensions: int) -> NDArray[np.float32]:
    """All rows in order, (0, dimensions) when there are none."""
    return np.concatenate(parts) if parts else np.empty((0, dimensions), np.float32)
