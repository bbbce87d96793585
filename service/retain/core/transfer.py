"""Export and import: a database as JSON objects, one a line, without loss."""

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime

from retain.core.api import Record
from retain.core.embedding import entries
from retain.core.intake import Intake, own_type
from retain.core.policy import Principal
from retain.core.ports import Clock, Embedder, MemoryStore
from retain.domain.errors import ConflictError, InvalidInputError, PermissionDeniedError
from retain.domain.ids import shortened
from retain.domain.json_form import (
    memory_from_json,
    memory_to_json,
    time_to_json,
    tombstone_from_json,
    tombstone_to_json,
)
from retain.domain.memory import Filter, Imported, Memory, Tombstone
from retain.domain.ontology import BUILT_IN

FORMAT = "retain"
VERSION = 1
EXCLUDED = ("vectors", "events", "api keys", "idempotency keys")
MEMORY_FIELDS = frozenset(("kind", "turns", *(field.name for field in fields(Memory))))
TYPE_FIELDS = frozenset(("kind", "type", "parent", "namespace"))
TOMBSTONE_FIELDS = frozenset(("kind", *(field.name for field in fields(Tombstone))))
_BATCH = 200
_HASH = re.compile("[0-9a-f]{64}")


async def export_records(store: MemoryStore, clock: Clock, where: Filter, /) -> AsyncIterator[Record]:
    """Yield a header, the own types, the memories that match (oldest first) and the tombstones of the namespace."""
    yield {
        "kind": "header",
        "format": FORMAT,
        "version": VERSION,
        "exported_at": time_to_json(clock()),
        "excludes": list(EXCLUDED),
    }
    for used in await store.types(where):
        if used.type not in BUILT_IN:
            yield {"kind": "type", "type": used.type, "parent": used.parent, "namespace": used.namespace}
    ids = (await store.ids(where))[::-1]
    for start in range(0, len(ids), _BATCH):
        for memory in await store.get(ids[start : start + _BATCH]):
            yield {"kind": "memory", **memory_to_json(memory)}
    for tombstone in await store.tombstones(where):
        yield {"kind": "tombstone", **tombstone_to_json(tombstone)}


@dataclass(slots=True)
class Importer:
    """Takes the records of one export, in batches; each batch is one transaction."""

    store: MemoryStore
    embedder: Embedder
    principal: Principal
    max_content_chars: int
    now: datetime
    types: dict[str, str | None] = field(default_factory=dict[str, str | None])
    created: int = 0
    skipped: int = 0
    buried: int = 0

    async def run(self, records: AsyncIterator[Record], /) -> Imported:
        """Store all records and return the counts.

        Raises:
            InvalidInputError: a record is malformed; the message names its line.
            PermissionDeniedError: a record belongs to a namespace or an agent that is not the principal's.
        """
        self.types = dict(await self.store.known_types(self.principal.namespace))
        memories: list[Memory] = []
        tombstones: list[Tombstone] = []
        line = 0
        async for record in records:
            line += 1
            try:
                await self._take(record, line, memories, tombstones)
            except (InvalidInputError, PermissionDeniedError) as error:
                raise type(error)(f"line {line}: {error}", field=error.field) from None
            if len(memories) >= _BATCH:
                await self._write(memories)
                memories.clear()
        if line == 0:
            raise InvalidInputError("nothing to import: the first line must be the header of an export", field="header")
        await self._write(memories)
        self.buried += await self.store.restore(tombstones)
        return Imported(self.created, self.skipped, self.buried)

    async def _take(self, record: Record, line: int, memories: list[Memory], tombstones: list[Tombstone]) -> None:
        kind: object = record.get("kind")
        if line == 1 or kind == "header":
            _require_header(record)
        elif kind == "type":
            await self._register(record)
        elif kind == "memory":
            _require_known_fields(record, MEMORY_FIELDS)
            intake = Intake(self.principal, self.now, self.types, self.max_content_chars)
            memories.append(intake.imported(memory_from_json(record)))
        elif kind == "tombstone":
            _require_known_fields(record, TOMBSTONE_FIELDS)
            tombstones.append(self._tombstone(tombstone_from_json(record)))
        else:
            raise InvalidInputError(f"kind {shortened(kind)} is not known to this version", field="kind")

    async def _register(self, record: Record) -> None:
        _require_known_fields(record, TYPE_FIELDS)
        name, parent = own_type(record.get("type"), record.get("parent"))
        namespace = self.principal.namespace_for(record.get("namespace"))
        await self.store.register_type(name, parent, namespace=namespace)
        self.types[name] = parent

    def _tombstone(self, tombstone: Tombstone) -> Tombstone:
        if self.principal.namespace_for(tombstone.namespace) != tombstone.namespace:
            raise InvalidInputError("namespace is not in normal form", field="namespace")
        if not _HASH.fullmatch(tombstone.content_hash):
            raise InvalidInputError("content_hash must be 64 hexadecimal digits", field="content_hash")
        return tombstone

    async def _write(self, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        held = await self.store.get([memory.id for memory in memories])
        for memory in held:
            if not self.principal.may_see(memory):
                raise ConflictError(f"the id {memory.id} can't be used here", field="id")
        present = {memory.id for memory in held}
        new = [memory for memory in memories if memory.id not in present]
        self.skipped += len(memories) - len(new)
        if new:
            made, model = await entries(self.embedder, new)
            written = await self.store.put(made, model=model)
            created = sum(outcome.created for outcome in written)
            self.created += created
            self.skipped += len(new) - created


def _require_header(record: Record) -> None:
    if record.get("kind") != "header" or record.get("format") != FORMAT:
        raise InvalidInputError('the first line must be the header of an export: {"kind": "header", …}', field="header")
    version: object = record.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or not 1 <= version <= VERSION:
        raise InvalidInputError(
            f"the export has version {shortened(version)}; this Retain reads up to {VERSION}: upgrade it",
            field="version",
        )


def _require_known_fields(record: Record, known: frozenset[str]) -> None:
    unknown = record.keys() - known
    if unknown:
        name = shortened(min(unknown))
        raise InvalidInputError(f"{name} is no field of a {record['kind']}", field=name)
