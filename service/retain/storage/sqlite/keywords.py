"""BM25 over the keyword indexes, computed here from their postings.

FTS5's own bm25() costs some 3 us a posting and can score only what it finds. Reading the postings of each term and
adding up in numpy costs a fiftieth, gives every passage of interest a score, applies any filter before the best are
taken, and counts how rare a word is where the question looks, and nowhere else. See docs/storage.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retain.domain.scoring import FULL_SHARE
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.index import Mask, Positions, View
from retain.storage.sqlite.postings import Places
from retain.storage.words import K1, B, Terms, spaced, spellings, terms, weight

Scores = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The passages over which words are counted: those of a namespace, whatever their state.

    Attributes:
        mask: Which they are; None for all of the index.
        size, average_length: Their number, and their mean length in characters.
    """

    mask: Mask | None
    size: int
    average_length: float


@dataclass(frozen=True, slots=True)
class _Lookup:
    """How the postings of a term are read."""

    table: str
    name: str
    condition: str
    bindings: tuple[str, ...]


def keyword_scores(connection: Connection, view: View, corpus: Corpus, text: str, /) -> Scores | None:
    """Return (n,) the share in [0, 1] of the question's weight that each passage carries; None without terms.

    A passage of average length that holds every word of the question scores 1 / (1 + K1) = 0.45, a shorter one more.
    A word that no passage holds counts with the highest weight, so matching the rest means less. Passages outside the
    corpus score 0.
    """
    asked = terms(text, connection.stems(spaced(text)), connection.stop_stems)
    if not asked:
        return None
    found = [_places(connection, view, lookup) for lookup in _lookups(asked)]
    if corpus.mask is not None:
        found = [places[corpus.mask[places]] for places in found]
    weights = [weight(corpus.size, len(places)) for places in found]
    scores = np.zeros(len(view.keys), dtype=np.float32)
    for places, value in zip(found, weights, strict=True):
        scores[places] += np.float32(value)
    matching = np.flatnonzero(scores > 0)
    most = sum(weights) * (K1 + 1)
    scores[matching] *= _per_passage(view.lengths[matching], corpus.average_length) / np.float32(most)
    return scores


def _per_passage(lengths: NDArray[np.uint16], average_length: float) -> Scores:
    """Return BM25's factor for a word that occurs, in (0, K1 + 1): less in longer passages."""
    relative = lengths / np.float32(max(average_length, 1))
    return ((K1 + 1) / (1 + K1 * (1 - B + B * relative))).astype(np.float32)


def best(view: View, scores: Scores, count: int, mask: Mask | None, /) -> Positions:
    """Return the positions of up to `count` passages that match a word best, within `mask`; all full matches tie."""
    found = np.flatnonzero(scores > 0)
    if mask is not None:
        found = found[mask[found]]
    return view.best(found, np.minimum(scores[found], np.float32(FULL_SHARE)), count)


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
