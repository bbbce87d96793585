"""What is left of deleted memories: id, hash, namespace and time."""

from collections.abc import Sequence

from retain.domain.memory import Filter, Tombstone
from retain.storage.accepting import require_buriable
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.filters import namespaces_within
from retain.storage.sqlite.memories import namespace_key
from retain.storage.sqlite.rows import from_ms, id_blob, id_text, to_ms
from retain.storage.words import canonical_json


def tombstones(connection: Connection, where: Filter, /) -> list[Tombstone]:
    """Return those in the namespace of `where` and below, oldest first."""
    keys = namespaces_within(connection, where.namespace)
    rows = connection.rows(
        """SELECT id, content_hash, path, deleted_at
           FROM tombstone JOIN namespace ON namespace.key = tombstone.namespace
           WHERE ? OR tombstone.namespace IN (SELECT value FROM json_each(?)) ORDER BY deleted_at, id""",
        (keys is None, canonical_json(keys or [])),
    )
    return [Tombstone(id_text(id_), hash_.hex(), path, from_ms(at)) for id_, hash_, path, at in rows]


def restore(connection: Connection, buried: Sequence[Tombstone], /) -> int:
    """Add tombstones of ids that are neither stored nor buried here; return how many."""
    for stone in buried:
        require_buriable(stone)
    added = 0
    for stone in buried:
        if connection.value("SELECT 1 FROM memory WHERE id = ?", (id_blob(stone.id),)) is None:
            connection.run(
                "INSERT INTO tombstone VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (id_blob(stone.id), bytes.fromhex(stone.content_hash), namespace_key(connection, stone.namespace),
                 to_ms(stone.deleted_at)),
            )  # fmt: skip
            added += connection.changed
    return added
