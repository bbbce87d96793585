"""API keys at rest."""

from retain.core.ports import StoredKey
from retain.domain.errors import ConflictError
from retain.storage.sqlite.connection import Connection, Row
from retain.storage.sqlite.rows import from_ms, to_ms

_SELECT = "SELECT name, digest, namespace, can_write, agent_id, created_at FROM api_key"


def add(connection: Connection, key: StoredKey, /) -> None:
    """Keep a key; ConflictError when the name or the digest is taken."""
    if connection.value("SELECT 1 FROM api_key WHERE name = ? OR digest = ?", (key.name, key.digest)):
        raise ConflictError(
            f"an API key named {key.name!r} exists already; revoke it or choose another name", field="name"
        )
    connection.run(
        "INSERT INTO api_key VALUES (?, ?, ?, ?, ?, ?)",
        (key.name, key.digest, key.namespace, key.can_write, key.agent_id, to_ms(key.created_at)),
    )


def find(connection: Connection, digest: str, /) -> StoredKey | None:
    """Return the key with that SHA-256."""
    for row in connection.rows(f"{_SELECT} WHERE digest = ?", (digest,)):
        return _key(row)
    return None


def everyone(connection: Connection, /) -> list[StoredKey]:
    """Return all keys, oldest first."""
    return [_key(row) for row in connection.rows(f"{_SELECT} ORDER BY created_at, name")]


def remove(connection: Connection, name: str, /) -> bool:
    """Forget a key; False when there is none of that name."""
    connection.run("DELETE FROM api_key WHERE name = ?", (name,))
    return connection.changed > 0


def _key(row: Row) -> StoredKey:
    name, digest, namespace, can_write, agent_id, created_at = row
    return StoredKey(name, digest, namespace, bool(can_write), agent_id, from_ms(created_at))
