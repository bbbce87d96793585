"""Export and import: a database as JSON objects, one a line, without loss."""

import re
from collections import deque
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import aclosing
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from retain.core.api import Record
from retain.core.ingest import BATCH, BATCH_CHARS, UNDER_WAY, ingest
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
from retain.domain.memory import EVERYTHING, Filter, Imported, Memory, Tombstone
from retain.domain.ontology import BUILT_IN

FORMAT = "retain"
VERSION = 1
EXCLUDED = ("vectors", "events", "api keys", "idempotency keys")
MEMORY_FIELDS = frozenset(("kind", "turns", *(field.name for field in fields(Memory))))
TYPE_FIELDS = frozenset(("kind", "type", "parent", "namespace"))
TOMBSTONE_FIELDS = frozenset(("kind", *(field.name for field in fields(Tombstone))))
_READ_AT_ONCE = 200
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
    for start in range(0, len(ids), _READ_AT_ONCE):
        for memory in await store.get(ids[start : start + _READ_AT_ONCE]):
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
    tombstones: list[Tombstone] = field(default_factory=list[Tombstone])
    _coming: deque[Set[str]] = field(default_factory=lambda: deque(maxlen=UNDER_WAY))
    """Ids of the latest batches, which may not be written yet."""

    async def run(self, records: AsyncIterator[Record], /) -> Imported:
        """Store all records and return the counts. What is there already is passed over, so a second run goes on.

        Raises:
            InvalidInputError: a record is malformed; the message names its line.
            PermissionDeniedError: a record belongs to a namespace or an agent that is not the principal's.
        """
        self.types = dict(await self.store.known_types(self.principal.namespace))
        async with aclosing(ingest(self.store, self.embedder, self._batches(records))) as outcomes:
            async for written in outcomes:
                created = sum(outcome.created for outcome in written)
                self.created += created
                self.skipped += len(written) - created
        buried = await self.store.restore(self.tombstones)
        return Imported(self.created, self.skipped, buried)

    async def _batches(self, records: AsyncIterator[Record]) -> AsyncIterator[Sequence[Memory]]:
        """Yield the memories among `records` that are not there yet; do what the other records say."""
        batch: list[Memory] = []
        chars = 0
        async for memory in self._memories(records):
            batch.append(memory)
            chars += len(memory.content)
            if len(batch) >= BATCH or chars >= BATCH_CHARS:
                if new := await self._new(batch):
                    yield new
                batch, chars = [], 0
        if new := await self._new(batch):
            yield new

    async def _new(self, memories: Sequence[Memory]) -> list[Memory]:
        """Return those that are neither stored nor about to be, each id once."""
        named = replace(EVERYTHING, ids=tuple({memory.id for memory in memories}))
        held = set(await self.store.ids(named))
        if foreign := held.difference(await self.store.ids(self.principal.narrow(named))):
            raise ConflictError(f"the id {min(foreign)} can't be used here", field="id")
        known = held.union(*self._coming)
        new: dict[str, Memory] = {}
        for memory in memories:
            if memory.id not in known:
                new.setdefault(memory.id, memory)
        self.skipped += len(memories) - len(new)
        if new:
            self._coming.append(new.keys())
        return list(new.values())

    async def _memories(self, records: AsyncIterator[Record]) -> AsyncIterator[Memory]:
        line = 0
        async for record in records:
            line += 1
            try:
                memory = await self._take(record, line)
            except (InvalidInputError, PermissionDeniedError) as error:
                raise type(error)(f"line {line}: {error}", field=error.field) from None
            if memory is not None:
                yield memory
        if line == 0:
            raise InvalidInputError("nothing to import: the first line must be the header of an export", field="header")

    async def _take(self, record: Record, line: int) -> Memory | None:
        kind: object = record.get("kind")
        if line == 1 or kind == "header":
            _require_header(record)
        elif kind == "type":
            await self._register(record)
        elif kind == "memory":
            _require_known_fields(record, MEMORY_FIELDS)
            intake = Intake(self.principal, self.now, self.types, self.max_content_chars)
            return intake.imported(memory_from_json(record))
        elif kind == "tombstone":
            _require_known_fields(record, TOMBSTONE_FIELDS)
            self.tombstones.append(self._tombstone(tombstone_from_json(record)))
        else:
            raise InvalidInputError(f"kind {shortened(kind)} is not known to this version", field="kind")
        return None

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
