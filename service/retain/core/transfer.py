"""Export and import: a database as JSON objects, one a line, without loss."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retain.core.api import Record
from retain.core.embedding import entries
from retain.core.policy import Principal
from retain.core.ports import Clock, Embedder, MemoryStore
from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.domain.json_form import (
    memory_from_json,
    memory_to_json,
    time_to_json,
    tombstone_from_json,
    tombstone_to_json,
)
from retain.domain.memory import Filter, Imported, Memory, Tombstone
from retain.domain.ontology import BUILT_IN, known_type, type_name
from retain.domain.text import clean_text, content_hash, normalise_namespace, normalise_tags

FORMAT = "retain"
VERSION = 1
EXCLUDED = ("vectors", "events", "api keys", "idempotency keys")
_BATCH = 200


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
            yield {"kind": "type", "type": used.type, "parent": used.parent}
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
    created: int = 0
    skipped: int = 0
    buried: int = 0

    async def run(self, records: AsyncIterator[Record], /) -> Imported:
        """Store all records and return the counts.

        Raises:
            InvalidInputError: a record is malformed; the message names its line.
        """
        known = {used.type for used in await self.store.types(Filter())}
        memories: list[Memory] = []
        tombstones: list[Tombstone] = []
        line = 0
        async for record in records:
            line += 1
            try:
                await self._take(record, line, known, memories, tombstones)
            except InvalidInputError as error:
                raise InvalidInputError(f"line {line}: {error}", field=error.field) from None
            if len(memories) >= _BATCH:
                await self._write(memories)
                memories.clear()
        if line == 0:
            raise InvalidInputError("nothing to import: the first line must be the header of an export", field="header")
        await self._write(memories)
        self.buried += await self.store.restore(tombstones)
        return Imported(self.created, self.skipped, self.buried)

    async def _take(
        self, record: Record, line: int, known: set[str], memories: list[Memory], tombstones: list[Tombstone]
    ) -> None:
        kind: object = record.get("kind")
        if line == 1 or kind == "header":
            _require_header(record)
        elif kind == "type":
            name = type_name(record.get("type"))
            await self.store.register_type(name, record.get("parent"))
            known.add(name)
        elif kind == "memory":
            memories.append(self._memory(record, known))
        elif kind == "tombstone":
            tombstone = tombstone_from_json(record)
            self.principal.namespace_for(tombstone.namespace)
            tombstones.append(tombstone)
        else:
            raise InvalidInputError(f"kind {shortened(kind)} is not known to this version", field="kind")

    def _memory(self, record: Mapping[str, Any], known: set[str]) -> Memory:
        memory = memory_from_json(record)
        clean_text(memory.content, field="content", limit=self.max_content_chars)
        if memory.content_hash != content_hash(memory.content):
            raise InvalidInputError("content_hash does not belong to content", field="content_hash")
        known_type(memory.type, known)
        if normalise_tags(memory.tags) != memory.tags:
            raise InvalidInputError("tags are not in normal form", field="tags")
        if self.principal.namespace_for(normalise_namespace(memory.namespace)) != memory.namespace:
            raise InvalidInputError("namespace is not in normal form", field="namespace")
        self.principal.require_own_agent_tags(memory.tags)
        return memory

    async def _write(self, memories: Sequence[Memory]) -> None:
        if not memories:
            return
        present = {memory.id for memory in await self.store.get([memory.id for memory in memories])}
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
    if not isinstance(version, int) or version > VERSION:
        raise InvalidInputError(
            f"the export has version {shortened(version)}; this Retain reads up to {VERSION}: upgrade it",
            field="version",
        )
