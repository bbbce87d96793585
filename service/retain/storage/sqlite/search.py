"""Finding passages: by meaning, by words, or literally. Each function runs in one read transaction."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Choose, Chosen, Vectors
from retain.domain.errors import EmbeddingError
from retain.domain.memory import STATES, Filter, Memory, Model, Similar
from retain.domain.scoring import Candidates
from retain.storage.sqlite import keywords, meta
from retain.storage.sqlite.connection import Connection, integers
from retain.storage.sqlite.filters import Condition, condition, first_ms, namespaces_within, narrowing
from retain.storage.sqlite.index import GONE, Mask, PassageIndex, Positions, View
from retain.storage.sqlite.keywords import Corpus
from retain.storage.sqlite.rows import STATE_NUMBERS, id_text, memories_by_key
from retain.storage.sqlite.vectors import code_words, embeddings, estimates

# How the nearest passages are found: differing bits of all (or of the nearest cells), estimates for a shortlist, exact
# cosines for the best of those. What each step misses is in docs/decisions/0002-an-index-that-scales.md.
PROBED_LIMIT = 5_000
"""When state, namespace, type and time leave so few passages, the rest of a filter is asked of their memories only."""
EXACT_LIMIT = 1_000
"""Up to so many passages, all that a filter leaves are compared exactly, without looking at codes."""
SCANNED_LIMIT = 50_000
"""Up to so many, the codes of all that a filter leaves are looked at, without looking at cells."""
_SHORTLIST, _SHORTLIST_SHARE, _LONGEST_SHORTLIST = 1_000, 80, 16_000
_RESCORED, _RESCORED_SHARE, _MOST_RESCORED = 128, 400, 3_000
"""The codes of how many passages are estimated, and the vectors of how many compared: at least, one in, at most."""
_SHORTLIST_PER_RESCORED = 4
_SPARE_SHARE = 4
"""A fourth more vectors are compared than passages are wanted."""
_RESCORED_PER_SIMILAR = 16
"""What resembles a new memory stands out, so its exact cosine is among the first."""


def candidates(
    connection: Connection,
    index: PassageIndex,
    where: Filter,
    k: int,
    choose: Choose,
    vector: Vectors | None,
    text: str | None,
    model: Model | None,
    /,
) -> list[Chosen]:
    """Find the best of both searches, let `choose` pick, read what it picked; see `MemoryStore.candidates`."""
    view = index.view(connection)
    if not len(view.keys):
        return []
    meta.require_model(view.model, model)
    present = _present(connection, view, where)
    mask = _or_none(_allowed(connection, view, where, present))
    if mask is not None and not mask.any():
        return []
    scores = None if text is None else keywords.keyword_scores(connection, view, _corpus(view, present), text)
    chosen = np.empty(0, np.intp) if scores is None else keywords.best(view, scores, k, mask)
    cosines = None
    if vector is not None:
        matching = chosen
        near = _near(view, vector, max(_rescored(view), k + k // _SPARE_SHARE), mask)
        chosen, cosines = _cosines(connection, vector, view, np.flatnonzero(_flagged(view, near, matching)))
        kept = _flagged(view, view.best(chosen, np.maximum(cosines, 0), k), matching)[chosen]
        chosen, cosines = chosen[kept], cosines[kept]
    chosen.sort()
    words = None
    if text is not None:
        words = np.zeros(len(chosen)) if scores is None else scores[chosen].astype(np.float64)
    found = Candidates(view.memories[chosen].astype(np.int64), cosines, words)
    return _read(connection, view, chosen, choose(found))


def _flagged(view: View, *parts: Positions) -> Mask:
    """Return which passages are in one of `parts`: quicker than sorting them together."""
    flags = np.zeros(len(view.keys), dtype=np.bool_)
    for part in parts:
        flags[part] = True
    return flags


def _read(connection: Connection, view: View, found: Positions, picked: NDArray[np.intp]) -> list[Chosen]:
    """Return those of the passages at `found` that were picked, with their memories; what is deleted is absent."""
    if not len(picked):
        return []
    keys = view.keys[found[picked]]
    rows = connection.rows(
        "SELECT key, memory, start_char, length FROM passage WHERE key IN carray(?)", (integers(keys),)
    )
    spans = {key: (memory, start, start + length) for key, memory, start, length in rows}
    memories = memories_by_key(connection, {memory for memory, _, _ in spans.values()})
    return [
        Chosen(place, memories[spans[key][0]], spans[key][1], spans[key][2])
        for place, key in zip(picked.tolist(), keys.tolist(), strict=True)
        if key in spans
    ]


def _present(connection: Connection, view: View, where: Filter) -> Mask:
    """Return which passages lie in the filter's namespace, whatever their state."""
    present = view.states != GONE
    namespaces = namespaces_within(connection, where.namespace)
    return present if namespaces is None else present & _one_of(view.namespaces, namespaces)


def _corpus(view: View, present: Mask) -> Corpus:
    lengths = view.lengths if present.all() else view.lengths[present]
    return Corpus(_or_none(present), len(lengths), float(lengths.mean()) if len(lengths) else 0.0)


def _or_none(mask: Mask) -> Mask | None:
    return None if mask.all() else mask


def _allowed(connection: Connection, view: View, where: Filter, present: Mask) -> Mask:
    """Return which of the passages that are `present` the filter leaves.

    State, type and time are known to the index; anything else is asked of the database.
    """
    mask = present
    if where.states != STATES:
        mask = mask & _one_of(view.states, [STATE_NUMBERS[state] for state in where.states])
    if where.types:
        numbers = [view.type_numbers[name] for name in where.types if name in view.type_numbers]
        mask = mask & _one_of(view.types, numbers)
    if where.since is not None:
        mask = mask & (view.occurred >= first_ms(where.since))
    if where.until is not None:
        mask = mask & (view.occurred < first_ms(where.until))
    where = replace(where, types=(), since=None, until=None)
    few = np.count_nonzero(mask) <= PROBED_LIMIT
    rest = narrowing(connection, where, probed=bool(few))
    if rest.never:
        return np.zeros_like(mask)
    if few and rest.parts and mask.any():
        rest.add("memory.key IN carray(?)", integers(np.unique(view.memories[mask])))
    return mask & _with_keys(connection, view, rest) if rest.parts else mask


def _one_of(values: NDArray[np.integer], wanted: list[int]) -> Mask:
    """Return where `values`, all from 0 up, are among `wanted`."""
    if len(wanted) == 1:
        return values == wanted[0]
    table = np.zeros(max(int(values.max(initial=0)), max(wanted, default=0)) + 1, dtype=np.bool_)
    table[wanted] = True
    return table[values]


def _with_keys(connection: Connection, view: View, wanted: Condition) -> Mask:
    listed = connection.value(f"SELECT group_concat(key) FROM ({wanted.keys_sql})", wanted.values)
    matching = np.fromstring(listed or "", dtype=np.int64, sep=",")
    table = np.zeros(int(view.memories.max(initial=0)) + 1, dtype=np.bool_)
    table[matching[matching < len(table)]] = True
    return table[view.memories]


def _near(view: View, vector: Vectors, rescored: int, mask: Mask | None) -> Positions:
    """Return the positions of the `rescored` passages, if there are so many, whose exact cosine is worth computing."""
    size = len(view.keys)
    within = None if mask is None else np.flatnonzero(mask)
    allowed = size if within is None else len(within)
    if allowed <= EXACT_LIMIT:
        return np.arange(size) if within is None else within
    shortlist = max(_SHORTLIST, min(_LONGEST_SHORTLIST, size // _SHORTLIST_SHARE), _SHORTLIST_PER_RESCORED * rescored)
    if view.cells is not None and allowed > SCANNED_LIMIT:
        within = view.cells.near(vector, size, mask, shortlist)
    code = code_words([embeddings(vector[None, :])[0].tobytes()])[:, 0]
    near = view.nearest(code, shortlist, within)
    return view.best(near, estimates(view.codes[:, near], vector), rescored)


def _rescored(view: View) -> int:
    return max(_RESCORED, min(_MOST_RESCORED, len(view.keys) // _RESCORED_SHARE))


def _cosines(
    connection: Connection, vector: Vectors, view: View, positions: Positions
) -> tuple[Positions, NDArray[np.float64]]:
    """Return those positions that this transaction can see, ascending, and the exact cosine of each."""
    if not len(positions):
        return positions, np.empty(0)
    rows = connection.rows(
        """SELECT key, vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM passage
           WHERE key IN carray(?) ORDER BY key""",
        (embeddings(vector[None, :])[0].tobytes(), integers(view.keys[positions])),
    )
    if not rows:
        return positions[:0], np.empty(0)
    keys, distances = zip(*rows, strict=True)
    cosines = 1 - np.array(distances, dtype=np.float64)
    cosines[np.isnan(cosines)] = 0  # NULL in SQL: a vector of zeros
    return view.positions(np.array(keys)), np.clip(cosines, -1, 1)


def similar(
    connection: Connection, index: PassageIndex, vectors: Vectors, where: Filter, k: int, model: Model, /
) -> list[list[Similar]]:
    """Return the memories nearest to each of `vectors`; see `MemoryStore.similar`."""
    view = index.view(connection)
    if not len(view.keys):
        return [[] for _ in vectors]
    meta.require_model(view.model, model)
    mask = _or_none(_allowed(connection, view, where, _present(connection, view, where)))
    return [_similar_to(connection, view, vector, k, mask) for vector in vectors]


def _similar_to(connection: Connection, view: View, vector: Vectors, k: int, mask: Mask | None) -> list[Similar]:
    wanted = _RESCORED_PER_SIMILAR * k
    while True:
        near = _near(view, vector, wanted, mask)
        best: dict[int, tuple[float, int]] = {}
        positions, cosines = _cosines(connection, vector, view, near)
        found = zip(view.memories[positions].tolist(), positions.tolist(), cosines.tolist(), strict=True)
        for memory, position, cosine in found:
            best[memory] = max(best.get(memory, (-2.0, 0)), (cosine, -position))
        if len(best) >= k or len(near) < wanted:
            break
        wanted *= 4
    ranked = sorted(best.values(), reverse=True)[:k]
    return [_similar(connection, view, -position, cosine) for cosine, position in ranked]


def _similar(connection: Connection, view: View, position: int, cosine: float) -> Similar:
    id_, snippet = connection.rows(
        """SELECT id, substr(content, start_char + 1, length)
           FROM passage JOIN memory ON memory.key = passage.memory WHERE passage.key = ?""",
        (int(view.keys[position]),),
    )[0]
    return Similar(id_text(id_), max(0.0, cosine), snippet)


def containing(connection: Connection, text: str, where: Filter, k: int, /) -> list[Memory]:
    """Return the newest memories that hold a literal text."""
    if not text:
        return []
    wanted = condition(connection, where)
    rows = connection.rows(
        f"""SELECT key FROM memory WHERE {wanted.sql} AND instr(content, ?) > 0
            ORDER BY created_at DESC, id DESC LIMIT ?""",
        (*wanted.values, text, k),
    )
    keys = [row[0] for row in rows]
    found = memories_by_key(connection, keys)
    return [found[key] for key in keys]


def require_vector(vector: Vectors, model: Model | None, /) -> None:
    """Refuse a query vector that can't be compared.

    Raises:
        EmbeddingError: wrong size, or components that are no numbers.
    """
    if vector.ndim != 1 or (model is not None and len(vector) != model.dimensions) or not np.isfinite(vector).all():
        raise EmbeddingError(f"a query vector must be one row of finite numbers, not of shape {vector.shape}")
