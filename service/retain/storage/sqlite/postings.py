"""The postings of common words, remembered between searches and kept current by the change feed.

Reading where a word occurs costs some 0.06 us a passage that holds it (docs/decisions): nothing for most words, 20 ms
for one that 300,000 passages hold. So such lists are kept, as bits where that is smaller. A passage's text never
changes (an edited memory gets new passages), so a list only grows: it stays right when each new passage is looked at
once. Passages that are gone stay in the lists; whoever uses them drops those.
"""

import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

from retain.storage.sqlite.connection import Connection, integers
from retain.storage.words import spellings

Term = tuple[str, str]
"""The table that indexes it, and the term in its first spelling."""
Places = NDArray[np.int32]
"""Positions in the passage index, ascending."""

OUTDATED = -1
"""The version of a reader whose snapshot is older than the index: a list it reads may lack passages and is not kept."""
LEAST_KEPT = 1_000
"""Shorter lists are read anew each time."""
_BYTES_PER_PASSAGE = 4
_LEAST_BYTES = 4_000_000
_FOLLOWED_AT_MOST = 2_000
"""After more new passages at once, or in one list, lists are dropped and read again when they are asked for."""


class PostingCache:
    """Lists by term; the least recently used go first. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Term, _Posting] = OrderedDict()
        self.nbytes = 0
        self.version = 0
        """Grows whenever passages were added: a list that was read before is then out of date."""

    def get(self, term: Term, size: int, /) -> Places | None:
        """Return where a term occurs among the first `size` passages; None when it is not kept."""
        with self._lock:
            posting = self._kept.get(term)
            if posting is None:
                return None
            self._kept.move_to_end(term)
            return posting.places(size)

    def put(self, term: Term, places: Places, size: int, version: int, /) -> None:
        """Keep a list that a reader at `version` found among `size` passages, unless it is out of date or short."""
        if len(places) < LEAST_KEPT:
            return
        posting = _Posting(places, size)
        with self._lock:
            if version != self.version or term in self._kept:
                return
            self._kept[term] = posting
            self.nbytes += posting.nbytes
            while self.nbytes > max(_LEAST_BYTES, _BYTES_PER_PASSAGE * size):
                _, dropped = self._kept.popitem(last=False)
                self.nbytes -= dropped.nbytes

    def follow(self, connection: Connection, keys: NDArray[np.int32], first: int, /) -> None:
        """Take in new passages, whose positions begin at `first`."""
        if not len(keys):
            return
        with self._lock:
            self.version += 1
            if len(keys) > _FOLLOWED_AT_MOST:
                self._kept.clear()
                self.nbytes = 0
            elif self._kept:
                self._add(connection, keys, first)

    def _add(self, connection: Connection, keys: NDArray[np.int32], first: int) -> None:
        rows = connection.rows(
            """SELECT words, pairs FROM passage_words JOIN passage_pairs USING (key)
               WHERE key IN carray(?) ORDER BY key""",
            (integers(keys),),
        )
        for place, (words, pairs) in enumerate(rows, first):
            terms = {("keyword", spellings(stem)[0]) for stem in connection.stems(words)}
            for term in terms.union(("pair", pair) for pair in pairs.split()):
                if (posting := self._kept.get(term)) is None:
                    continue
                posting.added.append(place)
                if len(posting.added) > _FOLLOWED_AT_MOST:  # to be read again, in the form that is smaller
                    self.nbytes -= self._kept.pop(term).nbytes


class _Posting:
    """Positions, or one bit for each passage where that is smaller; and what was added since."""

    def __init__(self, places: Places, size: int) -> None:
        self._size = size
        self._bits: NDArray[np.uint8] | None = None
        self._held = places
        if len(places) * 32 > size:
            self._bits = np.packbits(np.bincount(places, minlength=size).astype(np.bool_))
            self._held = np.empty(0, dtype=np.int32)
        self.added: list[int] = []

    @property
    def nbytes(self) -> int:
        """The memory it takes, what was added aside."""
        return self._held.nbytes if self._bits is None else self._bits.nbytes

    def places(self, size: int) -> Places:
        """Return the positions below `size`."""
        held = self._held if self._bits is None else np.flatnonzero(np.unpackbits(self._bits, count=self._size))
        places = np.concatenate((held.astype(np.int32, copy=False), np.array(self.added, dtype=np.int32)))
        return places[: np.searchsorted(places, size)]
