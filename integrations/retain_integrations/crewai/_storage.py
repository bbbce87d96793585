"""CrewAI's storage of memory on Retain."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self, cast

from crewai.memory.types import MemoryRecord, ScopeInfo

import retain
from retain_integrations._sync import LazyMemory
from retain_integrations.crewai._database import Database, is_meant
from retain_integrations.crewai._embedders import Given, GivenOrOwn, RetainEmbedder, text_of, unit
from retain_integrations.crewai._records import MARK, Scopes, record_of
from retain_integrations.crewai._timeline import among_newest, count, oldest
from retain_integrations.crewai._writes import save, touch, update

DEFAULT_NAMESPACE = "/crewai"
"""Below this namespace the scopes of CrewAI lie unless another is chosen."""
_MOST_HITS = 1_000
_MOST_QUERY_CHARS = 10_000
_NEAR = 0.8
"""The cosine from which on Retain calls a text similar to another."""
_WORTH = 0.85
"""What a record scores at most that is about the same thing and repeats nothing: CrewAI's `consolidation_threshold`.
Otherwise CrewAI would ask an LLM at nearly every save whether to merge records."""


class RetainStorage:
    """CrewAI's `StorageBackend` on a database of Retain, in this process or behind a service.

        storage = RetainStorage("sqlite:///agents.db")
        memory = Memory(storage=storage, embedder=storage.embedder)

    Each record is an ordinary memory in the namespace of its scope: every other way into Retain finds it, and what
    others store there is found by the crew. With `RetainEmbedder` a search is a hybrid recall by the words of the
    question. With another embedder its vectors are kept and compared, in a database in this process that holds no
    others. Safe to use from several threads, and several storages may share a database.
    """

    def __init__(
        self,
        url: str | Path | None = None,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        namespace: str = DEFAULT_NAMESPACE,
        **settings: Any,
    ) -> None:
        """Nothing is opened yet.

        Args:
            url: `sqlite:///PATH` or a plain path; None takes the setting `database_url`.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service.
            namespace: Where in Retain the scope "/" lies.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: both `url` and `base_url` are given, or a value is impossible.
        """
        if url is not None and not isinstance(cast("object", url), str | Path):
            raise retain.InvalidInputError(f"url must be text or a path, not {type(url).__name__}", field="url")
        self.embedder = RetainEmbedder(**settings)
        lazy = LazyMemory(
            None if url is None else str(url),
            base_url=base_url,
            api_key=api_key,
            embedder=None if base_url is not None else lambda: GivenOrOwn(self.embedder.model),
            **settings,
        )
        self._database = Database(lazy, Scopes(namespace), self.embedder.model.embedder)
        self._writing = threading.RLock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a copied crew goes on with the same database

    # -- writing ------------------------------------------------------------------------------------------------

    def save(self, records: list[MemoryRecord]) -> None:
        """Store records; one whose id is there already is replaced, and keeps the tags that others gave it.

        Up to 1,000 are stored whole or not at all, and of more each 1,000. Saving the same records again does no harm.

        Raises:
            ConflictError: others changed them again and again meanwhile.
            EmbeddingDimensionMismatchError: an embedding has another length than those stored.
            InvalidInputError: something else than records, a value that can't be stored, or, behind a service, an
                embedding that is not of `RetainEmbedder`.
            StoreError: the database or the service failed.
        """
        _require_records(records)
        if not records:
            return
        with self._writing:
            save(self._database, list({record.id: record for record in records}.values()))

    def update(self, record: MemoryRecord) -> None:
        """Replace the record of the same id, wherever it is; it is stored if there is none.

        Raises:
            ConflictError: others changed it again and again meanwhile.
            EmbeddingDimensionMismatchError: its embedding has another length than those stored.
            InvalidInputError: as for `save`, and when it moves or changes its text without the vector that another
                embedder has to make.
        """
        _require_records([record])
        with self._writing:
            update(self._database, record)

    def touch_records(self, record_ids: list[str]) -> None:
        """Note that records were used just now. Unknown ids are passed over."""
        with self._writing:
            touch(self._database, record_ids)

    def delete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """Delete the records that meet all conditions and return how many there were.

        A scope counts with all below it. Memories that others stored are left alone unless their ids are given.
        """
        if isinstance(record_ids, str):  # its letters could be ids
            raise retain.InvalidInputError("record_ids must be a list of ids", field="record_ids")
        if record_ids is not None and not record_ids:
            return 0
        with self._writing:
            if categories or record_ids or older_than or metadata_filter:
                found = self._database.found(scope_prefix, categories, record_ids, older_than, metadata_filter)
                return self._database.delete(found)
            own = {f"{MARK}.id": {"$ne": None}}
            where = retain.Filter(namespace=self._database.scopes.namespace(scope_prefix), metadata=own)
            return self._database.memory.delete_many(where).count

    def reset(self, scope_prefix: str | None = None) -> None:
        """Delete what CrewAI stored in a scope and below, or everywhere."""
        self.delete(scope_prefix=scope_prefix)

    def close(self) -> None:
        """Close the database or the connection. It opens again when it is used again."""
        self._database.lazy.close()

    # -- finding ------------------------------------------------------------------------------------------------

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """Return up to `limit` records with scores in [0, 1], best first.

        With vectors of `RetainEmbedder` this is a hybrid recall of their text; only near repetitions of it score above
        0.85. With other vectors the score is the cosine.

        Raises:
            EmbeddingDimensionMismatchError: the vector has another length than those stored.
            InvalidInputError: the vector is none that this database can be searched with.
        """
        if limit <= 0:
            return []
        where = self._database.where(scope_prefix, categories, metadata_filter)
        text = text_of(query_embedding)
        hits = self._hits_by_vector(query_embedding, limit, where) if text is None else self._hits(text, limit, where)
        found = [(record_of(hit.memory, self._database.scopes), score) for hit, score in hits if score >= min_score]
        exact = [(record, score) for record, score in found if is_meant(record, categories, metadata_filter)]
        return sorted(exact, key=lambda pair: -pair[1])[:limit]

    def _hits(self, text: str, limit: int, where: retain.Filter) -> list[tuple[retain.Hit, float]]:
        if not text.strip():
            return []
        with self._database.bringing(None):
            found = self._database.memory.recall(text, k=min(limit, _MOST_HITS), where=where)
        return [(hit, _score(hit)) for hit in found.hits]

    def _hits_by_vector(
        self, vector: Sequence[float], limit: int, where: retain.Filter
    ) -> list[tuple[retain.Hit, float]]:
        row = unit(vector)
        if row is None:
            return []
        self._database.require_own_process()
        with self._database.bringing(Given(len(row), question=row)):
            found = self._database.memory.recall("by vector", k=min(limit, _MOST_HITS), mode="semantic", where=where)
        return [(hit, hit.signals.get("semantic", 0.0)) for hit in found.hits]

    def get_record(self, record_id: str) -> MemoryRecord | None:
        """Return the record of an id; None when there is none."""
        found = self._database.memories([record_id])
        last = max(found, key=lambda memory: memory.updated_at, default=None)
        return None if last is None else record_of(last, self._database.scopes)

    def list_records(self, scope_prefix: str | None = None, limit: int = 200, offset: int = 0) -> list[MemoryRecord]:
        """Return the records of a scope and below, those created last first."""
        if limit <= 0 or offset < 0:
            return []
        found = among_newest(self._database.memory, self._database.where(scope_prefix), offset + limit)
        records = [record_of(memory, self._database.scopes) for memory in found]
        newest_first = sorted(records, key=lambda record: (record.created_at, record.id), reverse=True)
        return newest_first[offset : offset + limit]

    def get_scope_info(self, scope: str) -> ScopeInfo:
        """Return how many records a scope and those below it hold, their categories and their time."""
        memory, where = self._database.memory, self._database.where(scope)
        newest = self.list_records(scope, limit=1)
        first = [record_of(each, self._database.scopes).created_at for each in oldest(memory, where)] if newest else []
        return ScopeInfo(
            path=self._database.scopes.scope(str(where.namespace)),
            record_count=count(memory, where),
            categories=sorted(self.list_categories(scope)),
            oldest_record=min(first, default=None),
            newest_record=newest[0].created_at if newest else None,
            child_scopes=self.list_scopes(scope),
        )

    def list_scopes(self, parent: str = "/") -> list[str]:
        """Return the scopes one step below `parent`, by name."""
        namespace = self._database.scopes.namespace(parent)
        used = self._database.memory.namespaces(retain.Filter(namespace=namespace))
        return sorted(
            {child for each in used if (child := self._database.scopes.child(each.namespace, namespace)) is not None}
        )

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        """Return the categories in a scope and below, with how many records carry each."""
        tags = self._database.memory.tags(self._database.where(scope_prefix))
        return {each.tag: each.count for each in tags if not each.tag.startswith("agent:")}

    def count(self, scope_prefix: str | None = None) -> int:
        """Return how many records a scope and those below it hold."""
        return count(self._database.memory, self._database.where(scope_prefix))

    def count_private(self, scope: str) -> int:
        """Return how many records of a scope and below are private."""
        private = {f"{MARK}.private": True}
        return count(self._database.memory, replace(self._database.where(scope), metadata=private))

    def holding(self, content: str, scope: str) -> list[MemoryRecord]:
        """Return the records of exactly that text in exactly that scope, newest first."""
        where = self._database.where(scope)
        found = self._database.memory.recall(content[:_MOST_QUERY_CHARS], k=_MOST_HITS, mode="exact", where=where)
        same = [hit.memory for hit in found.hits if hit.memory.content == content]
        return [record_of(memory, self._database.scopes) for memory in same if memory.namespace == where.namespace]

    # -- async: the same, off the event loop --------------------------------------------------------------------

    async def asave(self, records: list[MemoryRecord]) -> None:
        """See `save`."""
        await asyncio.to_thread(self.save, records)

    async def asearch(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        """See `search`."""
        return await asyncio.to_thread(
            self.search, query_embedding, scope_prefix, categories, metadata_filter, limit, min_score
        )

    async def adelete(
        self,
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        record_ids: list[str] | None = None,
        older_than: datetime | None = None,
        metadata_filter: dict[str, Any] | None = None,
    ) -> int:
        """See `delete`."""
        return await asyncio.to_thread(self.delete, scope_prefix, categories, record_ids, older_than, metadata_filter)


def _require_records(records: Iterable[object]) -> None:
    for record in records:
        if not isinstance(record, MemoryRecord):
            raise retain.InvalidInputError(
                f"records must be of crewai.memory.types.MemoryRecord, not {type(record).__name__}", field="records"
            )


def _score(hit: retain.Hit) -> float:
    cosine = hit.signals.get("semantic", 0.0)
    repeats = min(max((cosine - _NEAR) / (1 - _NEAR), 0.0), 1.0)
    return _WORTH * hit.score + (1 - _WORTH) * repeats
