"""Memories as rows, and back."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from retain.domain.memory import Memory, State, TurnSpan
from retain.storage.sqlite.connection import Connection, Row, blobs, integers
from retain.storage.words import canonical_json

STATE_NUMBERS: dict[State, int] = {"active": 0, "superseded": 1, "archived": 2}
"""The values of the column `memory.state`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_SELECT = """
    SELECT memory.key, id, content, content_hash, created_at, updated_at, occurred_at, type, metadata, path,
           agent_id, conversation_id, sequence, turns, superseded_by, archived_at, own_key, searchable
    FROM memory JOIN namespace ON namespace.key = memory.namespace"""


def id_blob(id_: str, /) -> bytes:
    """Return the 16 bytes of a UUID in its canonical form."""
    return bytes.fromhex(id_.replace("-", ""))


def id_text(blob: bytes, /) -> str:
    """Return the canonical form of a UUID's 16 bytes."""
    digits = blob.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def optional_id(id_: str | None, /) -> bytes | None:
    """Return `id_blob`, keeping None."""
    return None if id_ is None else id_blob(id_)


def to_ms(moment: datetime, /) -> int:
    """Return milliseconds since 1970, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def from_ms(milliseconds: int, /) -> datetime:
    """Return the aware UTC time."""
    return _EPOCH + milliseconds * _MILLISECOND


def optional_ms(moment: datetime | None, /) -> int | None:
    """Return `to_ms`, keeping None."""
    return None if moment is None else to_ms(moment)


_INSERT = """
    INSERT INTO memory(key, id, content, content_hash, created_at, updated_at, occurred_at, type, metadata, namespace,
                       agent_id, conversation_id, sequence, turns, superseded_by, archived_at, own_key, searchable)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
LATER = "updated_at = max(?, updated_at + 1)"
"""Sets the time of an update so that no two of a memory have the same, whatever the clock says."""
_REPLACE = """
    UPDATE memory SET content = ?3, content_hash = ?4, updated_at = max(?6, updated_at + 1), occurred_at = ?7,
        type = ?8, metadata = ?9, agent_id = ?11, conversation_id = ?12, sequence = ?13, turns = ?14,
        superseded_by = ?15, archived_at = ?16, searchable = ?18
    WHERE key = ?1"""


def insert(connection: Connection, memories: Mapping[int, Memory], namespaces: Mapping[str, int], /) -> list[Memory]:
    """Write new rows of the given keys; return the memories as they will be read.

    `namespaces` has the key of each path.
    """
    rows = [(_row(key, memory), tuple(dict.fromkeys(memory.tags))) for key, memory in memories.items()]
    connection.run_each(_INSERT, ((*row[:9], namespaces[row[9]], *row[10:]) for row, _ in rows))
    return [_memory(row, tags) for row, tags in rows]


def overwrite(connection: Connection, key: int, memory: Memory, namespace: int, /) -> None:
    """Write all columns of a row anew, apart from `created_at`; it must hold the memory of the same key."""
    row = _row(key, memory)
    connection.run(_REPLACE, (*row[:9], namespace, *row[10:]))


def _row(key: int, memory: Memory) -> Row:
    return (
        key, id_blob(memory.id), memory.content, bytes.fromhex(memory.content_hash), to_ms(memory.created_at),
        to_ms(memory.updated_at), to_ms(memory.occurred_at), memory.type, metadata_text(memory.metadata),
        memory.namespace, memory.agent_id, memory.conversation_id, memory.sequence, turns_text(memory.turns),
        optional_id(memory.superseded_by), optional_ms(memory.archived_at), memory.key,
        spans_text(memory.searchable),
    )  # fmt: skip


def metadata_text(metadata: object, /) -> str | None:
    """Return the column `memory.metadata`: JSON, or NULL for an empty object."""
    return canonical_json(metadata) if metadata else None


def turns_text(turns: Sequence[TurnSpan], /) -> str | None:
    """Return the column `memory.turns`: JSON, or NULL for none."""
    if not turns:
        return None
    return canonical_json([[turn.role, turn.start, turn.end, optional_ms(turn.occurred_at)] for turn in turns])


def spans_text(spans: Sequence[tuple[int, int]] | None, /) -> str | None:
    """Return the column `memory.searchable`: JSON, or NULL for None."""
    return None if spans is None else canonical_json(spans)


def memories_by_id(connection: Connection, ids: Sequence[str], /) -> list[Memory]:
    """Return the memories of `ids` in the order asked; unknown ids are absent."""
    if not ids:
        return []
    rows = connection.rows(f"{_SELECT} WHERE id IN carray(?)", (blobs(map(id_blob, ids)),))
    found = {memory.id: memory for memory in _memories(connection, rows).values()}
    return [found[id_] for id_ in ids if id_ in found]


def memories_by_key(connection: Connection, keys: Collection[int], /) -> dict[int, Memory]:
    """Return the memories of those row keys, by key."""
    if not keys:
        return {}
    return _memories(connection, connection.rows(f"{_SELECT} WHERE memory.key IN carray(?)", (integers(list(keys)),)))


def tags_of(connection: Connection, keys: Sequence[int], /) -> dict[int, tuple[str, ...]]:
    """Return the tags of each memory key that has some, in the order in which they were given."""
    found: dict[int, tuple[str, ...]] = {}
    if not keys:
        return found
    rows = connection.rows(
        """SELECT memory, name FROM memory_tag JOIN tag ON tag.key = memory_tag.tag
           WHERE memory IN carray(?) ORDER BY memory, position""",
        (integers(keys),),
    )
    for key, name in rows:
        found[key] = (*found.get(key, ()), name)
    return found


def _memories(connection: Connection, rows: list[Row]) -> dict[int, Memory]:
    tags = tags_of(connection, [row[0] for row in rows])
    return {row[0]: _memory(row, tags.get(row[0], ())) for row in rows}


def _memory(row: Row, tags: tuple[str, ...]) -> Memory:
    metadata, turns, archived_at = row[8], row[13], row[15]
    return Memory(
        id=id_text(row[1]),
        content=row[2],
        content_hash=row[3].hex(),
        created_at=from_ms(row[4]),
        updated_at=from_ms(row[5]),
        occurred_at=from_ms(row[6]),
        type=row[7],
        tags=tags,
        metadata=json.loads(metadata) if metadata else {},
        namespace=row[9],
        agent_id=row[10],
        conversation_id=row[11],
        sequence=row[12],
        turns=turns_of(turns) if turns else (),
        superseded_by=None if row[14] is None else id_text(row[14]),
        archived_at=None if archived_at is None else from_ms(archived_at),
        key=row[16],
        searchable=None if row[17] is None else spans_of(row[17]),
    )


def spans_of(text: str, /) -> tuple[tuple[int, int], ...]:
    """Return the parts of the column `memory.searchable`."""
    return tuple((start, end) for start, end in json.loads(text))


def turns_of(text: str, /) -> tuple[TurnSpan, ...]:
    """Return the turns of the column `memory.turns`."""
    return tuple(
        TurnSpan(role, start, end, None if at is None else from_ms(at)) for role, start, end, at in json.loads(text)
    )
