"""`SqliteStore`: the ports of the core on one SQLite file. Each method is one transaction in one thread hop."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from retain.core.ports import (
    Capability,
    Change,
    Choose,
    Chosen,
    Clock,
    Entry,
    Problem,
    RequestKey,
    Rescue,
    StoredKey,
    Vectors,
    Written,
)
from retain.domain.memory import (
    Event,
    Filter,
    Listing,
    Memory,
    Model,
    NamespaceCount,
    Page,
    Similar,
    Stats,
    TagCount,
    Tombstone,
    TypeCount,
)
from retain.domain.ontology import parents_of
from retain.domain.text import ROOT
from retain.storage.sqlite import (
    changes,
    keys,
    listing,
    maintenance,
    memories,
    meta,
    migrations,
    passages,
    reembedding,
    rescue,
    rows,
    search,
    tags,
    tombstones,
)
from retain.storage.sqlite.connection import Access, Database
from retain.storage.sqlite.index import PassageIndex
from retain.storage.sqlite.totals import Totals
from retain.storage.sqlite.upkeep import Upkeep


async def open_sqlite(path: str | Path, /, *, clock: Clock) -> "SqliteStore":
    """Open the database at `path`; make it when it is not there, bring it up to date when it is older.

    Raises:
        StoreCorruptError: the file is damaged or not a Retain database; it was left unchanged.
        StoreUnavailableError: busy, full or unreachable.
        StoreError: the path can't be used, or a newer version of Retain wrote the file.
    """
    database = await asyncio.to_thread(_opened, path, rows.to_ms(clock()))
    return SqliteStore(database, clock)


async def rescue_sqlite(path: str | Path, /, *, clock: Clock) -> Rescue:
    """Replace a damaged database by a new one that holds all that can still be read; the damaged one is kept.

    Raises:
        StoreUnavailableError: another process has it open.
        StoreError: nothing can be read, or the new file is not sound; nothing was changed.
    """
    now = clock()
    return await asyncio.to_thread(rescue.rescue, _absolute(path), f"{now:%Y%m%dT%H%M%S}", rows.to_ms(now))


def _opened(path: str | Path, now_ms: int) -> Database:
    where = _absolute(path)
    return Database(where, migrations.opened(where, now_ms=now_ms))


def _absolute(path: str | Path) -> Path:
    return Path(path).expanduser().absolute()


class SqliteStore:
    """Implements MemoryStore, EventLog, Maintenance, Reembedding and KeyStore. Made by `open_sqlite`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._index = PassageIndex()
        self._totals = Totals()
        self._upkeep = Upkeep(database)
        database.on_write = self._upkeep.wrote

    @property
    def path(self) -> Path:
        """The file."""
        return self._database.path

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Everything there is."""
        return frozenset(Capability)

    @property
    def index_sizes(self) -> dict[str, int]:
        """Bytes of each array in memory: "postings" are remembered words, the rest the index. Empty until searched."""
        return self._index.sizes

    async def model(self) -> Model | None:
        """See `MemoryStore.model`."""
        return await self._database.read(meta.model_in_use)

    async def put(
        self, entries: Sequence[Entry], /, *, model: Model, request: RequestKey | None = None,
        delete: Filter | None = None,
    ) -> list[Written]:  # fmt: skip
        """See `MemoryStore.put`."""
        now = self._clock()
        return await self._database.write(
            lambda db: memories.put(db, entries, model, request, delete, now),
            scrub=delete is not None or any(entry.memory.key is not None for entry in entries),
        )

    async def get(self, ids: Sequence[str], /) -> list[Memory]:
        """See `MemoryStore.get`."""
        return await self._database.read(lambda db: rows.memories_by_id(db, ids))

    async def update(self, memory_id: str, change: Change, /, *, model: Model | None = None) -> Memory | None:
        """See `MemoryStore.update`."""
        return await self._database.write(
            lambda db: memories.update(db, memory_id, change, model), scrub=change.content is not None
        )

    async def delete(self, where: Filter, /, *, at: datetime, expected: int | None = None) -> list[str]:
        """See `MemoryStore.delete`."""
        return await self._database.write(lambda db: memories.delete(db, where, at, expected), scrub=True)

    async def ids(self, where: Filter, /) -> list[str]:
        """See `MemoryStore.ids`."""
        return await self._database.read(lambda db: listing.ids(db, where))

    async def candidates(
        self, where: Filter, k: int, choose: Choose, /, *, vector: Vectors | None = None, text: str | None = None,
        model: Model | None = None,
    ) -> list[Chosen]:  # fmt: skip
        """See `MemoryStore.candidates`."""
        if vector is not None:
            search.require_vector(vector, model)
        return await self._database.read(
            lambda db: search.candidates(db, self._index, where, k, choose, vector, text, model)
        )

    async def containing(self, text: str, where: Filter, k: int, /) -> list[Memory]:
        """See `MemoryStore.containing`."""
        return await self._database.read(lambda db: search.containing(db, text, where, k))

    async def similar(self, vectors: Vectors, where: Filter, k: int, /, *, model: Model) -> list[list[Similar]]:
        """See `MemoryStore.similar`."""
        for vector in vectors:
            search.require_vector(vector, model)
        return await self._database.read(lambda db: search.similar(db, self._index, vectors, where, k, model))

    async def tags(self, where: Filter, /, *, minimum_use: int = 1) -> list[TagCount]:
        """See `MemoryStore.tags`."""
        return await self._database.read(lambda db: tags.tag_counts(db, where, minimum_use))

    async def retag(self, sources: Sequence[str], target: str, where: Filter, /, *, at: datetime) -> int:
        """See `MemoryStore.retag`."""
        at_ms = rows.to_ms(at)
        return await self._database.write(lambda db: tags.retag(db, sources, target, where, at_ms))

    async def namespaces(self, where: Filter, /) -> list[NamespaceCount]:
        """See `MemoryStore.namespaces`."""
        return await self._database.read(lambda db: listing.namespaces(db, where))

    async def types(self, where: Filter, /) -> list[TypeCount]:
        """See `MemoryStore.types`."""
        return await self._database.read(lambda db: listing.types(db, where))

    async def known_types(self, namespace: str, /) -> dict[str, str | None]:
        """See `MemoryStore.known_types`."""
        return parents_of(await self._database.read(lambda db: listing.own_types(db, namespace)))

    async def register_type(self, name: str, parent: str | None, /, *, namespace: str = ROOT) -> None:
        """See `MemoryStore.register_type`."""
        await self._database.write(lambda db: listing.register_type(db, name, parent, namespace))

    async def stats(self, where: Filter, /) -> Stats:
        """See `MemoryStore.stats`."""
        return await self._database.read(lambda db: listing.stats(db, where))

    async def tombstones(self, where: Filter, /) -> list[Tombstone]:
        """See `MemoryStore.tombstones`."""
        return await self._database.read(lambda db: tombstones.tombstones(db, where))

    async def restore(self, buried: Sequence[Tombstone], /) -> int:
        """See `MemoryStore.restore`."""
        return await self._database.write(lambda db: tombstones.restore(db, buried))

    async def last_event(self) -> int:
        """See `EventLog.last_event`."""
        return await self._database.read(changes.last_change)

    async def events(self, after: int, limit: int, /, *, namespace: str) -> list[Event]:
        """See `EventLog.events`."""
        return await self._database.read(lambda db: changes.events(db, after, limit, namespace))

    async def check(self) -> list[Problem]:
        """See `Maintenance.check`."""
        return await (
            self._database.write(maintenance.check)
            if self._database.access is Access.WRITE
            else self._database.read(maintenance.check)
        )

    async def repair(self) -> list[Problem]:
        """See `Maintenance.repair`."""
        await self._database.write(maintenance.repair)
        return await self.check()

    async def compact(self) -> tuple[int, int]:
        """See `Maintenance.compact`."""
        sizes = await self._database.outside(lambda db: maintenance.compact(db, self.path))
        await self._upkeep.group()
        return sizes

    async def backup(self, path: str, /) -> None:
        """See `Maintenance.backup`."""
        await self._database.apart(
            lambda: maintenance.backup(self.path, Path(path).expanduser().absolute(), self._database.access)
        )

    async def unsearchable(self, limit: int, /) -> Sequence[Memory]:
        """See `Maintenance.unsearchable`."""
        return await self._database.read(lambda db: passages.unsearchable(db, limit))

    async def complete(self, entries: Sequence[Entry], /, *, model: Model) -> None:
        """See `Maintenance.complete`."""
        await self._database.write(lambda db: passages.complete(db, entries, model))

    async def begin_reembedding(self, model: Model, /) -> int:
        """See `Reembedding.begin_reembedding`."""
        return await self._database.write(lambda db: reembedding.begin(db, model))

    async def unembedded(self, limit: int, /) -> list[Memory]:
        """See `Reembedding.unembedded`."""
        return await self._database.read(lambda db: reembedding.unembedded(db, limit))

    async def put_reembedded(self, entries: Sequence[Entry], /, *, model: Model) -> None:
        """See `Reembedding.put_reembedded`."""
        await self._database.write(lambda db: reembedding.put(db, entries, model))

    async def finish_reembedding(self, model: Model, /) -> bool:
        """See `Reembedding.finish_reembedding`."""
        return await self._database.write(lambda db: reembedding.finish(db, model))

    async def add_key(self, key: StoredKey, /) -> None:
        """See `KeyStore.add_key`."""
        await self._database.write(lambda db: keys.add(db, key))

    async def find_key(self, digest: str, /) -> StoredKey | None:
        """See `KeyStore.find_key`."""
        return await self._database.read(lambda db: keys.find(db, digest))

    async def list_keys(self) -> list[StoredKey]:
        """See `KeyStore.list_keys`."""
        return await self._database.read(keys.everyone)

    async def remove_key(self, name: str, /) -> bool:
        """See `KeyStore.remove_key`."""
        return await self._database.write(lambda db: keys.remove(db, name))

    async def aclose(self) -> None:
        """See `MemoryStore.aclose`."""
        await self._upkeep.stop()
        await self._database.aclose()

    # Last in the class: below it, `list[...]` in an annotation would mean this method.
    async def list(self, where: Filter, page: Page, /) -> Listing:
        """See `MemoryStore.list`."""
        return await self._database.read(lambda db: listing.page(db, self._totals, where, page))
