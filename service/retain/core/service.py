"""`MemoryService`: the core that every way in ends in. Each method checks rights, checks input, does one thing."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Self, Unpack, cast

from retain.core.api import GroupBy, Record
from retain.core.embedding import entries
from retain.core.filters import resolve_filter, restricts
from retain.core.intake import (
    Intake,
    as_new_memory,
    at_place,
    aware,
    clean_page,
    clean_score,
    id_superseded_by,
    own_type,
    request_digest,
    require_count,
)
from retain.core.policy import LOCAL_USER, Principal
from retain.core.ports import Capability, Change, Clock, Embedder, EventLog, Expected, MemoryStore, RequestKey
from retain.core.recall import Question, find, newest
from retain.core.sessions import session_memory, turn_memories
from retain.core.similarity import similar_to
from retain.core.transfer import Importer, export_records
from retain.domain.errors import CapabilityError, InvalidInputError, ModelMismatchError, NotFoundError, TooLargeError
from retain.domain.ids import parse_id, shortened
from retain.domain.memory import (
    EVERYTHING,
    MAX_BATCH,
    MAX_K,
    RECALL_MODES,
    Deleted,
    Event,
    Filter,
    Imported,
    Listing,
    Memory,
    MemoryFields,
    MemoryPatch,
    Model,
    NamespaceCount,
    NewMemory,
    Page,
    Recall,
    RecallMode,
    SessionMode,
    Stats,
    Stored,
    StoredSession,
    TagCount,
    Turn,
    TypeCount,
)
from retain.domain.ontology import BUILT_IN
from retain.domain.scoring import USUAL, Weighing
from retain.domain.text import MAX_CONTENT_CHARS, ROOT, clean_name, clean_text, content_hash, normalise_tags
from retain.domain.time_range import TimeRange, find_time_range, load_zone

MAX_QUERY_CHARS = 10_000
SESSION_TYPE = "conversation"
EVENT_POLL_S = 0.2
"""How often a stream of events looks for changes by other processes."""
_EVENT_BATCH = 500


def utc_now() -> datetime:
    """Return the current time, aware, in UTC, to the millisecond."""
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings that the core itself obeys."""

    timezone: str = "UTC"
    max_content_chars: int = MAX_CONTENT_CHARS
    weighing: Weighing = USUAL


_OF_ONE_MEMORY: Final = frozenset(
    ("sequence", "supersedes", "key", "searchable", "if_updated_at", "if_absent", "keep_tags")
)
"""What can't be said of a whole session."""


class MemoryService:
    """Implements `MemoryAPI` on a store and an embedder, on behalf of one principal.

    `acting_as` gives the same service for another principal; there is no call without one.
    """

    def __init__(
        self,
        store: MemoryStore,
        embedder: Embedder,
        *,
        clock: Clock = utc_now,
        policy: Policy | None = None,
        principal: Principal = LOCAL_USER,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._clock = clock
        self._policy = policy or Policy()
        self._principal = principal

    def acting_as(self, principal: Principal, /) -> Self:
        """Return this service on behalf of `principal`; it shares the store and the model."""
        return type(self)(self._store, self._embedder, clock=self._clock, policy=self._policy, principal=principal)

    @property
    def principal(self) -> Principal:
        """On whose behalf this service acts."""
        return self._principal

    # -- storing ------------------------------------------------------------------------------------------------

    async def store(
        self,
        memory: str | NewMemory,
        /,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Stored:
        """See `MemoryAPI.store`."""
        new = as_new_memory(memory, fields)
        intake = await self._intake()
        request = self._request(idempotency_key, new)
        prepared = intake.memory(new)
        await self._require_successor(prepared.namespace, new.supersedes, "supersedes")
        expected = intake.expected(new)
        (made,), model = await entries(self._embedder, [prepared], [id_superseded_by(new)])
        (written,) = await self._store.put(
            [replace(made, expected=expected, keep_tags=new.keep_tags)], model=model, request=request
        )
        similar = await similar_to(self._store, written.memory, made.vectors, model) if written.created else ()
        return Stored(written.memory, written.created, similar)

    async def store_many(
        self,
        memories: Iterable[str | NewMemory],
        /,
        *,
        delete: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> list[Stored]:
        """See `MemoryAPI.store_many`."""
        news = [as_new_memory(memory, {}) for memory in memories]
        intake = await self._intake()
        if not news and not delete:
            raise InvalidInputError("memories is empty; give at least one", field="memories")
        for field, items in (("memories", news), ("delete", delete)):
            if len(items) > MAX_BATCH:
                raise TooLargeError(f"a batch holds up to {MAX_BATCH:,} {field}, not {len(items):,}", field=field)
        prepared = [at_place(intake.memory, new, place) for place, new in enumerate(news)]
        for new, memory in zip(news, prepared, strict=True):
            await self._require_successor(memory.namespace, new.supersedes, "supersedes")
        going = await self._resolve(replace(EVERYTHING, ids=tuple(delete))) if delete else None
        request = self._request(idempotency_key, news, *([list(delete)] if delete else []))
        asked = [(at_place(intake.expected, new, place), new.keep_tags) for place, new in enumerate(news)]
        return await self._put(prepared, request, [id_superseded_by(new) for new in news], asked, going)

    async def store_session(
        self,
        turns: Sequence[Turn],
        /,
        *,
        mode: SessionMode = "turn",
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> StoredSession:
        """See `MemoryAPI.store_session`."""
        if mode not in ("turn", "session"):
            raise InvalidInputError(f"mode must be turn or session, not {shortened(mode)}", field="mode")
        as_new_memory("", fields)
        if placed := fields.keys() & _OF_ONE_MEMORY:
            raise InvalidInputError(f"{min(placed)} can't be said of a whole session", field=min(placed))
        request = self._request(idempotency_key, list(turns), mode, fields)
        intake = await self._intake()
        conversation_id = fields.get("conversation_id") or f"session-{uuid.uuid4()}"
        fields["conversation_id"] = conversation_id
        fields["type"] = fields.get("type") or SESSION_TYPE
        template = NewMemory(content="", **fields)
        limit = self._policy.max_content_chars
        if mode == "session":
            new, spans = session_memory(turns, template, max_content_chars=limit)
            prepared = [intake.memory(new, turns=spans)]
        else:
            prepared = [intake.memory(new) for new in turn_memories(turns, template, max_content_chars=limit)]
        return StoredSession(conversation_id, tuple(await self._put(prepared, request)))

    async def _put(
        self,
        prepared: list[Memory],
        request: RequestKey | None,
        supersedes: list[str | None] | None = None,
        asked: list[tuple[Expected | None, bool]] | None = None,
        going: Filter | None = None,
    ) -> list[Stored]:
        made, model = await entries(self._embedder, prepared, supersedes)
        if asked is not None:
            made = [
                replace(entry, expected=expected, keep_tags=keep_tags)
                for entry, (expected, keep_tags) in zip(made, asked, strict=True)
            ]
        written = await self._store.put(made, model=model, request=request, delete=going)
        return [Stored(outcome.memory, outcome.created) for outcome in written]

    async def _require_successor(self, namespace: str, other: str | None, field: str) -> None:
        """Refuse a link between namespaces: who sees one end must be allowed to see the other.

        Raises:
            NotFoundError: there is no memory `other`.
            InvalidInputError: it lies in another namespace.
        """
        if other and (found := await self.get(other)).namespace != namespace:
            raise InvalidInputError(
                f"{field} must name a memory of the same namespace, {namespace}, not of {found.namespace}", field=field
            )

    # -- finding ------------------------------------------------------------------------------------------------

    async def recall(
        self,
        query: str,
        /,
        *,
        k: int = 10,
        mode: RecallMode = "hybrid",
        where: Filter = Filter(),  # noqa: B008 - immutable
        group_by: GroupBy | None = None,
        min_score: float = 0.0,
        time_from_query: bool = False,
    ) -> Recall:
        """See `MemoryAPI.recall`."""
        require_count(k, "k", MAX_K)
        if mode not in RECALL_MODES:
            raise InvalidInputError(
                f"mode must be one of {', '.join(RECALL_MODES)}, not {shortened(mode)}", field="mode"
            )
        if group_by not in (None, "conversation"):
            raise InvalidInputError(f"group_by must be conversation, not {shortened(group_by)}", field="group_by")
        min_score = clean_score(min_score, "min_score")
        if query and not query.isspace():
            query = clean_text(query, field="query", limit=MAX_QUERY_CHARS)
        span = None
        if time_from_query and (found := self._time_in(query, where)):
            span, query = found
            where = replace(where, since=span.since, until=span.until)
        resolved = await self._resolve(where)
        if not query or query.isspace():
            hits = await newest(self._store, resolved, k, group_by) if min_score == 0 else ()
            return Recall(hits, "", mode, span)
        question = Question(query, k, mode, resolved, group_by, min_score, self._policy.weighing)
        return Recall(await find(self._store, self._embedder, question), query, mode, span)

    def _time_in(self, query: str, where: Filter) -> tuple[TimeRange, str] | None:
        found = find_time_range(query, now=self._clock(), zone=load_zone(where.timezone or self._policy.timezone))
        if found and (where.since or where.until or where.time):
            raise InvalidInputError(
                "the query holds a time expression and a time filter is given too; use one of them",
                field="query",
            )
        return found

    async def get(self, memory_id: str, /) -> Memory:
        """See `MemoryAPI.get`."""
        memory_id = parse_id(memory_id)
        found = await self._store.get([memory_id])
        if not found or not self._principal.may_see(found[0]):
            raise NotFoundError(f"there is no memory {memory_id}", field="id")
        return found[0]

    async def list(self, where: Filter = Filter(), page: Page = Page(), /) -> Listing:  # noqa: B008 - immutable
        """See `MemoryAPI.list`."""
        return await self._store.list(await self._resolve(where), clean_page(page))

    # -- changing -----------------------------------------------------------------------------------------------

    async def update(self, memory_id: str, patch: MemoryPatch, /) -> Memory:
        """See `MemoryAPI.update`."""
        intake = await self._intake()
        memory = await self.get(memory_id)
        fields = intake.patch(patch, memory)
        if isinstance(fields.get("superseded_by"), str):
            await self._require_successor(memory.namespace, cast("str", fields["superseded_by"]), "superseded_by")
        change, model = await self._change(memory, fields, intake.now)
        if patch.if_updated_at is not None:
            change = replace(change, if_updated_at=aware(patch.if_updated_at, "if_updated_at"))
        updated = await self._store.update(memory.id, change, model=model)
        if updated is None:
            raise NotFoundError(f"there is no memory {memory.id}", field="id")
        return updated

    async def _change(self, memory: Memory, fields: dict[str, object], now: datetime) -> tuple[Change, Model | None]:
        if "content" not in fields:
            return Change(now, fields), None
        content = cast("str", fields.pop("content"))
        searchable = None if memory.searchable else memory.searchable  # parts are places in the old content
        renewed = replace(memory, content=content, content_hash=content_hash(content), turns=(), searchable=searchable)
        (made,), model = await entries(self._embedder, [renewed])
        return Change(now, fields, content, renewed.content_hash, made.passages, made.vectors), model

    async def delete(self, memory_id: str, /) -> None:
        """See `MemoryAPI.delete`."""
        self._principal.require_write()
        memory = await self.get(memory_id)
        where = self._principal.narrow(replace(EVERYTHING, ids=(memory.id,)))
        if not await self._store.delete(where, at=self._clock()):
            raise NotFoundError(f"there is no memory {memory.id}", field="id")

    async def delete_many(
        self, where: Filter, /, *, dry_run: bool = False, expected_count: int | None = None
    ) -> Deleted:
        """See `MemoryAPI.delete_many`."""
        self._principal.require_write()
        resolved = await self._resolve(where)
        everything = resolved.namespace == self._principal.namespace and not restricts(resolved)
        if everything and not dry_run and expected_count is None:
            raise InvalidInputError(
                "this would delete everything; restrict it, or say how many memories you expect (expected_count)",
                field="where",
            )
        if dry_run:
            return Deleted(tuple(await self._store.ids(resolved)), dry_run=True)
        ids = await self._store.delete(resolved, at=self._clock(), expected=expected_count)
        return Deleted(tuple(ids))

    # -- tags, types, counts ------------------------------------------------------------------------------------

    async def tags(self, where: Filter = Filter(), /, *, minimum_use: int = 1) -> Sequence[TagCount]:  # noqa: B008
        """See `MemoryAPI.tags`."""
        require_count(minimum_use, "minimum_use", 2**53)
        return await self._store.tags(await self._resolve(where), minimum_use=minimum_use)

    async def merge_tags(self, sources: Sequence[str], target: str, /) -> int:
        """See `MemoryAPI.merge_tags`."""
        self._principal.require_write()
        old = normalise_tags(sources, field="sources")
        new = normalise_tags([target], field="target")
        if not old:
            raise InvalidInputError("sources is empty; name the tags to replace", field="sources")
        self._principal.require_own_agent_tags(old + new)
        changed = await self._store.retag(old, new[0], self._principal.narrow(EVERYTHING), at=self._clock())
        if not changed:
            raise NotFoundError(f"no memory carries the tag {', '.join(map(shortened, old))}", field="sources")
        return changed

    async def namespaces(self, where: Filter = Filter(), /) -> Sequence[NamespaceCount]:  # noqa: B008 - immutable
        """See `MemoryAPI.namespaces`."""
        return await self._store.namespaces(await self._resolve(where))

    async def types(self) -> Sequence[TypeCount]:
        """See `MemoryAPI.types`."""
        return await self._store.types(self._principal.narrow(Filter()))

    async def register_type(self, name: str, /, *, parent: str | None = None) -> None:
        """See `MemoryAPI.register_type`."""
        self._principal.require_write()
        name, parent = own_type(name, parent)
        await self._store.register_type(name, parent, namespace=self._principal.namespace)

    async def stats(self) -> Stats:
        """See `MemoryAPI.stats`."""
        stats = await self._store.stats(self._principal.narrow(Filter()))
        if self._principal.namespace == ROOT or stats.total + stats.superseded + stats.archived:
            return stats
        return replace(stats, model=None)  # that others have stored something is not theirs to know

    # -- export, import, events ---------------------------------------------------------------------------------

    async def export(self, where: Filter = EVERYTHING, /) -> AsyncIterator[Record]:
        """See `MemoryAPI.export`."""
        async for record in export_records(self._store, self._clock, await self._resolve(where)):
            yield record

    async def import_records(self, records: AsyncIterator[Record], /) -> Imported:
        """See `MemoryAPI.import_records`."""
        self._principal.require_write()
        importer = Importer(self._store, self._embedder, self._principal, self._policy.max_content_chars, self._clock())
        return await importer.run(records)

    async def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """See `MemoryAPI.events`."""
        if Capability.EVENTS not in self._store.capabilities:
            raise CapabilityError("this store keeps no log of changes, so there are no events")
        log = cast("EventLog", self._store)
        seq = await log.last_event() if after is None else after
        while True:
            last = await log.last_event()
            batch = await log.events(seq, _EVENT_BATCH, namespace=self._principal.namespace)
            for event in batch:
                seq = event.seq
                yield event
            if not batch:
                seq = max(seq, last)  # what lies before is not this caller's: never scan it again
                await asyncio.sleep(EVENT_POLL_S)

    async def last_event(self) -> int:
        """Return the number of the latest change, 0 when nothing ever happened."""
        return await cast("EventLog", self._store).last_event()

    # -- life ---------------------------------------------------------------------------------------------------

    async def warm_up(self) -> None:
        """Load the model now instead of at its first use.

        Raises:
            EmbeddingError: it can't be loaded.
        """
        load: Callable[[], Awaitable[None]] | None = getattr(self._embedder, "warm_up", None)
        if load is not None:
            await load()

    async def require_ready(self) -> None:
        """Return when the store answers and holds no vectors of another model than this one.

        Raises:
            StoreError: the store does not answer.
            ModelMismatchError: recall by meaning would fail.
        """
        stored, model = await self._store.model(), Model(self._embedder.model_id, self._embedder.dimensions)
        if stored is not None and stored != model:
            raise ModelMismatchError(
                f"the database was written with {stored.id} ({stored.dimensions} numbers a vector) and this is "
                f"{model.id} ({model.dimensions}); choose the first one, or switch with: retain reembed"
            )

    async def aclose(self) -> None:
        """See `MemoryAPI.aclose`."""
        await self._store.aclose()
        await self._embedder.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    # -- shared steps -------------------------------------------------------------------------------------------

    async def _types(self) -> Mapping[str, str | None]:
        return await self._store.known_types(self._principal.namespace)

    async def _intake(self) -> Intake:
        self._principal.require_write()
        return Intake(self._principal, self._clock(), await self._types(), self._policy.max_content_chars)

    async def _resolve(self, where: Filter) -> Filter:
        types = await self._types() if where.types else BUILT_IN
        return resolve_filter(
            where, principal=self._principal, now=self._clock(), zone=self._policy.timezone, types=types
        )

    def _request(self, key: str | None, *parts: object) -> RequestKey | None:
        if key is None:
            return None
        key = clean_name(key, field="idempotency_key")
        who = self._principal  # a key may be made anew for elsewhere, and several agents may share one
        caller = f"{who.name} in {who.namespace} as {who.agent_id}"
        return RequestKey(caller, key, request_digest(*parts))
