"""Writing memories: put, update, delete. Each function is the whole of one write transaction."""

from collections.abc import Sequence
from datetime import datetime

import apsw

from retain.core.ports import Change, Entry, RequestKey, Written
from retain.domain.errors import ConflictError, NotFoundError
from retain.domain.memory import Filter, Memory, Model
from retain.storage.accepting import require_storable, require_storable_change
from retain.storage.sqlite import changes, meta, passages, requests
from retain.storage.sqlite.connection import Connection, Value
from retain.storage.sqlite.filters import condition
from retain.storage.sqlite.rows import (
    id_blob,
    id_text,
    memories_by_id,
    metadata_text,
    optional_id,
    optional_ms,
    to_ms,
    turns_text,
)
from retain.storage.sqlite.tags import add_tags, set_tags


def put(
    connection: Connection, entries: Sequence[Entry], model: Model, request: RequestKey | None, now: datetime, /
) -> list[Written]:
    """Write all entries; see `MemoryStore.put`."""
    if request is not None and (outcome := requests.outcome(connection, request, to_ms(now))) is not None:
        return outcome
    if entries:
        meta.adopt_model(connection, model)
    done = [_put_one(connection, entry, model) for entry in entries]
    if request is not None:
        requests.remember(connection, request, done, to_ms(now))
    found = {memory.id: memory for memory in memories_by_id(connection, [id_ for id_, _ in done])}
    return [Written(found[id_], created) for id_, created in done]


def _put_one(connection: Connection, entry: Entry, model: Model) -> tuple[str, bool]:
    memory = entry.memory
    require_storable(memory)
    passages.require_vectors(entry.passages, entry.vectors, model)
    namespace = namespace_key(connection, memory.namespace)
    replaced = _key_to_supersede(connection, entry)
    twin = _twin(connection, memory, namespace, replaced) if memory.state == "active" else None
    if replaced is not None:
        _mark_superseded(connection, replaced, memory.id if twin is None else twin[1], to_ms(memory.updated_at))
    if twin is not None:
        key, id_ = twin
        if add_tags(connection, key, memory.tags):
            connection.run("UPDATE memory SET updated_at = ? WHERE key = ?", (to_ms(memory.updated_at), key))
            changes.record(connection, "updated", key, to_ms(memory.updated_at))
        return id_, False
    key = _insert(connection, memory, namespace)
    set_tags(connection, key, memory.tags)
    passages.add_passages(connection, key, memory.content, entry.passages, entry.vectors)
    _unbury(connection, memory.id, namespace)
    changes.record(connection, "stored", key, to_ms(memory.updated_at))
    return memory.id, True


def _unbury(connection: Connection, id_: str, namespace: int) -> None:
    """Drop the tombstone of a memory that comes back; one of another namespace stays and keeps its id."""
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


def _twin(connection: Connection, memory: Memory, namespace: int, apart_from: int | None) -> tuple[int, str] | None:
    """Return the active memory that has the same text in the same place."""
    rows = connection.rows(
        """SELECT key, id FROM memory
           WHERE substr(content_hash, 1, 16) = ? AND namespace = ? AND coalesce(conversation_id, '') = ?
             AND coalesce(sequence, -1) = ? AND superseded_by IS NULL AND archived_at IS NULL AND key IS NOT ?""",
        (bytes.fromhex(memory.content_hash)[:16], namespace, memory.conversation_id or "",
         -1 if memory.sequence is None else memory.sequence, apart_from),
    )  # fmt: skip
    return (rows[0][0], id_text(rows[0][1])) if rows else None


def _mark_superseded(connection: Connection, key: int, by: str, at_ms: int) -> None:
    connection.run("UPDATE memory SET superseded_by = ?, updated_at = ? WHERE key = ?", (id_blob(by), at_ms, key))
    changes.record(connection, "updated", key, at_ms)


def _insert(connection: Connection, memory: Memory, namespace: int) -> int:
    if key_of(connection, memory.id) is not None:
        raise ConflictError(f"a memory with the id {memory.id} exists already", field="id")
    return connection.value(
        """INSERT INTO memory(id, namespace, conversation_id, sequence, agent_id, type, created_at, updated_at,
                              occurred_at, superseded_by, archived_at, content_hash, metadata, turns, content)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING key""",
        (id_blob(memory.id), namespace, memory.conversation_id, memory.sequence, memory.agent_id, memory.type,
         to_ms(memory.created_at), to_ms(memory.updated_at), to_ms(memory.occurred_at),
         optional_id(memory.superseded_by), optional_ms(memory.archived_at),
         bytes.fromhex(memory.content_hash), metadata_text(memory.metadata),
         turns_text(memory.turns), memory.content),
    )  # fmt: skip


def update(connection: Connection, id_: str, change: Change, model: Model | None, /) -> Memory | None:
    """Apply a change; see `MemoryStore.update`."""
    key = key_of(connection, id_)
    if key is None:
        return None
    columns: dict[str, Value] = {"updated_at": to_ms(change.updated_at)}
    require_storable_change(change)
    for name, value in change.fields.items():
        if name == "tags":
            set_tags(connection, key, list(_texts(value)))
        else:
            columns[name] = _column(name, value)
    if isinstance(by := change.fields.get("superseded_by"), str):
        _require_no_circle(connection, id_, by)
    if change.content is None:
        _set(connection, id_, columns)
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
    passages.require_vectors(change.passages, change.vectors, model)
    passages.remove_passages(connection, key)
    columns["turns"] = None  # they are places in the old content
    _set(connection, id_, columns)
    passages.add_passages(connection, key, change.content, change.passages, change.vectors)


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


def _set(connection: Connection, id_: str, columns: dict[str, Value]) -> None:
    assignments = ", ".join(f"{name} = ?" for name in columns)
    try:
        connection.run(f"UPDATE memory SET {assignments} WHERE id = ?", (*columns.values(), id_blob(id_)))
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
