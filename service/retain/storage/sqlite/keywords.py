"""BM25 over the keyword indexes, computed here from their postings.

FTS5's own bm25() costs some 3 us a posting and can score only what it finds; reading the postings of each term and
adding up in numpy costs a tenth, gives every passage of interest a score, and applies any filter before the best
are taken. See docs/storage.md for the measurements.
"""

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.index import GONE, Mask, Positions, View
from retain.storage.words import K1, B, Terms, spaced, spellings, terms, weight

POSTINGS_BUDGET = 50_000
"""Most postings read for a question beyond those of its rarest term, rarer terms first: about 10 ms. The words left
out are the commonest. The rarest is always read whole, so that a question of one common word finds its memories."""
_MOST_TERMS = 64
_REMEMBERED_TERMS = 20_000

Scores = NDArray[np.float32]


class TermCounts:
    """How many passages each term was last seen in, to read rare terms first. Only a hint, kept per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: OrderedDict[str, int] = OrderedDict()

    def get(self, term: str, /) -> int:
        """Return the count last seen, 0 for a term not seen yet."""
        return self._counts.get(term, 0)

    def set(self, term: str, count: int, /) -> None:
        """Remember a count."""
        with self._lock:
            self._counts[term] = count
            self._counts.move_to_end(term)
            if len(self._counts) > _REMEMBERED_TERMS:
                self._counts.popitem(last=False)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """How the postings of a term are read."""

    name: str
    table: str
    condition: str
    bindings: tuple[str, ...]
    is_sorted: bool


def keyword_scores(
    connection: Connection, view: View, counts: TermCounts, text: str, /, *, every_term: bool
) -> Scores | None:
    """Return (n,) the share in [0, 1] of the question's weight that each passage carries; None without terms.

    With `every_term` the budget does not hold: a small filtered set may be left with nothing but a common word.

    A passage of average length that holds every word of the question once scores 1 / (1 + K1) = 0.45, many times
    comes near 1. A word that no passage holds counts with the highest weight, so matching the rest means less.
    """
    asked = terms(text, connection.stems(spaced(text)), connection.stop_stems)
    if not asked:
        return None
    scores = np.zeros(len(view.keys), dtype=np.float32)
    total = 0.0
    left = POSTINGS_BUDGET
    for place, lookup in enumerate(sorted(_lookups(asked), key=lambda lookup: counts.get(lookup.name))):
        count = counts.get(lookup.name)
        whole = every_term or place == 0
        if whole or count < left:
            positions, frequencies, complete = _postings(connection, view, lookup, None if whole else left)
            count = len(positions) if complete else max(count, left)
            counts.set(lookup.name, count)
            if complete:  # part of the postings would favour the oldest passages
                left -= len(positions)
                scores[positions] += weight(view.present, count) * _saturated(frequencies, view, positions)
        total += weight(view.present, count) * (K1 + 1)
    return np.clip(scores / np.float32(total), 0, 1)


def best(scores: Scores, count: int, mask: Mask | None, view: View, /) -> Positions:
    """Return the positions of up to `count` passages that match a word, best first, within `mask`."""
    found = np.flatnonzero(scores)
    found = found[mask[found]] if mask is not None else found[view.states[found] != GONE]
    if len(found) > count:
        found = found[np.argpartition(-scores[found], count)[:count]]
    return found[np.lexsort((-found, -scores[found]))]


def _lookups(asked: Terms) -> list[_Lookup]:
    made = [_word(stem) for stem in asked.stems]
    made += [_Lookup(pair, "pair_place", "term = ?", (pair,), True) for pair in asked.pairs]
    made += [
        _Lookup(start, "pair_place", "term >= ? AND term <= ?", (start, start + "\U0010ffff"), False)
        for start in asked.starts
    ]
    return made[:_MOST_TERMS]


def _word(stem: str) -> _Lookup:
    forms = spellings(stem)
    condition = "term = ?" if len(forms) == 1 else "term IN (?, ?)"
    return _Lookup(stem, "keyword_place", condition, forms, len(forms) == 1)


def _postings(
    connection: Connection, view: View, lookup: _Lookup, limit: int | None
) -> tuple[Positions, NDArray[np.float32], bool]:
    """Return where a term occurs, how often in each place, and whether that is all."""
    listed = connection.value(
        f"SELECT group_concat(doc) FROM (SELECT doc FROM {lookup.table} WHERE {lookup.condition} LIMIT ?)",
        (*lookup.bindings, -1 if limit is None else limit),
    )
    if listed is None:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.float32), True
    occurrences = np.fromstring(listed, dtype=np.int64, sep=",")
    if not lookup.is_sorted:
        occurrences.sort()
    firsts = np.flatnonzero(np.diff(occurrences, prepend=-1))
    keys = occurrences[firsts]
    frequencies = np.diff(firsts, append=len(occurrences))
    places = np.clip(keys - view.keys[0], 0, len(view.keys) - 1)  # right when no key was ever skipped
    if not np.array_equal(view.keys[places], keys):
        places = np.minimum(np.searchsorted(view.keys, keys), len(view.keys) - 1)
    here = (view.keys[places] == keys) & (view.states[places] != GONE)
    return places[here], frequencies[here].astype(np.float32), limit is None or len(occurrences) < limit


def _saturated(frequencies: NDArray[np.float32], view: View, positions: Positions) -> Scores:
    """Return BM25's factor for the term frequency, in (0, K1 + 1)."""
    lengths = view.lengths[positions] / np.float32(max(view.average_length, 1))
    return (frequencies * (K1 + 1) / (frequencies + K1 * (1 - B + B * lengths))).astype(np.float32)
