"""How vectors are kept: as int8 for exact distances in SQL, and as bits for the scan in memory."""

from functools import lru_cache
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Vectors

T = TypeVar("T", bound=np.generic)
Words = NDArray[np.uint64]
"""Bit codes, 64 bits a word."""

_BYTES = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)
"""(256, 8): the bits of each byte."""
_ENOUGH_BITS = 384
_MOST_LEVELS = 15


def embeddings(vectors: Vectors, /) -> NDArray[np.int8]:
    """Return (n, d) int8: each row scaled so that its largest component is 127, which leaves cosines as they are.

    Measured on 100,000 clustered vectors of 384 dimensions: cosines are off by 0.0005 (standard deviation).
    """
    peak = np.abs(vectors).max(axis=1, keepdims=True)
    return np.rint(vectors * (127 / np.where(peak > 0, peak, 1))).astype(np.int8)


def codes(embedded: NDArray[np.int8], /) -> NDArray[np.uint8]:
    """Return (n, 8·w) bytes: for each component one bit a threshold, set when the component lies above it.

    From 384 dimensions on the one threshold is 0. Short vectors get several, so that every code has some 384 bits
    and the number of bits in which two codes differ still tells near from far.
    """
    size = embedded.shape[1]
    levels = _thresholds(_levels(size))
    if len(levels) == 1:
        bits = embedded > 0
    else:
        vectors = embedded.astype(np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        scaled = vectors * (np.sqrt(np.float32(size)) / np.where(lengths > 0, lengths, 1))
        bits = (scaled[:, :, None] > levels).reshape(len(embedded), -1)
    return _filled_up(np.packbits(bits, axis=1), 8)


def code_words(blobs: list[bytes], /) -> Words:
    """Return (w, n): the codes of n stored vectors, one row for each 64 bits."""
    embedded = np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(len(blobs), -1)
    return np.ascontiguousarray(codes(embedded).view(np.uint64).T)


def estimates(coded: Words, vector: Vectors, /) -> NDArray[np.float32]:
    """Return (n,) how near coded vectors are to `vector`, higher being nearer: only the order means something.

    The question keeps its full precision here, so this orders much better than counting differing bits, and costs
    more: some 0.08 us a passage at 384 dimensions. What each byte of a code adds is looked up in a table.
    """
    weights = _filled_up(np.repeat(vector, _levels(len(vector)))[None, :], 64).reshape(-1, 8)
    tables = (weights @ _BYTES.T).astype(np.float32)
    columns = np.ascontiguousarray(coded).view(np.uint8).reshape(len(coded), -1, 8).transpose(0, 2, 1)
    totals = np.zeros(coded.shape[1], dtype=np.float32)
    for table, column in zip(tables, columns.reshape(len(tables), -1), strict=True):
        totals += table.take(column)
    return totals


def _filled_up(rows: NDArray[T], multiple: int) -> NDArray[T]:
    """Return rows with zeros behind, so that their length is a multiple. numpy's pad takes 70 us to do nothing."""
    missing = -rows.shape[1] % multiple
    return np.pad(rows, ((0, 0), (0, missing))) if missing else rows


def _levels(size: int) -> int:
    return max(1, min(_MOST_LEVELS, _ENOUGH_BITS // size))


@lru_cache
def _thresholds(count: int) -> NDArray[np.float32]:
    """Return the quantiles that cut a standard normal distribution into `count` + 1 equal parts."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((place + 1) / (count + 1)) for place in range(count)], dtype=np.float32)
