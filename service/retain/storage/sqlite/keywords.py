"""What passages hold of a question's words, computed from the postings of the keyword indexes.

FTS5's own bm25() costs some 3 us a posting and can score only what it finds. Reading the postings of each term and
adding up in numpy costs a fiftieth, gives every passage of interest a score, applies any filter before the best are
taken, counts how rare a word is where the question looks, and nowhere else, and sees the words of the passages around.
See docs/storage.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retain.domain.scoring import REACH
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.index import Mask, Positions, View
from retain.storage.sqlite.postings import Places
from retain.storage.words import Terms, spaced, spellings, terms, total_weight, weight

Scores = NDArray[np.float32]
Windows = NDArray[np.int32]
"""(n, 2r + 1) positions: each passage in the middle, with those before and after; -1 where there is none."""

_KERNEL = np.array((*reversed(REACH), 1.0, *REACH), dtype=np.float32)
"""What a word counts by where in a window it stands."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """The passages over which words are counted: those of a namespace, whatever their state.

    Attributes:
        mask: Which they are; None for all of the index.
        size: Their number.
    """

    mask: Mask | None
    size: int


@dataclass(frozen=True, slots=True)
class _Lookup:
    """How the postings of a term are read."""

    table: str
    name: str
    condition: str
    bindings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Where each term of a question occurs, and what share of the whole question it is.

    Attributes:
        held: (size of the index,) the share of the question that each passage holds itself, in [0, 1].
    """

    places: list[Places]
    shares: list[np.float32]
    held: Scores

    def held_around(self, windows: Windows, /) -> Scores:
        """Return (n,) the share of the question that passages hold with those around them, in [0, 1]; see `REACH`."""
        scores = np.zeros(len(windows), dtype=np.float32)
        for places, share in zip(self.places, self.shares, strict=True):
            scores += share * (_found(places, windows) * _KERNEL).max(axis=1, initial=0)
        return scores


def _found(places: Places, windows: Windows) -> Mask:
    """Return which positions are among `places`, ascending."""
    if not len(places):
        return np.zeros(windows.shape, dtype=np.bool_)
    return places[np.minimum(np.searchsorted(places, windows), len(places) - 1)] == windows


def find(connection: Connection, view: View, corpus: Corpus, text: str, /) -> Words:
    """Look up the terms of a question; nothing holds any of a question that has none.

    A word that no passage holds counts a part of the highest weight, so matching the rest means less. What is outside
    the corpus is left out.
    """
    asked = terms(text, connection.stems(spaced(text)), connection.stop_stems)
    found = [_places(connection, view, lookup) for lookup in _lookups(asked)]
    if corpus.mask is not None:
        found = [places[corpus.mask[places]] for places in found]
    weights = [weight(corpus.size, len(places)) for places in found]
    most = total_weight(weights, [len(places) for places in found])
    shares = [np.float32(value / most) for value in weights]
    held = np.zeros(len(view.keys), dtype=np.float32)
    for places, share in zip(found, shares, strict=True):
        held[places] += share
    return Words(found, shares, held)


def best(view: View, scores: Scores, count: int, mask: Mask | None, /) -> Positions:
    """Return the positions of up to `count` passages that match a word best, within `mask`."""
    found = np.flatnonzero(scores > 0)
    if mask is not None:
        found = found[mask[found]]
    return view.best(found, scores[found], count)


def _lookups(asked: Terms) -> list[_Lookup]:
    made = [_word(stem) for stem in asked.stems]
    made += [_Lookup("pair", pair, "term = ?", (pair,)) for pair in asked.pairs]
    made += [
        _Lookup("pair", f"{start}*", "term >= ? AND term <= ?", (start, start + "\U0010ffff")) for start in asked.starts
    ]
    return made


def _word(stem: str) -> _Lookup:
    forms = spellings(stem)
    return _Lookup("keyword", forms[0], "term = ?" if len(forms) == 1 else "term IN (?, ?)", forms)


def _places(connection: Connection, view: View, lookup: _Lookup) -> Places:
    """Return where a term occurs, each place once, ascending; some of them may be gone."""
    term = (lookup.table, lookup.name)
    kept = view.postings.get(term, len(view.keys))
    if kept is not None:
        return kept
    listed = connection.value(
        f"SELECT group_concat(doc) FROM (SELECT doc FROM {lookup.table}_place WHERE {lookup.condition})",
        lookup.bindings,
    )
    if listed is None:
        return np.empty(0, dtype=np.int32)
    keys = np.fromstring(listed, dtype=np.int64, sep=",")
    if len(lookup.bindings) > 1:
        keys = np.unique(keys)
    places = view.positions(keys).astype(np.int32)
    if not lookup.name.endswith("*"):  # the only lists that new passages would not be added to
        view.postings.put(term, places, len(view.keys), view.version)
    return places
