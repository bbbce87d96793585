"""Finding passages: by meaning, by words, or literally. Each function runs in one read transaction."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from retain.core.ports import Choose, Chosen, Vectors
from retain.domain.errors import EmbeddingError
from retain.domain.memory import STATES, Filter, Memory, Model, Similar
from retain.domain.scoring import Candidates, Values, cosines
from retain.storage.sqlite import keywords, meta
from retain.storage.sqlite.connection import Connection, integers
from retain.storage.sqlite.filters import Condition, condition, first_ms, namespaces_within, narrowing
from retain.storage.sqlite.index import GONE, Mask, PassageIndex, Positions, View
from retain.storage.sqlite.keywords import Corpus, Windows, Words
from retain.storage.sqlite.rows import STATE_NUMBERS, id_text, memories_by_key
from retain.storage.sqlite.surroundings import MIDDLE, is_conversation, windows
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
    alive = _in_states(view, present, where)
    mask = _or_none(_allowed(connection, view, where, alive))
    if mask is not None and not mask.any():
        return []
    words = None if text is None else keywords.find(connection, view, _corpus(present), text)
    chosen = np.empty(0, np.intp) if words is None else keywords.best(view, words.held, k, mask)
    vectors = None
    if vector is not None:
        near = _near(view, vector, max(_rescored(view), k + k // _SPARE_SHARE), mask)
        chosen, vectors = _nearest(connection, view, vector, k, near, chosen)
    else:
        chosen.sort()
    found = _columns(connection, view, chosen, alive, words, vector, vectors)
    return _read(connection, view, chosen, choose(found))


def _nearest(
    connection: Connection, view: View, vector: Vectors, k: int, near: Positions, matching: Positions
) -> tuple[Positions, Vectors]:
    """Return the positions, ascending, and vectors of the `k` nearest among `near`, and of all of `matching`."""
    compared, vectors = _vectors(connection, view, np.flatnonzero(_flagged(view, near, matching)))
    nearest = view.best(compared, np.maximum(_cosines(vectors, vector), 0), k)
    kept = _flagged(view, nearest, matching)[compared]
    return compared[kept], vectors[kept]


def _columns(
    connection: Connection,
    view: View,
    chosen: Positions,
    alive: Mask,
    words: Words | None,
    vector: Vectors | None,
    vectors: Vectors | None,
) -> Candidates:
    """Return what is known of the `chosen` passages; what stands around them only where words are asked for."""
    semantic = None if vector is None or vectors is None else _cosines(vectors, vector)
    found = Candidates(view.memories[chosen].astype(np.int64), view.threads[chosen].astype(np.int64), semantic, None)
    if words is None or not len(chosen):
        return found if words is None else replace(found, keyword=np.zeros(len(chosen)))
    around = windows(view, chosen, alive)
    found = replace(
        found,
        keyword=words.held[chosen].astype(np.float64),
        keyword_around=words.held_around(around).astype(np.float64),
    )
    if vector is None or vectors is None:
        return found
    before, after = _cosines_beside(connection, view, vector, around)
    return replace(found, before=before, after=after, vectors=vectors)


def _cosines_beside(connection: Connection, view: View, vector: Vectors, around: Windows) -> tuple[Values, Values]:
    """Return the cosines of the passages before and after in a conversation, NaN where there is none."""
    beside = around[:, (MIDDLE - 1, MIDDLE + 1)].astype(np.intp)
    asked = (beside >= 0) & is_conversation(view, beside)
    positions, vectors = _vectors(connection, view, np.unique(beside[asked]))
    known = np.full(len(view.keys) + 1, np.nan)
    known[positions] = _cosines(vectors, vector)
    before, after = np.where(asked, known[beside], np.nan).T
    return before, after


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


def _corpus(present: Mask) -> Corpus:
    return Corpus(_or_none(present), int(np.count_nonzero(present)))


def _or_none(mask: Mask) -> Mask | None:
    return None if mask.all() else mask


def _in_states(view: View, present: Mask, where: Filter) -> Mask:
    """Return which of the passages that are `present` are in the filter's states."""
    if where.states == STATES:
        return present
    return present & _one_of(view.states, [STATE_NUMBERS[state] for state in where.states])


def _allowed(connection: Connection, view: View, where: Filter, alive: Mask) -> Mask:
    """Return which of the passages that are in its namespace and states the filter leaves.

    Type and time are known to the index; anything else is asked of the database.
    """
    mask = alive
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


def _vectors(connection: Connection, view: View, positions: Positions) -> tuple[Positions, Vectors]:
    """Return those positions that this transaction can see, ascending, and their vectors: (n, d) whole numbers."""
    sql = "SELECT key, embedding FROM passage WHERE key IN carray(?) ORDER BY key"
    rows = connection.rows(sql, (integers(view.keys[positions]),)) if len(positions) else []
    if not rows:
        return positions[:0], np.empty((0, view.model.dimensions if view.model else 0), dtype=np.float32)
    keys, blobs = zip(*rows, strict=True)
    embedded = np.frombuffer(b"".join(blobs), dtype=np.int8).reshape(len(blobs), -1)
    return view.positions(np.array(keys)), embedded.astype(np.float32)


def _cosines(vectors: Vectors, vector: Vectors) -> Values:
    """Return (n,) the cosine of each row to `vector`, which is rounded as they were: the same text has 1."""
    return cosines(vectors, embeddings(vector[None, :]).astype(np.float32))[:, 0]


def similar(
    connection: Connection, index: PassageIndex, vectors: Vectors, where: Filter, k: int, model: Model, /
) -> list[list[Similar]]:
    """Return the memories nearest to each of `vectors`; see `MemoryStore.similar`."""
    view = index.view(connection)
    if not len(view.keys):
        return [[] for _ in vectors]
    meta.require_model(view.model, model)
    alive = _in_states(view, _present(connection, view, where), where)
    mask = _or_none(_allowed(connection, view, where, alive))
    return [_similar_to(connection, view, vector, k, mask) for vector in vectors]


def _similar_to(connection: Connection, view: View, vector: Vectors, k: int, mask: Mask | None) -> list[Similar]:
    wanted = _RESCORED_PER_SIMILAR * k
    while True:
        near = _near(view, vector, wanted, mask)
        best: dict[int, tuple[float, int]] = {}
        positions, vectors = _vectors(connection, view, near)
        near_by = _cosines(vectors, vector).tolist()
        found = zip(view.memories[positions].tolist(), positions.tolist(), near_by, strict=True)
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
