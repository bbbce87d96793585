"""Finding passages: by meaning, by words, or literally. Each function runs in one read transaction."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Candidate, Vectors
from retain.domain.errors import EmbeddingError
from retain.domain.memory import STATES, Filter, Model, Similar
from retain.storage.sqlite import keywords, meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import condition, namespaces_within, narrowing
from retain.storage.sqlite.index import GONE, Mask, PassageIndex, Positions, View, integers
from retain.storage.sqlite.keywords import TermCounts
from retain.storage.sqlite.rows import STATE_NUMBERS
from retain.storage.sqlite.vectors import code_words, codes, embeddings, estimates

# How the nearest passages are found: differing bits of all, estimates for a shortlist, exact cosines for the best of
# those. recall@10 against the exact scan was 0.9996 among 11,700 real passages and 0.995 among 200,000 made by mixing
# them (docs/storage.md).
EXACT_LIMIT = 1_000
"""Up to so many passages, all that a filter leaves are compared exactly, without looking at codes."""
_SHORTLIST = 1_000
_SHORTLIST_SHARE = 50
_LONGEST_SHORTLIST = 4_000
_SHORTLIST_PER_RESCORED = 4
_RESCORED = 200
_RESCORED_SHARE = 500
_LARGEST_RESCORED_SHARE = 500
_RESCORED_PER_RESULT = 2


@dataclass(frozen=True, slots=True)
class Indexes:
    """What a process keeps in memory for searching."""

    passages: PassageIndex
    counts: TermCounts


def candidates(
    connection: Connection,
    indexes: Indexes,
    where: Filter,
    k: int,
    vector: Vectors | None,
    text: str | None,
    model: Model | None,
    /,
) -> list[Candidate]:
    """Return the best of both searches, each with both values; see `MemoryStore.candidates`."""
    if vector is not None or model is not None:
        meta.require_model(meta.model_in_use(connection), model)
    view = indexes.passages.view(connection)
    mask = _allowed(connection, view, where)
    if not len(view.keys) or (mask is not None and not mask.any()):
        return []
    few = mask is not None and np.count_nonzero(mask) <= EXACT_LIMIT
    words = (
        None if text is None else keywords.keyword_scores(connection, view, indexes.counts, text, every_term=bool(few))
    )
    chosen = np.empty(0, np.intp) if words is None else keywords.best(words, k, mask, view)
    cosines = None
    if vector is not None:
        chosen, cosines = _cosines(connection, vector, view, np.union1d(_near(view, vector, k, mask), chosen))
        nearest = _first(-cosines, k)
        kept = np.isin(np.arange(len(chosen)), nearest)
        if words is not None:
            matching = np.flatnonzero(words[chosen])
            kept[matching[_first(-words[chosen[matching]], k)]] = True
        chosen, cosines = chosen[kept], cosines[kept]
    scores = None if text is None else np.zeros(len(chosen)) if words is None else words[chosen]
    return _candidates(connection, view, chosen, cosines, scores)


def _first(values: NDArray[np.floating], count: int) -> Positions:
    """Return where the `count` smallest values are."""
    return np.arange(len(values)) if len(values) <= count else np.argpartition(values, count)[:count]


def _candidates(
    connection: Connection,
    view: View,
    chosen: Positions,
    cosines: NDArray[np.floating] | None,
    scores: NDArray[np.floating] | None,
) -> list[Candidate]:
    if not len(chosen):
        return []
    rows = connection.rows(
        """SELECT passage.key, id, conversation_id, start_char, end_char
           FROM passage JOIN memory ON memory.key = passage.memory WHERE passage.key IN carray(?)""",
        (integers(view.keys[chosen]),),
    )
    places = {key: place for place, key in enumerate(view.keys[chosen].tolist())}
    semantic = [None] * len(chosen) if cosines is None else cosines.tolist()
    keyword = [None] * len(chosen) if scores is None else scores.tolist()
    return [
        Candidate(id_, conversation, start, end, semantic[places[key]], keyword[places[key]])
        for key, id_, conversation, start, end in rows
    ]


def _allowed(connection: Connection, view: View, where: Filter) -> Mask | None:
    """Return which passages the filter leaves; None for all of them.

    State and namespace are known to the index; anything else is asked of the database.
    """
    if where.states == STATES:
        mask = view.states != GONE
    else:
        mask = np.zeros(len(view.keys), dtype=np.bool_)
        for state in where.states:
            mask |= view.states == STATE_NUMBERS[state]
    namespaces = namespaces_within(connection, where.namespace)
    if namespaces is not None:
        mask &= np.isin(view.namespaces, namespaces)
    wanted = narrowing(connection, where)
    if wanted.never:
        mask[:] = False
    elif wanted.parts and len(view.keys):
        listed = connection.value(f"SELECT group_concat(key) FROM ({wanted.keys_sql})", wanted.values)
        matching = np.fromstring(listed or "", dtype=np.int64, sep=",")
        chosen = np.zeros(int(view.memories.max()) + 1, dtype=np.bool_)
        chosen[matching[matching < len(chosen)]] = True
        mask &= chosen[view.memories]
    return None if mask.all() else mask


def _near(view: View, vector: Vectors, k: int, mask: Mask | None) -> Positions:
    """Return the positions of the passages whose exact cosine is worth computing, at least `k` if there are so many."""
    size = len(view.keys)
    allowed = size if mask is None else int(np.count_nonzero(mask))
    if allowed <= EXACT_LIMIT:
        return np.arange(size) if mask is None else np.flatnonzero(mask)
    rescored = max(_RESCORED, min(_LARGEST_RESCORED_SHARE, size // _RESCORED_SHARE), _RESCORED_PER_RESULT * k)
    shortlist = max(_SHORTLIST, min(_LONGEST_SHORTLIST, size // _SHORTLIST_SHARE), _SHORTLIST_PER_RESCORED * rescored)
    code = code_words([codes(embeddings(vector[None, :]))[0].tobytes()])[:, 0]
    near = view.nearest(code, shortlist, mask)
    return near[_first(-estimates(view.codes[:, near], vector), rescored)]


def _cosines(
    connection: Connection, vector: Vectors, view: View, positions: Positions
) -> tuple[Positions, NDArray[np.floating]]:
    """Return those positions that this transaction can see, ascending, and the exact cosine of each."""
    if not len(positions):
        return positions, np.empty(0)
    rows = connection.rows(
        """SELECT passage, vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM vector
           WHERE passage IN carray(?) ORDER BY passage""",
        (embeddings(vector[None, :])[0].tobytes(), integers(view.keys[positions])),
    )
    if not rows:
        return positions[:0], np.empty(0)
    keys, distances = zip(*rows, strict=True)
    cosines = 1 - np.array(distances, dtype=np.float64)
    cosines[np.isnan(cosines)] = 0  # NULL in SQL: a vector of zeros
    return np.searchsorted(view.keys, np.array(keys, dtype=np.int64)), np.clip(cosines, -1, 1)


def similar(
    connection: Connection, indexes: Indexes, vector: Vectors, where: Filter, k: int, model: Model, /
) -> list[Similar]:
    """Return the memories nearest to `vector`; see `MemoryStore.similar`."""
    meta.require_model(meta.model_in_use(connection), model)
    view = indexes.passages.view(connection)
    mask = _allowed(connection, view, where)
    wanted = k
    while True:
        near = _near(view, vector, wanted, mask)
        best: dict[int, tuple[float, int]] = {}
        positions, cosines = _cosines(connection, vector, view, near)
        found = zip(view.memories[positions].tolist(), positions.tolist(), cosines.tolist(), strict=True)
        for memory, position, cosine in found:
            best[memory] = max(best.get(memory, (-2.0, 0)), (cosine, -position))
        if len(best) >= k or len(near) < wanted:
            break
        wanted = max(4 * wanted, 4 * len(near))
    ranked = sorted(best.values(), reverse=True)[:k]
    return [_similar(connection, view, -position, cosine) for cosine, position in ranked]


def _similar(connection: Connection, view: View, position: int, cosine: float) -> Similar:
    id_, snippet = connection.rows(
        """SELECT id, substr(content, start_char + 1, end_char - start_char)
           FROM passage JOIN memory ON memory.key = passage.memory WHERE passage.key = ?""",
        (int(view.keys[position]),),
    )[0]
    return Similar(id_, max(0.0, cosine), snippet)


def containing(connection: Connection, text: str, where: Filter, k: int, /) -> list[Candidate]:
    """Return the first place of a literal text in each of the newest memories that hold it."""
    if not text:
        return []
    wanted = condition(connection, where)
    rows = connection.rows(
        f"""SELECT id, conversation_id, instr(content, ?) - 1 FROM memory
            WHERE {wanted.sql} AND instr(content, ?) > 0 ORDER BY created_at DESC, id DESC LIMIT ?""",
        (text, *wanted.values, text, k),
    )
    return [Candidate(id_, conversation, start, start + len(text), None, None) for id_, conversation, start in rows]


def require_vector(vector: Vectors, model: Model | None, /) -> None:
    """Refuse a query vector that can't be compared.

    Raises:
        EmbeddingError: wrong size, or components that are no numbers.
    """
    if vector.ndim != 1 or (model is not None and len(vector) != model.dimensions) or not np.isfinite(vector).all():
        raise EmbeddingError(f"a query vector must be one row of finite numbers, not of shape {vector.shape}")
