"""Finding passages: by meaning, by words, or literally. Each function runs in one read transaction."""

from dataclasses import dataclass

import numpy as np

from retain.core.ports import Candidate, Vectors
from retain.domain.errors import EmbeddingError
from retain.domain.memory import STATES, Filter, Model, Similar
from retain.storage.sqlite import keywords, meta
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import condition, namespaces_within, narrowing
from retain.storage.sqlite.index import GONE, Mask, PassageIndex, Positions, View, integers
from retain.storage.sqlite.keywords import TermCounts
from retain.storage.sqlite.rows import STATE_NUMBERS
from retain.storage.sqlite.vectors import code_words, codes, embeddings

EXACT_LIMIT = 1_000
"""Up to so many passages, all that a filter leaves are compared exactly, without looking at codes."""
_RESCORED = 200
_RESCORED_PER_RESULT = 3
_RESCORED_SHARE = 1_000


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
    if (mask is not None and not mask.any()) or not len(view.keys):
        return []
    words = None if text is None else keywords.keyword_scores(connection, view, indexes.counts, text)
    by_words = np.empty(0, np.intp) if words is None else keywords.best(words, k, mask, view)
    if vector is None:
        chosen, cosines = by_words, {}
    else:
        near = _near(view, vector, k, mask)
        cosines = _cosines(connection, vector, view, np.union1d(near, by_words))
        ranked = sorted(cosines, key=lambda position: (-cosines[position], -position))
        chosen = np.union1d(np.array(ranked[:k], dtype=np.intp), by_words[np.isin(by_words, ranked)])
    return _candidates(connection, view, chosen, cosines, words, text)


def _candidates(
    connection: Connection,
    view: View,
    chosen: Positions,
    cosines: dict[int, float],
    words: keywords.Scores | None,
    text: str | None,
) -> list[Candidate]:
    if not len(chosen):
        return []
    rows = connection.rows(
        """SELECT passage.key, id, conversation_id, start_char, end_char
           FROM passage JOIN memory ON memory.key = passage.memory WHERE passage.key IN carray(?)
           ORDER BY passage.key""",
        (integers(view.keys[chosen]),),
    )
    places = np.searchsorted(view.keys, np.array([row[0] for row in rows], dtype=np.int64)).tolist()
    made = [
        Candidate(
            id_, conversation, start, end, cosines.get(position),
            None if text is None else 0.0 if words is None else float(words[position]),
        )
        for position, (_, id_, conversation, start, end) in zip(places, rows, strict=True)
    ]  # fmt: skip
    return sorted(made, key=lambda made: (-(made.semantic or 0), -(made.keyword or 0), made.memory_id, made.start))


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
    if wanted.parts or wanted.never:
        listed = connection.value(
            f"SELECT group_concat(key) FROM (SELECT key FROM memory WHERE {wanted.sql})", wanted.values
        )
        mask &= np.isin(view.memories, np.fromstring(listed or "", dtype=np.int64, sep=",").astype(np.int32))
    return None if mask.all() else mask


def _near(view: View, vector: Vectors, k: int, mask: Mask | None) -> Positions:
    allowed = len(view.keys) if mask is None else int(np.count_nonzero(mask))
    rescored = max(_RESCORED, _RESCORED_PER_RESULT * k, len(view.keys) // _RESCORED_SHARE)
    code = code_words([codes(vector[None, :])[0].tobytes()])[:, 0]
    return view.nearest(code, EXACT_LIMIT if allowed <= EXACT_LIMIT else rescored, mask)


def _cosines(connection: Connection, vector: Vectors, view: View, positions: Positions) -> dict[int, float]:
    """Return the exact cosine of each passage that this transaction can see."""
    if not len(positions):
        return {}
    rows = connection.rows(
        """SELECT passage, 1 - vec_distance_cosine(vec_int8(embedding), vec_int8(?)) FROM vector
           WHERE passage IN carray(?) ORDER BY passage""",
        (embeddings(vector[None, :])[0].tobytes(), integers(view.keys[positions])),
    )
    places = np.searchsorted(view.keys, np.array([row[0] for row in rows], dtype=np.int64)).tolist()
    return {place: _clipped(cosine) for place, (_, cosine) in zip(places, rows, strict=True)}


def _clipped(cosine: float | None) -> float:
    return 0.0 if cosine is None else max(-1.0, min(1.0, cosine))  # None: a vector of zeros


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
        for position, cosine in _cosines(connection, vector, view, near).items():
            memory = int(view.memories[position])
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
