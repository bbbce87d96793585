"""Vectors made a short while ago, so that the same text is not embedded again while the process lives.

Questions are asked again, requests are sent again, and an edited memory keeps most of its passages.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Awaitable[Vectors]]

QUERY_BYTES = 1 << 20
PASSAGE_BYTES = 8 << 20
"""About 570 questions and 4,600 passages of 384 dimensions. Apart, so that an import doesn't push the questions out;
float32, so that a text has the same vector each time; small against the model, which takes some 130 MB."""
_ENTRY_BYTES = 300
"""What a vector takes beside its numbers."""


class RecentVectors:
    """The vectors of the texts embedded last, by SHA-256, in at most `most_bytes`. Thread safe."""

    def __init__(self, most_bytes: int, /) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._lock = Lock()
        self._vectors: OrderedDict[bytes, Vectors] = OrderedDict()

    async def or_made(self, texts: Sequence[str], embed: Embed, /) -> Vectors:
        """Return (n, d) rows in the order of `texts`, n > 0; `embed` makes those not known, each text once."""
        digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
        found = self._known(digests)
        missing = {digest: text for digest, text in zip(digests, texts, strict=True) if digest not in found}
        if missing:
            made = dict(zip(missing, await embed(list(missing.values())), strict=True))
            self._remember(made)
            found |= made
        return np.stack([found[digest] for digest in digests])

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()
            self._bytes = 0

    def _known(self, digests: Sequence[bytes]) -> dict[bytes, Vectors]:
        with self._lock:
            known = {digest: self._vectors[digest] for digest in digests if digest in self._vectors}
            for digest in known:
                self._vectors.move_to_end(digest)
        return known

    def _remember(self, made: dict[bytes, Vectors]) -> None:
        """Take in vectors and forget the ones not asked for the longest."""
        with self._lock:
            for digest, vector in made.items():
                if digest not in self._vectors:
                    self._vectors[digest] = vector.copy()  # a row alone would keep the whole batch in memory
                    self._bytes += vector.nbytes + _ENTRY_BYTES
            while self._bytes > self._most_bytes:
                _, vector = self._vectors.popitem(last=False)
                self._bytes -= vector.nbytes + _ENTRY_BYTES
