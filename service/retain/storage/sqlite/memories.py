"""Writing memories: put, update, delete. Each function is the whole of one write transaction."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from operator import itemgetter

import apsw

from retain.core.ports import Change, Entry, RequestKey, Written
from retain.domain.errors import ConflictError, NotFoundError
from retain.domain.memory import Filter, Memory, Model
from retain.storage.accepting import (
    require_expected,
    require_storable,
    require_storable_change,
    require_unchanged,
    tags_after,
)
from retain.storage.sqlite import changes, meta, passages, requests
from retain.storage.sqlite.connection import Connection, Value, blobs
from retain.storage.sqlite.filters import condition
from retain.storage.sqlite.passages import Cut
from retain.storage.sqlite.rows import (
    LATER,
    from_ms,
    id_blob,
    id_text,
    insert,
    memories_by_id,
    metadata_text,
    optional_id,
    optional_ms,
    overwrite,
    to_ms,
)
from retain.storage.sqlite.tags import add_tags, give_tags, set_tags


def put(
    connection: Connection, entries: Sequence[Entry], model: Model, request: RequestKey | None, going: Filter | None,
    now: datetime, /,
) -> list[Written]:  # fmt: skip
    """Write all entries, once what is `going` has gone; see `MemoryStore.put`."""
    if request is not None and (outcome := requests.outcome(connection, request, to_ms(now))) is not None:
        return outcome
    if going is not None:
        delete(connection, going, now, None)
    written = _put_all(connection, entries, model) if entries else []
    if request is not None:
        requests.remember(connection, request, [(one.memory.id, one.created) for one in written], to_ms(now))
    return written


def _put_all(connection: Connection, entries: Sequence[Entry], model: Model) -> list[Written]:
    """Write entries in order: those that have to do with no other memory together, the rest one by one."""
    meta.adopt_model(connection, model)
    for entry in entries:
        require_storable(entry.memory)
    passages.require_vectors([Cut.of(entry) for entry in entries], model)
    paths = dict.fromkeys(entry.memory.namespace for entry in entries)
    namespaces = {path: namespace_key(connection, path) for path in paths}
    alone = _stand_alone(connection, entries, namespaces)
    if all(alone):
        return [Written(memory, True) for memory in _add(connection, entries, namespaces)]
    done: list[tuple[str, bool]] = []
    for together, group in groupby(zip(alone, entries, strict=True), key=itemgetter(0)):
        part = [entry for _, entry in group]
        if together:
            done += [(memory.id, True) for memory in _add(connection, part, namespaces)]
        else:
            done += [_put_one(connection, entry, namespaces) for entry in part]
    found = {memory.id: memory for memory in memories_by_id(connection, [id_ for id_, _ in done])}
    return [Written(found[id_], created) for id_, created in done]


def _stand_alone(connection: Connection, entries: Sequence[Entry], namespaces: Mapping[str, int]) -> list[bool]:
    """Return for each entry whether it replaces and expects nothing, and its id and its text in its place are new."""
    ids = blobs(id_blob(entry.memory.id) for entry in entries)
    taken: set[object] = {row[0] for row in connection.rows("SELECT id FROM memory WHERE id IN carray(?)", (ids,))}
    taken.update(row[0] for row in connection.rows("SELECT id FROM tombstone WHERE id IN carray(?)", (ids,)))
    taken.update(connection.rows(_PLACES, (blobs(_half_hash(entry.memory) for entry in entries),)))
    alone: list[bool] = []
    for entry in entries:
        own: set[object] = {id_blob(entry.memory.id)}
        if entry.memory.state == "active" and entry.memory.key is None:
            own.add(_place(entry.memory, namespaces))
        alone.append(entry.supersedes is None and entry.expected is None and taken.isdisjoint(own))
        taken |= own
    return alone


_PLACES = """
    SELECT substr(content_hash, 1, 16), namespace, coalesce(conversation_id, ''), coalesce(sequence, -1)
    FROM memory
    WHERE substr(content_hash, 1, 16) IN carray(?)
      AND superseded_by IS NULL AND archived_at IS NULL AND own_key IS NULL"""


def _place(memory: Memory, namespaces: Mapping[str, int]) -> tuple[bytes, int, str, int]:
    """Return what no two active memories without a key have in common, by the index `memory_once`."""
    sequence = -1 if memory.sequence is None else memory.sequence
    return _half_hash(memory), namespaces[memory.namespace], memory.conversation_id or "", sequence


def _half_hash(memory: Memory) -> bytes:
    return bytes.fromhex(memory.content_hash)[:16]


def _add(connection: Connection, entries: Sequence[Entry], namespaces: Mapping[str, int]) -> list[Memory]:
    """Write memories whose ids and places are free, with all that belongs to them; return them as they will be read."""
    keyed = dict(enumerate(entries, connection.highest_key("memory") + 1))
    memories = {key: entry.memory for key, entry in keyed.items()}
    added = insert(connection, memories, namespaces)
    give_tags(connection, [(key, memory.tags) for key, memory in memories.items()])
    changes.record_stored(connection, memories, namespaces)
    passages.add_passages(connection, {key: Cut.of(entry) for key, entry in keyed.items()})
    return added


def _put_one(connection: Connection, entry: Entry, namespaces: Mapping[str, int]) -> tuple[str, bool]:
    memory = entry.memory
    replaced = _key_to_supersede(connection, entry)
    require_expected(entry, _updated_at(connection, memory.id))
    if memory.key is not None and (key := key_of(connection, memory.id)) is not None:
        if replaced is not None:
            _mark_superseded(connection, replaced, memory.id, to_ms(memory.updated_at))
        _overwrite(connection, key, entry, namespaces[memory.namespace])
        return memory.id, False
    twin = _twin(connection, memory, namespaces, replaced) if memory.state == "active" else None
    if replaced is not None:
        _mark_superseded(connection, replaced, memory.id if twin is None else twin[1], to_ms(memory.updated_at))
    if twin is not None:
        key, id_ = twin
        if add_tags(connection, key, memory.tags):
            connection.run(f"UPDATE memory SET {LATER} WHERE key = ?", (to_ms(memory.updated_at), key))
            changes.record(connection, "updated", key, to_ms(memory.updated_at))
        return id_, False
    _claim_id(connection, memory.id, namespaces[memory.namespace])
    _add(connection, [entry], namespaces)
    return memory.id, True


def _overwrite(connection: Connection, key: int, entry: Entry, namespace: int) -> None:
    """Put an entry in the place of the memory that has its key."""
    memory = entry.memory
    tags = tags_after(entry, memories_by_id(connection, [memory.id])[0]) if entry.keep_tags else memory.tags
    passages.remove_passages(connection, key)
    overwrite(connection, key, memory, namespace)
    set_tags(connection, key, tags)
    passages.add_passages(connection, {key: Cut.of(entry)})
    changes.record(connection, "updated", key, to_ms(memory.updated_at))


def _claim_id(connection: Connection, id_: str, namespace: int) -> None:
    """Refuse an id that is taken. The tombstone of a memory that comes back is dropped; another namespace keeps its."""
    if key_of(connection, id_) is not None:
        raise ConflictError(f"a memory with the id {id_} exists already", field="id")
    connection.run("DELETE FROM tombstone WHERE id = ? AND namespace = ?", (id_blob(id_), namespace))
    if connection.value("SELECT 1 FROM tombstone WHERE id = ?", (id_blob(id_),)) is not None:
        raise ConflictError(f"the id {id_} can't be used here", field="id")


def namespace_key(connection: Connection, path: str, /) -> int:
    """Return the row key of a namespace, made when it is new."""
    connection.run("INSERT INTO namespace(path) VALUES (?) ON CONFLICT DO NOTHING", (path,))
    return connection.count("SELECT key FROM namespace WHERE path = ?", (path,))


def _key_to_supersede(connection: Connection, entry: Entry) -> int | None:
    if entry.supersedes is None:
        return None
    key = key_of(connection, entry.supersedes)
    if key is None:
        raise NotFoundError(f"supersedes names the memory {entry.supersedes}, which does not exist", field="supersedes")
    return key


def key_of(connection: Connection, id_: str, /) -> int | None:
    """Return the row key of a memory."""
    return connection.value("SELECT key FROM memory WHERE id = ?", (id_blob(id_),))


def _updated_at(connection: Connection, id_: str) -> datetime | None:
    at_ms = connection.value("SELECT updated_at FROM memory WHERE id = ?", (id_blob(id_),))
    return None if at_ms is None else from_ms(at_ms)


def _twin(
    connection: Connection, memory: Memory, namespaces: Mapping[str, int], apart_from: int | None
) -> tuple[int, str] | None:
    """Return the active memory that has the same text in the same place, where neither has a key."""
    if memory.key is not None:
        return None
    rows = connection.rows(
        """SELECT key, id FROM memory
           WHERE substr(content_hash, 1, 16) = ? AND namespace = ? AND coalesce(conversation_id, '') = ?
             AND coalesce(sequence, -1) = ? AND superseded_by IS NULL AND archived_at IS NULL AND own_key IS NULL
             AND key IS NOT ?""",
        (*_place(memory, namespaces), apart_from),
    )
    return (rows[0][0], id_text(rows[0][1])) if rows else None


def _mark_superseded(connection: Connection, key: int, by: str, at_ms: int) -> None:
    connection.run(f"UPDATE memory SET {LATER}, superseded_by = ? WHERE key = ?", (at_ms, id_blob(by), key))
    changes.record(connection, "updated", key, at_ms)


def update(connection: Connection, id_: str, change: Change, model: Model | None, /) -> Memory | None:
    """Apply a change; see `MemoryStore.update`."""
    key = key_of(connection, id_)
    if key is None:
        return None
    columns: dict[str, Value] = {}
    require_storable_change(change)
    if change.if_updated_at is not None and (updated_at := _updated_at(connection, id_)) is not None:
        require_unchanged(change.if_updated_at, updated_at)
    for name, value in change.fields.items():
        if name == "tags":
            set_tags(connection, key, list(_texts(value)))
        else:
            columns[name] = _column(name, value)
    if isinstance(by := change.fields.get("superseded_by"), str):
        _require_no_circle(connection, id_, by)
    if change.content is None:
        _set(connection, id_, to_ms(change.updated_at), columns)
    else:
        columns |= {"content": change.content, "content_hash": bytes.fromhex(change.content_hash or "")}
        _replace_content(connection, key, id_, change, columns, model)
    changes.record(connection, "updated", key, to_ms(change.updated_at))
    return memories_by_id(connection, [id_])[0]


def _replace_content(
    connection: Connection, key: int, id_: str, change: Change, columns: dict[str, Value], model: Model | None
) -> None:
    if model is None or change.vectors is None or change.content is None:
        raise TypeError("a change of content needs its vectors and their model")
    meta.adopt_model(connection, model)
    cut = Cut(change.content, change.passages, change.vectors)
    passages.require_vectors([cut], model)
    passages.remove_passages(connection, key)
    columns["turns"] = None  # they are places in the old content, as the parts that are searched
    _set(connection, id_, to_ms(change.updated_at), columns)
    connection.run("UPDATE memory SET searchable = NULL WHERE key = ? AND searchable <> '[]'", (key,))
    passages.add_passages(connection, {key: cut})


def _texts(value: object) -> Sequence[str]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"tags must be a list of strings, not {value!r}")
    return [str(tag) for tag in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _column(name: str, value: object) -> Value:
    match name, value:
        case "type", str():
            return value
        case "metadata", _:
            return metadata_text(value)
        case "occurred_at", datetime():
            return to_ms(value)
        case "superseded_by", str() | None:
            return optional_id(value)
        case "archived_at", datetime() | None:
            return optional_ms(value)
        case _:
            raise TypeError(f"{name} can't be changed to {value!r}")


def _set(connection: Connection, id_: str, at_ms: int, columns: dict[str, Value]) -> None:
    assignments = ", ".join((LATER, *(f"{name} = ?" for name in columns)))
    try:
        connection.run(f"UPDATE memory SET {assignments} WHERE id = ?", (at_ms, *columns.values(), id_blob(id_)))
    except apsw.ConstraintError as error:
        raise ConflictError(
            f"the memory {id_} would be an exact duplicate of another active memory in its namespace and "
            "conversation; delete or change one of them",
            field="content" if "content" in columns else None,
        ) from error


def _require_no_circle(connection: Connection, id_: str, by: str) -> None:
    """Refuse a memory that would, over any number of steps, be superseded by itself."""
    if key_of(connection, by) is None:
        raise NotFoundError(f"superseded_by names the memory {by}, which does not exist", field="superseded_by")
    chain = connection.rows(
        """WITH RECURSIVE chain(id) AS (
               SELECT ? UNION SELECT superseded_by FROM memory JOIN chain ON memory.id = chain.id
               WHERE superseded_by IS NOT NULL)
           SELECT 1 FROM chain WHERE id = ?""",
        (id_blob(by), id_blob(id_)),
    )
    if chain:
        raise ConflictError(
            f"the memory {id_} can't be superseded by {by}, which is itself superseded by it", field="superseded_by"
        )


def delete(connection: Connection, where: Filter, at: datetime, expected: int | None, /) -> list[str]:
    """Remove all that matches; see `MemoryStore.delete`."""
    wanted = condition(connection, where)
    connection.run("CREATE TEMP TABLE IF NOT EXISTS doomed(memory INTEGER PRIMARY KEY)")
    connection.run("DELETE FROM doomed")
    connection.run(f"INSERT INTO doomed SELECT key FROM memory WHERE {wanted.sql}", wanted.values)
    ids = [id_text(row[0]) for row in connection.rows(
        "SELECT id FROM memory WHERE key IN (SELECT memory FROM doomed) ORDER BY created_at DESC, id DESC"
    )]  # fmt: skip
    if expected is not None and len(ids) != expected:
        raise ConflictError(
            f"{len(ids):,} memories match, not the expected {expected:,}; nothing was deleted. Look at them again "
            "(dry run) and repeat with the new number",
            field="expected_count",
        )
    if ids:
        _remove_doomed(connection, to_ms(at))
    return ids


def _remove_doomed(connection: Connection, at_ms: int) -> None:
    connection.run(
        """INSERT OR REPLACE INTO tombstone SELECT id, content_hash, namespace, ? FROM memory
           WHERE key IN (SELECT memory FROM doomed)""",
        (at_ms,),
    )
    connection.run(
        """INSERT INTO change(kind, memory, memory_id, namespace, at) SELECT 2, key, id, namespace, ?
           FROM memory WHERE key IN (SELECT memory FROM doomed)""",
        (at_ms,),
    )
    changes.prune(connection, connection.last_key)
    going = connection.count("SELECT count(*) FROM passage WHERE memory IN (SELECT memory FROM doomed)")
    rebuild = passages.rebuild_is_cheaper(connection, going)
    if not rebuild:
        passages.forget_words(connection, "SELECT memory FROM doomed")
    connection.run("DELETE FROM memory WHERE key IN (SELECT memory FROM doomed)")
    if rebuild:
        passages.rebuild_words(connection)
