"""What a `RetainStorage` writes. Others may write the same memories meanwhile, and nothing of theirs is lost."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from crewai.memory.types import MemoryRecord

import retain
from retain_integrations.crewai._database import BATCH, Database, Row
from retain_integrations.crewai._embedders import parts_of
from retain_integrations.crewai._records import memory_of, patch_of, record_of, touched

_ATTEMPTS = 5


def save(database: Database, records: Sequence[MemoryRecord], /) -> None:
    """Store records, each 1,000 of them in one transaction; one whose id is there already is replaced."""
    vectors = database.vectors_of(records)
    for start in range(0, len(records), BATCH):
        part = slice(start, start + BATCH)
        _undisturbed(partial(_save, database, records[part], vectors[part] if vectors else None))


def _save(database: Database, records: Sequence[MemoryRecord], vectors: Sequence[Row | None] | None) -> None:
    olds = database.memories([record.id for record in records])
    _store(database, records, vectors, olds, keep_tags=True)


def update(database: Database, record: MemoryRecord, /) -> None:
    """Replace the record of the same id, wherever it is; it is stored if there is none."""
    _undisturbed(partial(_update, database, record))


def _update(database: Database, record: MemoryRecord) -> None:
    olds = database.memories([record.id])
    if not record.embedding and len(olds) == 1 and _stays(database, olds[0], record):
        database.memory.update(olds[0].id, patch_of(record, olds[0]))
        return
    if not record.embedding and olds and database.has_given_vectors():
        raise retain.InvalidInputError(
            "this record moves or changes its text, so it needs its embedding; the database keeps no vectors that "
            "Retain could make",
            field="embedding",
        )
    _store(database, [record], database.vectors_of([record]), olds, keep_tags=False)


def _stays(database: Database, old: retain.Memory, record: MemoryRecord) -> bool:
    return old.content == record.content and old.namespace == database.scopes.namespace(record.scope)


def touch(database: Database, record_ids: Sequence[str], /) -> None:
    """Note that records were used just now; one that somebody else changes or deletes meanwhile is left to them."""
    now = datetime.now(UTC)
    for memory in database.memories(record_ids):
        patch = touched(memory, now)
        if patch is not None:
            with suppress(retain.ConflictError, retain.NotFoundError):
                database.memory.update(memory.id, patch)


def _store(
    database: Database,
    records: Sequence[MemoryRecord],
    vectors: Sequence[Row | None] | None,
    olds: Sequence[retain.Memory],
    *,
    keep_tags: bool,
) -> None:
    """Store up to 1,000 records in place of their old memories.

    A caller who has read a record has the tags that others gave it among its categories, and may take them away.
    Where the caller may not know them they are kept.
    """
    replaced = {record_of(old, database.scopes).id: old for old in sorted(olds, key=lambda old: old.updated_at)}
    news = [
        memory_of(
            record,
            database.scopes,
            old=replaced.get(record.id),
            keep_tags=keep_tags,
            searchable=_searchable(record, vectors[place]) if vectors else None,
        )
        for place, record in enumerate(records)
    ]
    database.store(news, vectors, instead_of=[old.id for old in olds])


def _searchable(record: MemoryRecord, vector: Row | None) -> Sequence[tuple[int, int]]:
    """Return the parts of a record that one vector stands for; none where there is no vector."""
    return () if vector is None else parts_of(record.content)


def _undisturbed(write: Callable[[], None]) -> None:
    """Read and write again when somebody else changed or deleted what was read before it was written."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(retain.ConflictError, retain.NotFoundError):
            write()
            return
    write()
