"""Idempotency keys: a request that comes again within a day gets the first answer and has no second effect."""

import json

from retain.core.ports import RequestKey, Written
from retain.domain.errors import ConflictError, NotFoundError
from retain.storage.sqlite.connection import Connection
from retain.storage.sqlite.rows import memories_by_id
from retain.storage.words import canonical_json

KEPT_MS = 24 * 60 * 60 * 1000
"""How long a key is remembered."""


def outcome(connection: Connection, request: RequestKey, now_ms: int, /) -> list[Written] | None:
    """Return what the request did the first time; None when it is new.

    Raises:
        ConflictError: the key stood for another request.
        NotFoundError: a memory that it stored is deleted.
    """
    rows = connection.rows(
        "SELECT digest, outcome FROM request WHERE principal = ? AND key = ? AND at > ?",
        (request.principal, request.key, now_ms - KEPT_MS),
    )
    if not rows:
        return None
    digest, text = rows[0]
    if digest != request.digest:
        raise ConflictError(
            f"the idempotency key {request.key!r} was used for another request within the last 24 hours; "
            "use a new key for each request",
            field="idempotency_key",
        )
    first: list[tuple[str, bool]] = json.loads(text)
    found = {memory.id: memory for memory in memories_by_id(connection, [id_ for id_, _ in first])}
    for id_, _ in first:
        if id_ not in found:
            raise NotFoundError(
                f"the memory {id_}, stored by the first request with the idempotency key {request.key!r}, has been "
                "deleted since; use a new key to store it again"
            )
    return [Written(found[id_], created) for id_, created in first]


def remember(connection: Connection, request: RequestKey, done: list[tuple[str, bool]], now_ms: int, /) -> None:
    """Keep what a request did, and forget those that are over a day old."""
    connection.run("DELETE FROM request WHERE at <= ?", (now_ms - KEPT_MS,))
    connection.run(
        "INSERT INTO request VALUES (?, ?, ?, ?, ?)",
        (request.principal, request.key, request.digest, canonical_json(done), now_ms),
    )
