"""The change feed: one row for each memory a transaction touched. Events are read from it, indexes follow it."""

from collections.abc import Mapping

from retain.domain.memory import Event, EventKind, Memory
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import namespaces_within
from retain.storage.sqlite.rows import from_ms, id_blob, id_text, tags_of, to_ms
from retain.storage.words import canonical_json

KINDS: tuple[EventKind, ...] = ("stored", "updated", "deleted")
"""By the values of the column `change.kind`."""
KEPT_CHANGES = 100_000
"""Older changes are pruned; an index that missed them loads anew, an event stream goes on with what is left."""
_PRUNED_EVERY = 1_000


def record(connection: Connection, kind: EventKind, memory: int, at_ms: int, /) -> None:
    """Note that the memory with that row key, which still exists, changed."""
    connection.run(
        """INSERT INTO change(kind, memory, memory_id, namespace, at)
           SELECT ?, key, id, namespace, ? FROM memory WHERE key = ?""",
        (KINDS.index(kind), at_ms, memory),
    )
    _prune_sometimes(connection, 1)


def record_stored(connection: Connection, memories: Mapping[int, Memory], namespaces: Mapping[str, int], /) -> None:
    """Note new memories by their row keys; `namespaces` has the key of each path."""
    connection.run_each(
        "INSERT INTO change(kind, memory, memory_id, namespace, at) VALUES (0, ?, ?, ?, ?)",
        (
            (key, id_blob(memory.id), namespaces[memory.namespace], to_ms(memory.updated_at))
            for key, memory in memories.items()
        ),
    )
    _prune_sometimes(connection, len(memories))


def _prune_sometimes(connection: Connection, added: int) -> None:
    last = connection.last_key
    if last // _PRUNED_EVERY > (last - added) // _PRUNED_EVERY:
        prune(connection, last)


def prune(connection: Connection, last: int, /) -> None:
    """Drop changes that are far behind `last`."""
    connection.run("DELETE FROM change WHERE seq <= ?", (last - KEPT_CHANGES,))


def last_change(connection: Connection, /) -> int:
    """Return the highest number given so far, 0 for none."""
    return connection.highest_key("change")


def events(connection: Connection, after: int, limit: int, namespace: str, /) -> list[Event]:
    """Return up to `limit` events after `after` in `namespace` and below, oldest first."""
    keys = namespaces_within(connection, namespace)
    rows = connection.rows(
        """SELECT seq, kind, change.memory_id, path, at, memory.key, memory.type
           FROM change JOIN namespace ON namespace.key = change.namespace
           LEFT JOIN memory ON memory.key = change.memory
           WHERE seq > ? AND (? OR change.namespace IN (SELECT value FROM json_each(?)))
           ORDER BY seq LIMIT ?""",
        (after, keys is None, canonical_json(keys or []), limit),
    )
    tags = tags_of(connection, [row[5] for row in rows if row[5] is not None])
    return [
        Event(seq, KINDS[int(kind)], id_text(id_), path, from_ms(at), type_, tags.get(key, ()))
        for seq, kind, id_, path, at, key, type_ in rows
    ]
