"""The passage index in memory: one per process, shared by its readers, derived from the file, never the truth.

It holds what a search touches for every passage: the bit code and the few numbers that filters and BM25 need, some
70 bytes each at 384 dimensions. Each read brings it up to its own snapshot first, by the change feed, so that
another process's write is seen by the very next query. An index that is ahead of a reader's snapshot does no harm:
what the reader's transaction can't see yet is dropped when its vectors are read.
"""

import threading
from dataclasses import dataclass
from typing import Any, cast

import apsw
import numpy as np
from numpy.typing import NDArray

from retain.storage.sqlite import changes, meta
from retain.storage.sqlite.connection import Connection, Row
from retain.storage.sqlite.vectors import Words, code_words

GONE = 255
"""State of a passage that was removed. The others are those of `memory.state`."""

_GROWTH = 1.125
_RELOAD_SHARE = 4
_GATHER_SHARE = 5
_BLOCK = 16_384

_SELECT = """
    SELECT passage.key, passage.memory, memory.namespace, memory.state, passage.words, passage.code
    FROM passage JOIN memory ON memory.key = passage.memory"""

Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class View:
    """The index as one search sees it: n passages in ascending order of `keys`.

    Arrays are views of shared memory; other readers may append behind them and change states within.
    """

    keys: NDArray[np.int64]
    memories: NDArray[np.int32]
    namespaces: NDArray[np.int32]
    states: NDArray[np.uint8]
    lengths: NDArray[np.int32]
    codes: Words
    present: int
    average_length: float

    def nearest(self, code: Words, count: int, mask: Mask | None, /) -> Positions:
        """Return the positions of up to `count` passages whose codes differ least from `code`, within `mask`."""
        size = len(self.keys)
        allowed = size if mask is None else int(np.count_nonzero(mask))
        if allowed <= count:
            return np.arange(size) if mask is None else np.flatnonzero(mask)
        if mask is not None and allowed * _GATHER_SHARE < size:
            chosen = np.flatnonzero(mask)
            return chosen[np.argpartition(_distances(self.codes[:, chosen], code), count)[:count]]
        distances = _distances(self.codes, code)
        if mask is not None:
            distances[~mask] = np.iinfo(np.uint16).max
        return np.argpartition(distances, count)[:count]


def _distances(codes: Words, code: Words) -> NDArray[np.uint16]:
    """Return in how many bits each code differs; in blocks that stay in the processor's cache."""
    distances = np.zeros(codes.shape[1], dtype=np.uint16)
    for start in range(0, len(distances), _BLOCK):
        part = distances[start : start + _BLOCK]
        for word, column in zip(code, codes[:, start : start + _BLOCK], strict=True):
            part += np.bitwise_count(column ^ word)
    return distances


class PassageIndex:
    """The arrays behind `View`, and how they follow the database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: _Arrays | None = None

    def view(self, connection: Connection, /) -> View:
        """Return the index brought up to the snapshot of `connection`'s transaction, or a later one."""
        generation, last = meta.generation(connection), changes.last_change(connection)
        with self._lock:
            arrays = self._loaded
            if arrays is not None and generation < arrays.generation:
                return _load(connection, generation, last).view()  # a reader from before a re-embedding
            if arrays is None or generation > arrays.generation or not _followed(connection, arrays, last):
                arrays = self._loaded = None  # free the old one first
                arrays = self._loaded = _load(connection, generation, last)
            return arrays.view()


class _Arrays:
    """Growing arrays; appending copies only when the spare room is used up."""

    def __init__(self, generation: int, last: int, rows: list[Row]) -> None:
        self.generation = generation
        self.last = last
        self.size = 0
        self.present = 0
        self.total_length = 0
        self.keys = np.empty(0, dtype=np.int64)
        self.memories = np.empty(0, dtype=np.int32)
        self.namespaces = np.empty(0, dtype=np.int32)
        self.states = np.empty(0, dtype=np.uint8)
        self.lengths = np.empty(0, dtype=np.int32)
        self.codes: Words = np.empty((0, 0), dtype=np.uint64)
        self.append(rows)

    def append(self, rows: list[Row]) -> None:
        """Add passages, whose keys must be higher than all before."""
        if not rows:
            return
        keys, memories, namespaces, states, lengths, blobs = zip(*rows, strict=True)
        codes = code_words(list(blobs))
        self._make_room(len(rows), len(codes))
        new = slice(self.size, self.size + len(rows))
        self.keys[new], self.memories[new], self.namespaces[new] = keys, memories, namespaces
        self.states[new], self.lengths[new], self.codes[:, new] = states, lengths, codes
        self.size += len(rows)
        self.present += len(rows)
        self.total_length += sum(lengths)

    def _make_room(self, count: int, width: int) -> None:
        needed = self.size + count
        if needed <= len(self.keys):
            return
        room = needed if self.size == 0 else max(needed, int(len(self.keys) * _GROWTH)) + 64
        for name in ("keys", "memories", "namespaces", "states", "lengths"):
            old = getattr(self, name)
            new = np.empty(room, dtype=old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)
        codes = np.empty((width, room), dtype=np.uint64)
        if self.size:
            codes[:, : self.size] = self.codes[:, : self.size]
        self.codes = codes

    def replace(self, memories: list[int], rows: list[Row]) -> None:
        """Make `rows` all that is left of `memories`."""
        held = slice(0, self.size)
        old = np.flatnonzero(np.isin(self.memories[held], memories) & (self.states[held] != GONE))
        self.present -= len(old)
        self.total_length -= int(self.lengths[old].sum())
        highest = int(self.keys[self.size - 1]) if self.size else 0
        kept = [row for row in rows if row[0] <= highest]
        staying = np.searchsorted(self.keys[held], np.array([row[0] for row in kept], dtype=np.int64))
        states = np.full(self.size, GONE, dtype=np.uint8)  # one write a passage: no reader sees it gone in between
        states[staying] = [row[3] for row in kept]
        self.states[old] = states[old]
        self.present += len(staying)
        self.total_length += int(self.lengths[staying].sum())
        self.append([row for row in rows if row[0] > highest])

    def view(self) -> View:
        """Return what is there now."""
        held = slice(0, self.size)
        return View(
            self.keys[held], self.memories[held], self.namespaces[held], self.states[held], self.lengths[held],
            self.codes[:, held], self.present, self.total_length / max(self.present, 1),
        )  # fmt: skip


def _load(connection: Connection, generation: int, last: int) -> _Arrays:
    return _Arrays(generation, last, connection.rows(f"{_SELECT} ORDER BY passage.key"))


def _followed(connection: Connection, arrays: _Arrays, last: int) -> bool:
    """Apply what changed since; False when the feed has a gap or so much changed that loading is cheaper."""
    if last <= arrays.last:
        return True
    first = connection.count("SELECT min(seq) FROM change")
    if first == 0 or first > arrays.last + 1:
        return False
    changed = [row[0] for row in connection.rows("SELECT DISTINCT memory FROM change WHERE seq > ?", (arrays.last,))]
    if len(changed) > 1_000 and len(changed) * _RELOAD_SHARE > arrays.size:
        return False
    rows = connection.rows(
        f"{_SELECT} WHERE passage.memory IN carray(?) ORDER BY passage.key", (integers(np.array(changed)),)
    )
    if arrays.size == 0 and rows:
        return False  # the width of the codes is not known yet
    arrays.replace(changed, rows)
    arrays.last = last
    return True


def integers(values: NDArray[np.int64], /) -> object:
    """Return whole numbers as a table for `IN carray(?)`; there must be at least one."""
    return cast("Any", apsw).carray(np.ascontiguousarray(values, dtype=np.int64))
