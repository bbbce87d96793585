"""The passage index in memory: one per process, shared by its readers, derived from the file, never the truth.

It holds what a search touches for every passage: the bit code of its vector and the few numbers that filters and word
searches need, 73 bytes each at 384 dimensions, 78 with cells. Each read brings it up to its own snapshot first, by the
change feed, so that another process's write is seen by the very next query.
"""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import Model
from retain.storage.sqlite.cells import Cells
from retain.storage.sqlite.connection import Connection, Row, integers
from retain.storage.sqlite.postings import OUTDATED, PostingCache
from retain.storage.sqlite.vectors import Words, code_words

GONE = 255
"""State of a passage that was removed. The others are those of `memory.state`."""

_GROWTH = 32
"""A full array grows by this part of itself, and a little: copying stays rare, spare room small."""
_LOADED_AT_ONCE = 20_000
_FOLLOWED_AT_MOST = 1_000
_RELOAD_SHARE = 4
"""Loading anew is cheaper than following changes to more than a quarter of all passages, or keeping so many gone."""
_COMPARED_ONE_BY_ONE = 16
_GATHER_SHARE = 5
_BLOCK = 32_768
_SAMPLED = 8

_CONVERSATION_BYTES = 200
"""About what a conversation's name and number take in a dictionary."""
_STORED = 0
"""`change.kind` of a memory that had no passages before."""

_SELECT = """
    SELECT passage.key, passage.memory, memory.namespace, memory.state, memory.type, memory.occurred_at,
           memory.conversation_id, {embedding}
    FROM passage JOIN memory ON memory.key = passage.memory"""

Positions = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class View:
    """The index as one search sees it: n passages in ascending order of `keys`.

    Arrays are views of shared memory, behind which other readers may append. `threads` has a number above 0 for each
    conversation, and for a memory without one its own key, negative.
    """

    keys: NDArray[np.int32]
    memories: NDArray[np.int32]
    namespaces: NDArray[np.integer]
    states: NDArray[np.uint8]
    types: NDArray[np.integer]
    occurred: NDArray[np.int64]
    threads: NDArray[np.int32]
    codes: Words
    type_numbers: dict[str, int]
    cells: Cells | None
    postings: PostingCache
    version: int
    model: Model | None

    def positions(self, keys: NDArray[np.integer], /) -> Positions:
        """Return where those of `keys`, ascending, are that the index holds."""
        places = np.searchsorted(self.keys, keys.astype(np.int32, copy=False))
        here = places < len(self.keys)
        here[here] = self.keys[places[here]] == keys[here]
        return places[here]

    def nearest(self, code: Words, count: int, within: Positions | None, /) -> Positions:
        """Return the positions of the `count` passages whose codes differ least from `code`, and of some more.

        `within` are the positions to choose from, ascending; None for all.
        """
        if within is None:
            return _least(_distances(self.codes, code, None), count)
        if len(within) * _GATHER_SHARE < len(self.keys):
            return within[_least(_distances(self.codes, code, within), count)]
        return within[_least(_distances(self.codes, code, None)[within], count)]

    def best(self, positions: Positions, values: NDArray[np.floating], count: int, /) -> Positions:
        """Return the `count` of `positions` with the highest `values`.

        Ties go to the memory stored later, within a memory to the earlier passage: as the core ranks them, so that no
        tie is cut elsewhere than there.
        """
        if len(positions) <= count:
            return positions
        least = np.partition(values, -count)[-count]
        better, tied = positions[values > least], positions[values == least]
        missing = count - len(better)
        if len(tied) > missing:
            order = (self.memories[tied].astype(np.int64) << 32) - tied
            tied = tied[np.argpartition(-order, missing - 1)[:missing]]
        return np.concatenate((better, tied))


def _distances(codes: Words, code: Words, chosen: Positions | None) -> NDArray[np.uint16]:
    """Return in how many bits each code differs; in blocks that stay in the processor's cache."""
    distances = np.zeros(codes.shape[1] if chosen is None else len(chosen), dtype=np.uint16)
    for start in range(0, len(distances), _BLOCK):
        part = distances[start : start + _BLOCK]
        block = slice(start, start + _BLOCK) if chosen is None else chosen[start : start + _BLOCK]
        for word, column in zip(code, codes, strict=True):
            part += np.bitwise_count(column[block] ^ word)
    return distances


def _least(distances: NDArray[np.uint16], count: int) -> Positions:
    """Return where the `count` smallest distances, or a few more, are: counting them is quicker than sorting."""
    if len(distances) <= count:
        return np.arange(len(distances))
    for step in (_SAMPLED, 1):
        limit = np.searchsorted(np.cumsum(np.bincount(distances[::step])), count / step)
        chosen = np.flatnonzero(distances <= limit)
        if len(chosen) >= count:
            break  # a sample may have set the limit too low
    return chosen


@dataclass(frozen=True, slots=True)
class _State:
    """How far a snapshot of the file is: numbers that only grow."""

    generation: int
    cells: int
    last_change: int
    first_change: int
    model: Model | None


class PassageIndex:
    """The arrays behind `View`, and how they follow the database."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: _Arrays | None = None

    def view(self, connection: Connection, /) -> View:
        """Return the index brought up to the snapshot of `connection`'s transaction.

        To be the first read of the transaction: the snapshot is then taken here, one reader after another, so that
        the index is not ahead of it. To a transaction that has read before, a later index is shown.
        """
        with self._lock:
            state = _state(connection)
            arrays, self._loaded = self._loaded, None  # half followed is not to be used again
            if arrays is not None and state.generation < arrays.state.generation:
                self._loaded = arrays
                return _load(connection, state).view()  # a reader from before a re-embedding
            if arrays is None or not _followed(connection, arrays, state):
                del arrays  # free the old one first
                arrays = _load(connection, state)
            self._loaded = arrays
            if state.last_change < arrays.state.last_change:
                return replace(arrays.view(), version=OUTDATED)
            return arrays.view()

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each array; "postings" is the cache of keyword searches, the rest the index itself."""
        return {} if self._loaded is None else self._loaded.sizes


class _Arrays:
    """Growing arrays; appending copies only when the spare room is used up."""

    _COLUMNS = ("keys", "memories", "namespaces", "states", "types", "occurred", "threads")

    def __init__(self, state: _State, room: int) -> None:
        self.state = state
        self.size = 0
        self.gone = 0
        self.keys = np.empty(room, dtype=np.int32)
        self.memories = np.empty(room, dtype=np.int32)
        self.namespaces: NDArray[np.integer] = np.empty(room, dtype=np.uint16)
        self.states = np.empty(room, dtype=np.uint8)
        self.types: NDArray[np.integer] = np.empty(room, dtype=np.uint16)
        self.occurred = np.empty(room, dtype=np.int64)
        self.threads = np.empty(room, dtype=np.int32)
        self.codes: Words = np.empty((0, room), dtype=np.uint64)
        self.type_numbers: dict[str, int] = {}
        self.conversations: dict[str, int] = {}
        self.cells: Cells | None = None
        self.postings = PostingCache()

    @property
    def highest(self) -> int:
        """The key of the last passage, 0 for none."""
        return int(self.keys[self.size - 1]) if self.size else 0

    def append(self, rows: list[Row]) -> None:
        """Add passages, whose keys must be higher than all before."""
        if not rows:
            return
        keys, memories, namespaces, states, types, occurred, conversations, blobs = zip(*rows, strict=True)
        codes = code_words(list(blobs))
        self._make_room(len(rows), len(codes))
        if max(namespaces) > np.iinfo(self.namespaces.dtype).max:
            self.namespaces = self.namespaces.astype(np.int32)
        new = slice(self.size, self.size + len(rows))
        self.keys[new], self.memories[new], self.namespaces[new] = keys, memories, namespaces
        self.states[new], self.occurred[new] = states, occurred
        self.threads[new] = list(map(self._thread, memories, namespaces, conversations))
        self.types[new] = [self._type_number(name) for name in types]
        self.codes[:, new] = codes
        self.size += len(rows)

    def _thread(self, memory: int, namespace: int, conversation: str | None) -> int:
        if conversation is None:
            return -memory
        return self.conversations.setdefault(f"{namespace} {conversation}", len(self.conversations) + 1)

    def _type_number(self, name: str) -> int:
        number = self.type_numbers.setdefault(name, len(self.type_numbers))
        if number > np.iinfo(self.types.dtype).max:
            self.types = self.types.astype(np.int32)
        return number

    def _make_room(self, count: int, width: int) -> None:
        if not self.size:
            self.codes = np.empty((width, len(self.keys)), dtype=np.uint64)
        needed = self.size + count
        if needed <= len(self.keys):
            return
        room = needed + needed // _GROWTH + 64
        for name in self._COLUMNS:
            setattr(self, name, _grown(getattr(self, name), room, self.size))
        self.codes = _grown(self.codes, room, self.size)

    def replace(self, memories: list[int], rows: list[Row]) -> None:
        """Make `rows` all that is left of `memories`."""
        old = self._positions_of(memories)
        kept = [row for row in rows if row[0] <= self.highest]
        staying = np.searchsorted(self.keys[: self.size], np.array([row[0] for row in kept], dtype=np.int32))
        # Copies, so that a search that runs sees no part of this: 11 bytes a passage.
        self.states, self.types, self.occurred = self.states.copy(), self.types.copy(), self.occurred.copy()
        for place, row in zip(staying, kept, strict=True):
            self.states[place], self.types[place] = row[3], self._type_number(row[4])
            self.occurred[place] = row[5]
        gone = np.setdiff1d(old, staying)
        self.gone += int(np.count_nonzero(self.states[gone] != GONE))
        self.states[gone] = GONE

    def _positions_of(self, memories: list[int]) -> Positions:
        held = self.memories[: self.size]
        if len(memories) > _COMPARED_ONE_BY_ONE:
            return np.flatnonzero(np.isin(held, np.array(memories, dtype=np.int32)))
        return np.concatenate([np.empty(0, np.intp), *(np.flatnonzero(held == memory) for memory in memories)])

    def view(self) -> View:
        """Return what is there now."""
        held = slice(0, self.size)
        return View(
            *(getattr(self, name)[held] for name in self._COLUMNS),
            codes=self.codes[:, held], type_numbers=self.type_numbers, cells=self.cells, postings=self.postings,
            version=self.postings.version, model=self.state.model,
        )  # fmt: skip

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of each array."""
        sizes = {name: cast("NDArray[Any]", getattr(self, name)).nbytes for name in (*self._COLUMNS, "codes")}
        return sizes | {
            "conversations": len(self.conversations) * _CONVERSATION_BYTES,
            "cells": 0 if self.cells is None else self.cells.nbytes,
            "postings": self.postings.nbytes,
        }


def _grown(old: NDArray[Any], room: int, size: int) -> NDArray[Any]:
    new = np.empty((*old.shape[:-1], room), dtype=old.dtype)
    new[..., :size] = old[..., :size]
    return new


def _state(connection: Connection) -> _State:
    *numbers, model, dimensions = connection.rows(
        """SELECT (SELECT value FROM meta WHERE name = 'generation'), (SELECT value FROM meta WHERE name = 'cells'),
                  (SELECT seq FROM sqlite_sequence WHERE name = 'change'), (SELECT min(seq) FROM change),
                  (SELECT value FROM meta WHERE name = 'model'), (SELECT value FROM meta WHERE name = 'dimensions')"""
    )[0]
    return _State(*(number or 0 for number in numbers), model=Model(model, dimensions) if model else None)


def _load(connection: Connection, state: _State) -> _Arrays:
    arrays = _Arrays(state, connection.count("SELECT count(*) FROM passage"))
    for rows in _blocks(connection):
        arrays.append(rows)
    _load_cells(connection, arrays)
    return arrays


def _blocks(connection: Connection) -> Iterator[list[Row]]:
    sql = f"{_SELECT.format(embedding='passage.embedding')} WHERE passage.key > ? ORDER BY passage.key LIMIT ?"
    last = 0
    while rows := connection.rows(sql, (last, _LOADED_AT_ONCE)):
        yield rows
        last = rows[-1][0]


def _load_cells(connection: Connection, arrays: _Arrays) -> None:
    arrays.cells = Cells.load(connection, arrays.keys[: arrays.size])


def _followed(connection: Connection, arrays: _Arrays, state: _State) -> bool:
    """Apply what changed since; False when the feed has a gap or so much changed that loading is cheaper."""
    if state.generation > arrays.state.generation or arrays.gone * _RELOAD_SHARE > arrays.size + _FOLLOWED_AT_MOST:
        return False
    if state.last_change > arrays.state.last_change and not _follow_changes(connection, arrays, state):
        return False
    if state.cells > arrays.state.cells:
        _load_cells(connection, arrays)
    if state.last_change >= arrays.state.last_change:
        arrays.state = state
    return True


def _follow_changes(connection: Connection, arrays: _Arrays, state: _State) -> bool:
    if state.first_change == 0 or state.first_change > arrays.state.last_change + 1 or arrays.size == 0:
        return False  # without passages the width of the codes is not known yet
    changed = connection.rows(
        "SELECT memory, max(kind) FROM change WHERE seq > ? GROUP BY memory", (arrays.state.last_change,)
    )
    if len(changed) > _FOLLOWED_AT_MOST and len(changed) * _RELOAD_SHARE > arrays.size:
        return False
    sql = _SELECT.format(embedding="iif(passage.key > ?, passage.embedding, NULL)")
    rows = connection.rows(
        f"{sql} WHERE passage.memory IN carray(?) ORDER BY passage.key",
        (arrays.highest, integers([memory for memory, _ in changed])),
    )
    had_passages = [memory for memory, kind in changed if kind != _STORED]
    highest = arrays.highest
    if had_passages:
        arrays.replace(had_passages, rows)
    first = arrays.size
    arrays.append([row for row in rows if row[0] > highest])
    arrays.postings.follow(connection, arrays.keys[first : arrays.size], first)
    return True
