"""Cells: what the scan of bit codes is narrowed down to once there are hundreds of thousands.

Each cell has a centroid, found by k-means over a sample of the stored vectors, and the passages nearest to it. A search
looks at the cells whose centroids are nearest to the question, and at the passages that are newer than the cells. The
cells are in the file, derived, made when the store is idle (see `upkeep`); without them every code is scanned, which
gives nearly the same answers, more slowly. See docs/decisions/0002-an-index-that-scales.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Vectors
from retain.storage.sqlite import meta
from retain.storage.sqlite.connection import Connection, integers

CELLS_FROM = 200_000
"""Fewer passages are scanned as a whole: at most 5 ms, and cells would save little."""
PASSAGES_A_CELL = 1_000
_FEWEST_CELLS, _MOST_CELLS = 256, 4_096
_PROBED_SHARE = 8
"""One cell in so many is looked at, or more where a filter leaves too few passages in them."""
_SAMPLED_A_CELL = 64
_ROUNDS = 8
_TAIL_SHARE = 16
_REGROUPED_FROM = 2
"""Cells are made anew when the store has grown this many times, or so many times its passages were added to them."""
BLOCK = 20_000

Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells as a search uses them.

    Attributes:
        centroids: (c, d) float32 unit rows.
        members: Positions of passages, cell after cell.
        ends: (c + 1,) where each cell begins and ends in `members`.
        outside: Positions of passages that were in no cell when the cells were loaded.
        seen: Passages at this position and later ones came after that.
    """

    centroids: Vectors
    members: NDArray[np.int32]
    ends: NDArray[np.intp]
    outside: NDArray[np.int32]
    seen: int

    @classmethod
    def load(cls, connection: Connection, keys: NDArray[np.int32], /) -> Self | None:
        """Return the cells over passages with these ascending keys; None when there are none."""
        rows = connection.rows("SELECT centroid, passages FROM cell ORDER BY key")
        if not rows or not len(keys):
            return None
        grouped = np.frombuffer(b"".join(row[1] for row in rows), dtype=np.int32)
        members = np.minimum(np.searchsorted(keys, grouped), len(keys) - 1).astype(np.int32)
        left = keys[members] == grouped  # some were deleted since
        ends = np.cumsum([0, *(len(row[1]) // grouped.itemsize for row in rows)])
        outside = np.ones(len(keys), dtype=np.bool_)
        outside[members[left]] = False
        return cls(
            _centroids(rows), members[left], np.concatenate(([0], np.cumsum(left)))[ends],
            np.flatnonzero(outside).astype(np.int32), len(keys),
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """The memory they take."""
        return self.centroids.nbytes + self.members.nbytes + self.ends.nbytes + self.outside.nbytes

    def near(self, vector: Vectors, size: int, mask: Mask | None, wanted: int, /) -> Positions:
        """Return the passages of the cells nearest to `vector` within `mask`, and those that are in no cell.

        Looks at an eighth of the cells, then at as many more as it takes to find `wanted` passages.

        Args:
            vector: (d,) of any length.
            size: How many passages the index has.
            mask: Which may be returned.
            wanted: How many there should be, if there are so many.
        """
        order = np.argsort(-(self.centroids @ vector))
        found = [np.concatenate((self.outside, np.arange(self.seen, size, dtype=np.int32)))]
        if mask is not None:
            found = [found[0][mask[found[0]]]]
        count, done, step = 0, 0, max(1, len(order) // _PROBED_SHARE)
        while done < len(order) and (done == 0 or count < wanted):
            chosen = self._members(order[done : done + step])
            found.append(chosen if mask is None else chosen[mask[chosen]])
            count += len(found[-1])
            done += step
        return np.sort(np.concatenate(found)).astype(np.intp)

    def _members(self, cells: Sequence[int] | NDArray[np.intp]) -> NDArray[np.int32]:
        return np.concatenate([self.members[self.ends[cell] : self.ends[cell + 1]] for cell in cells])


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be grouped.

    Attributes:
        generation, version: Of the passages and of the cells; when one has changed meanwhile the work was for nothing.
        first: Key of the first passage to assign.
        last: Key of the last.
        centroids: Those that stay; None when they must be found anew.
        count: How many cells.
    """

    generation: int
    version: int
    first: int
    last: int
    centroids: Vectors | None
    count: int


def plan(connection: Connection, /) -> Plan | None:
    """Return what grouping is due; None for nothing."""
    passages = connection.count("SELECT count(*) FROM passage")
    if passages < CELLS_FROM:
        return None
    last = connection.count("SELECT max(key) FROM passage")
    grouped, last_grouped = _number(connection, "cells_trained"), _last_grouped(connection)
    tail = connection.count("SELECT count(*) FROM passage WHERE key > ?", (last_grouped,))
    generation, version = meta.generation(connection), _number(connection, "cells")
    listed = connection.count("SELECT total(length(passages)) / 4 FROM cell")  # of which some may be deleted
    made = connection.rows("SELECT key FROM cell ORDER BY key")
    whole = grouped and last_grouped and made == [(number,) for number in range(len(made))]
    if not whole or passages > grouped * _REGROUPED_FROM or listed > passages * _REGROUPED_FROM:
        return Plan(generation, version, 0, last, None, _cell_count(passages))
    if tail * _TAIL_SHARE > passages:
        rows = connection.rows("SELECT centroid FROM cell ORDER BY key")
        return Plan(generation, version, last_grouped, last, _centroids(rows), len(rows))
    return None


def _cell_count(passages: int) -> int:
    return min(_MOST_CELLS, max(_FEWEST_CELLS, passages // PASSAGES_A_CELL))


def sample(connection: Connection, due: Plan, /) -> Vectors:
    """Return (n, d) float32 unit rows of stored vectors from all over the store, the same each time."""
    listed = connection.value("SELECT group_concat(key) FROM passage INDEXED BY passage_memory WHERE memory >= 0")
    present = np.fromstring(listed or "", dtype=np.int64, sep=",")
    keys = np.random.default_rng(1).choice(present, min(len(present), due.count * _SAMPLED_A_CELL), replace=False)
    rows = connection.rows("SELECT embedding FROM passage WHERE key IN carray(?)", (integers(keys),))
    return _unit_rows([row[0] for row in rows])


def centroids(vectors: Vectors, count: int, /) -> Vectors:
    """Return (count, d) unit rows: spherical k-means (Dhillon and Modha 2001) over unit rows, eight rounds.

    A centroid that loses all its vectors begins anew at one of them.
    """
    random = np.random.default_rng(2)
    found = vectors[random.choice(len(vectors), count, replace=len(vectors) < count)]
    for _ in range(_ROUNDS):
        nearest = assigned(vectors, found)
        sums = np.zeros_like(found)
        np.add.at(sums, nearest, vectors)
        empty = np.bincount(nearest, minlength=count) == 0
        sums[empty] = vectors[random.choice(len(vectors), int(empty.sum()))]
        found = _normalised(sums)
    return found


def assigned(vectors: Vectors, to: Vectors, /) -> NDArray[np.int32]:
    """Return (n,) the number of the centroid nearest to each row."""
    blocks = (vectors[start : start + BLOCK] for start in range(0, len(vectors), BLOCK))
    return np.concatenate([np.argmax(block @ to.T, axis=1).astype(np.int32) for block in blocks])


def block(connection: Connection, after: int, last: int, /) -> tuple[NDArray[np.int32], Vectors] | None:
    """Return the keys and unit rows of the next passages after a key; None when there are no more."""
    rows = connection.rows(
        "SELECT key, embedding FROM passage WHERE key > ? AND key <= ? ORDER BY key LIMIT ?", (after, last, BLOCK)
    )
    if not rows:
        return None
    keys, blobs = zip(*rows, strict=True)
    return np.array(keys, dtype=np.int32), _unit_rows(blobs)


def store(
    connection: Connection, due: Plan, found: Vectors, keys: NDArray[np.int32], cells: NDArray[np.int32], /
) -> bool:
    """Write the cells, and which of them each key belongs to; False when passages or cells were replaced meanwhile."""
    if (meta.generation(connection), _number(connection, "cells")) != (due.generation, due.version):
        return False
    order = np.argsort(cells, kind="stable")
    parts = np.split(keys[order], np.searchsorted(cells[order], np.arange(1, due.count)))
    if due.centroids is None:
        connection.run("DELETE FROM cell")
        for number, (centroid, part) in enumerate(zip(found, parts, strict=True)):
            connection.run("INSERT INTO cell VALUES (?, ?, ?)", (number, centroid.tobytes(), part.tobytes()))
        meta.put(connection, "cells_trained", connection.count("SELECT count(*) FROM passage"))
    else:
        for number, part in enumerate(parts):
            held = connection.value("SELECT passages FROM cell WHERE key = ?", (number,))
            connection.run("UPDATE cell SET passages = ? WHERE key = ?", (held + part.tobytes(), number))
    meta.put(connection, "cells_last", due.last)
    meta.put(connection, "cells", _number(connection, "cells") + 1)
    return True


def _last_grouped(connection: Connection) -> int:
    return _number(connection, "cells_last")


def _number(connection: Connection, name: str) -> int:
    value = meta.get(connection, name)
    return value if isinstance(value, int) else 0


def _centroids(rows: Sequence[Sequence[Any]]) -> Vectors:
    return np.stack([np.frombuffer(row[0], dtype=np.float32) for row in rows])


def _unit_rows(blobs: Sequence[bytes]) -> Vectors:
    return _normalised(np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(len(blobs), -1).astype(np.float32))


def _normalised(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(lengths, 1e-9)).astype(np.float32, copy=False)
