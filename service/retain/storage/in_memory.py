"""The shortest correct store: everything in dictionaries, every search a full scan. For tests and throw-away use."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import apsw
import numpy as np

from retain.core.ports import (
    Capability,
    Change,
    Choose,
    Chosen,
    Clock,
    Entry,
    RequestKey,
    Vectors,
    Written,
)
from retain.domain.errors import (
    ConflictError,
    EmbeddingError,
    ModelMismatchError,
    NotFoundError,
    StoreUnavailableError,
)
from retain.domain.memory import (
    ACTIVE,
    STATES,
    Event,
    EventKind,
    Filter,
    Listing,
    Memory,
    Model,
    NamespaceCount,
    Page,
    Passage,
    Similar,
    State,
    Stats,
    TagCount,
    Tombstone,
    TypeCount,
    counted_types,
)
from retain.domain.ontology import OwnType, parents_of
from retain.domain.scoring import Candidates, Values
from retain.domain.text import ROOT, is_within
from retain.storage.accepting import (
    require_buriable,
    require_expected,
    require_storable,
    require_storable_change,
    require_unchanged,
    tags_after,
)
from retain.storage.scanning import (
    TIMES,
    Kept,
    Place,
    Surroundings,
    cosines_to,
    decoded,
    encoded,
    held,
    identity,
    matches,
    position,
    to_the_ms,
    vectors_of,
    word_shares,
)
from retain.storage.words import STOP_WORDS, pairs, spaced, terms


class InMemoryStore:
    """Implements MemoryStore and EventLog; forgets everything when closed."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._closed = False
        self._model: Model | None = None
        self._kept: dict[str, Kept] = {}
        self._events: list[Event] = []
        self._tombstones: dict[str, Tombstone] = {}
        self._requests: dict[tuple[str, str], tuple[str, datetime, list[tuple[str, bool]]]] = {}
        self._types: dict[tuple[str, str], str | None] = {}
        self._tokenizer = apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Events alone."""
        return frozenset((Capability.EVENTS,))

    async def model(self) -> Model | None:
        """See `MemoryStore.model`."""
        self._require_open()
        return self._model if self._kept else None

    async def put(
        self, entries: Sequence[Entry], /, *, model: Model, request: RequestKey | None = None,
        delete: Filter | None = None,
    ) -> list[Written]:  # fmt: skip
        """See `MemoryStore.put`."""
        with self._lock:
            self._require_open()
            if request is not None and (first := self._first_outcome(request)) is not None:
                return first
            before = dict(self._kept), list(self._events), self._model, dict(self._tombstones)
            try:
                if entries:
                    self._adopt(model)
                if delete is not None:
                    self._bury(self._matching(delete), self._clock())
                done = [self._put_one(entry, model) for entry in entries]
            except BaseException:
                self._kept, self._events, self._model, self._tombstones = before
                raise
            if request is not None:
                self._requests[request.principal, request.key] = request.digest, self._clock(), done
            return [Written(self._kept[id_].memory, created) for id_, created in done]

    def _first_outcome(self, request: RequestKey) -> list[Written] | None:
        digest, at, done = self._requests.get((request.principal, request.key), ("", self._clock(), None))
        if done is None or at <= self._clock() - timedelta(hours=24):
            return None
        if digest != request.digest:
            raise ConflictError(
                f"the idempotency key {request.key!r} was used for another request", field="idempotency_key"
            )
        if not all(id_ in self._kept for id_, _ in done):
            raise NotFoundError("a memory stored by the first request with this key has been deleted since")
        return [Written(self._kept[id_].memory, created) for id_, created in done]

    def _put_one(self, entry: Entry, model: Model) -> tuple[str, bool]:
        require_storable(entry.memory)
        memory = replace(entry.memory, **{name: to_the_ms(getattr(entry.memory, name)) for name in TIMES})
        if entry.supersedes is not None and entry.supersedes not in self._kept:
            raise NotFoundError(f"supersedes names the memory {entry.supersedes}, which does not exist")
        same_key = self._kept.get(memory.id) if memory.key is not None else None
        require_expected(entry, None if same_key is None else same_key.memory.updated_at)
        twin = self._twin(memory, apart_from=entry.supersedes) if same_key is None else None
        if entry.supersedes is not None:
            old = self._kept[entry.supersedes]
            self._save(old, at=memory.updated_at, superseded_by=twin.memory.id if twin else memory.id)
        if twin is not None:
            new = [tag for tag in memory.tags if tag not in twin.memory.tags]
            if new:
                self._save(twin, at=memory.updated_at, tags=(*twin.memory.tags, *new))
            return twin.memory.id, False
        if same_key is not None:
            at = _later(same_key.memory, memory.updated_at)
            tags = tags_after(entry, same_key.memory)
            memory = replace(memory, created_at=same_key.memory.created_at, updated_at=at, tags=tags)
            self._kept[memory.id] = self._indexed(memory, entry.passages, entry.vectors, model)
            self._note("updated", memory, memory.updated_at)
            return memory.id, False
        if memory.id in self._kept:
            raise ConflictError(f"a memory with the id {memory.id} exists already", field="id")
        stone = self._tombstones.get(memory.id)
        if stone is not None and stone.namespace != memory.namespace:
            raise ConflictError(f"the id {memory.id} can't be used here", field="id")
        self._kept[memory.id] = self._indexed(memory, entry.passages, entry.vectors, model)
        self._tombstones.pop(memory.id, None)
        self._note("stored", memory, memory.updated_at)
        return memory.id, True

    def _indexed(self, memory: Memory, passages: Sequence[Passage], vectors: Vectors, model: Model) -> Kept:
        if vectors.shape != (len(passages), model.dimensions) or not np.isfinite(vectors).all():
            raise EmbeddingError(f"{len(passages)} passages need as many finite vectors, not {vectors.shape}")
        words = tuple(self._words(memory.content[passage.start : passage.end]) for passage in passages)
        return Kept(memory, tuple(passages), vectors.astype(np.float32), words)

    def _words(self, text: str) -> frozenset[str]:
        return frozenset((*self._stems(spaced(text)), *pairs(text)))

    def _stems(self, text: str) -> list[str]:
        with self._lock:
            tokens = self._tokenizer(
                text.encode(), apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
            )
        return cast("list[str]", tokens)

    def _twin(self, memory: Memory, *, apart_from: str | None) -> Kept | None:
        if memory.state != "active":
            return None
        for kept in self._kept.values():
            other = kept.memory
            if other.state == "active" and identity(other) == identity(memory) and other.id != apart_from:
                return kept
        return None

    def _save(self, kept: Kept, *, at: datetime, **fields: Any) -> None:
        memory = replace(kept.memory, updated_at=_later(kept.memory, at), **fields)
        self._kept[memory.id] = replace(kept, memory=memory)
        self._note("updated", memory, memory.updated_at)

    def _note(self, kind: EventKind, memory: Memory, at: datetime) -> None:
        self._events.append(Event(len(self._events) + 1, kind, memory.id, memory.namespace, at))

    def _adopt(self, model: Model) -> None:
        self._require_model(model)
        self._model = model

    def _require_model(self, model: Model | None) -> None:
        if self._kept and None not in (model, self._model) and model != self._model:
            raise ModelMismatchError(f"the store holds vectors of {self._model}, not of {model}; run: retain reembed")

    def _require_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError("the store in memory has been closed")

    async def get(self, ids: Sequence[str], /) -> list[Memory]:
        """See `MemoryStore.get`."""
        self._require_open()
        return [self._kept[id_].memory for id_ in ids if id_ in self._kept]

    async def update(self, memory_id: str, change: Change, /, *, model: Model | None = None) -> Memory | None:
        """See `MemoryStore.update`."""
        with self._lock:
            self._require_open()
            old = self._kept.get(memory_id)
            if old is None:
                return None
            require_storable_change(change)
            if change.if_updated_at is not None:
                require_unchanged(change.if_updated_at, old.memory.updated_at)
            fields = dict(change.fields)
            for name in ("occurred_at", "archived_at"):
                if isinstance(moment := fields.get(name), datetime):
                    fields[name] = to_the_ms(moment)
            if change.content is not None:
                fields |= {"content": change.content, "content_hash": change.content_hash, "turns": ()}
                fields["searchable"] = None if old.memory.searchable else old.memory.searchable
            at = _later(old.memory, to_the_ms(change.updated_at))
            memory = replace(old.memory, updated_at=at, **cast("dict[str, Any]", fields))
            self._require_no_circle(memory)
            if self._twin(memory, apart_from=memory.id) is not None:
                raise ConflictError(f"the memory {memory.id} would be an exact duplicate of another active memory")
            kept = replace(old, memory=memory)
            if change.content is not None and model is not None and change.vectors is not None:
                self._adopt(model)
                kept = self._indexed(memory, change.passages, change.vectors, model)
            self._kept[memory.id] = kept
            self._note("updated", memory, memory.updated_at)
            return memory

    def _require_no_circle(self, memory: Memory) -> None:
        by = memory.superseded_by
        if by is not None and by != self._kept[memory.id].memory.superseded_by and by not in self._kept:
            raise NotFoundError(f"superseded_by names the memory {by}, which does not exist", field="superseded_by")
        while by is not None:
            if by == memory.id:
                raise ConflictError(f"the memory {by} can't be superseded by itself", field="superseded_by")
            by = self._kept[by].memory.superseded_by if by in self._kept else None

    async def delete(self, where: Filter, /, *, at: datetime, expected: int | None = None) -> list[str]:
        """See `MemoryStore.delete`."""
        with self._lock:
            going = self._matching(where)
            if expected is not None and expected != len(going):
                raise ConflictError(
                    f"{len(going)} memories match, not the expected {expected}; nothing was deleted",
                    field="expected_count",
                )
            self._bury(going, at)
            return [memory.id for memory in going]

    def _bury(self, going: Sequence[Memory], at: datetime) -> None:
        for memory in going:
            del self._kept[memory.id]
            self._tombstones[memory.id] = Tombstone(memory.id, memory.content_hash, memory.namespace, to_the_ms(at))
            self._note("deleted", memory, to_the_ms(at))

    async def ids(self, where: Filter, /) -> list[str]:
        """See `MemoryStore.ids`."""
        return [memory.id for memory in self._matching(where)]

    async def candidates(
        self,
        where: Filter,
        k: int,
        choose: Choose,
        /,
        *,
        vector: Vectors | None = None,
        text: str | None = None,
        model: Model | None = None,
    ) -> list[Chosen]:
        """See `MemoryStore.candidates`."""
        self._require_model(model)
        places = self._places(where)
        cosines = None if vector is None else cosines_to(places, vector)
        shares = None if text is None else self._word_shares(text, where)
        words = None if shares is None else held(places, shares)
        kept = sorted({*_highest(cosines, k), *(n for n in _highest(words, k) if words is not None and words[n] > 0)})
        found = self._columns([places[n] for n in kept], where, vector, shares)
        return [places[kept[n]].chosen(n) for n in cast("list[int]", choose(found).tolist())]

    def _columns(
        self, chosen: Sequence[Place], where: Filter, vector: Vectors | None, shares: Mapping[str, float] | None
    ) -> Candidates:
        alive = self._stored_order(self._places(Filter(namespace=where.namespace, states=where.states)))
        around = Surroundings(alive)
        found = Candidates(
            np.array([self._number(place) for place in chosen], dtype=np.int64),
            np.array([around.number(place) for place in chosen], dtype=np.int64),
            None if vector is None else cosines_to(chosen, vector),
            None if shares is None else held(chosen, shares),
            None if shares is None else np.array([around.held(place, shares) for place in chosen]),
        )
        if vector is None or shares is None:
            return found
        before, after = (around.cosines_beside(chosen, vector, step) for step in (-1, 1))
        return replace(found, before=before, after=after, vectors=vectors_of(chosen))

    def _number(self, place: Place) -> int:
        return list(self._kept).index(place.kept.memory.id)

    def _stored_order(self, places: Sequence[Place]) -> list[Place]:
        numbers = {id_: number for number, id_ in enumerate(self._kept)}
        return sorted(places, key=lambda place: (numbers[place.kept.memory.id], place.number))

    def _places(self, where: Filter) -> list[Place]:
        kept = [self._kept[memory.id] for memory in self._matching(where)]
        return [Place(each, n) for each in kept for n in range(len(each.passages))]

    def _word_shares(self, text: str, where: Filter) -> dict[str, float]:
        asked = terms(text, self._stems(spaced(text)), frozenset(self._stems(" ".join(STOP_WORDS))))
        return word_shares(self._places(Filter(namespace=where.namespace, states=STATES)), asked)

    async def containing(self, text: str, where: Filter, k: int, /) -> list[Memory]:
        """See `MemoryStore.containing`."""
        return [memory for memory in self._matching(where) if text and text in memory.content][:k]

    async def similar(self, vectors: Vectors, where: Filter, k: int, /, *, model: Model) -> list[list[Similar]]:
        """See `MemoryStore.similar`."""
        self._require_model(model)
        return [self._similar(vector, where, k) for vector in vectors]

    def _similar(self, vector: Vectors, where: Filter, k: int) -> list[Similar]:
        places = self._places(where)
        cosines = cosines_to(places, vector).tolist()
        best: dict[str, Similar] = {}
        for cosine, place in sorted(zip(cosines, places, strict=True), key=lambda pair: -pair[0]):
            memory = place.kept.memory
            best.setdefault(memory.id, Similar(memory.id, max(0.0, cosine), place.text))
        return list(best.values())[:k]

    async def tags(self, where: Filter, /, *, minimum_use: int = 1) -> list[TagCount]:
        """See `MemoryStore.tags`."""
        counts = Counter(tag for memory in self._matching(where) for tag in memory.tags)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))
        return [TagCount(tag, count) for tag, count in ranked if count >= minimum_use]

    async def retag(self, sources: Sequence[str], target: str, where: Filter, /, *, at: datetime) -> int:
        """See `MemoryStore.retag`."""
        with self._lock:
            old = set(sources) - {target}
            changed = [memory for memory in self._matching(where) if old & set(memory.tags)]
            for memory in changed:
                renamed = dict.fromkeys(target if tag in old else tag for tag in memory.tags)
                self._save(self._kept[memory.id], at=to_the_ms(at), tags=tuple(renamed))
            return len(changed)

    async def namespaces(self, where: Filter, /) -> list[NamespaceCount]:
        """See `MemoryStore.namespaces`."""
        counts = Counter(memory.namespace for memory in self._matching(where))
        return [NamespaceCount(path, counts[path]) for path in sorted(counts)]

    async def types(self, where: Filter, /) -> list[TypeCount]:
        """See `MemoryStore.types`."""
        used = Counter(memory.type for memory in self._matching(where))
        return counted_types(self._own_types(where.namespace or ROOT), used)

    async def known_types(self, namespace: str, /) -> dict[str, str | None]:
        """See `MemoryStore.known_types`."""
        self._require_open()
        return parents_of(self._own_types(namespace))

    def _own_types(self, namespace: str) -> list[OwnType]:
        own = sorted((where, name, parent) for (name, where), parent in self._types.items())
        return [
            (name, parent, where)
            for where, name, parent in own
            if is_within(where, namespace) or is_within(namespace, where)
        ]

    async def register_type(self, name: str, parent: str | None, /, *, namespace: str = ROOT) -> None:
        """See `MemoryStore.register_type`."""
        self._require_open()
        self._types[name, namespace] = parent or self._types.get((name, namespace))

    async def stats(self, where: Filter, /) -> Stats:
        """See `MemoryStore.stats`."""
        counts: dict[State, int] = {
            state: len(self._matching(replace(where, states=frozenset((state,)))))
            for state in ("active", "superseded", "archived")
        }
        active = self._matching(replace(where, states=ACTIVE))
        return Stats(
            total=counts["active"],
            superseded=counts["superseded"],
            archived=counts["archived"],
            tags=len({tag for memory in active for tag in memory.tags}),
            conversations=len({memory.conversation_id for memory in active} - {None}),
            by_type=tuple(count for count in await self.types(replace(where, states=ACTIVE)) if count.count),
            model=await self.model(),
            bytes=None,
        )

    async def tombstones(self, where: Filter, /) -> list[Tombstone]:
        """See `MemoryStore.tombstones`."""
        self._require_open()
        within = [stone for stone in self._tombstones.values() if is_within(stone.namespace, where.namespace or ROOT)]
        return sorted(within, key=lambda stone: (stone.deleted_at, stone.id))

    async def restore(self, tombstones: Sequence[Tombstone], /) -> int:
        """See `MemoryStore.restore`."""
        self._require_open()
        for stone in tombstones:
            require_buriable(stone)
        new = {stone.id: stone for stone in tombstones if stone.id not in self._kept.keys() | self._tombstones.keys()}
        self._tombstones |= new
        return len(new)

    async def last_event(self) -> int:
        """See `EventLog.last_event`."""
        self._require_open()
        return len(self._events)

    async def events(self, after: int, limit: int, /, *, namespace: str) -> list[Event]:
        """See `EventLog.events`."""
        self._require_open()
        later = [event for event in self._events[after:] if is_within(event.namespace, namespace)][:limit]
        now = {event.memory_id: self._kept.get(event.memory_id) for event in later}
        return [
            event if (kept := now[event.memory_id]) is None
            else replace(event, type=kept.memory.type, tags=kept.memory.tags)
            for event in later
        ]  # fmt: skip

    async def aclose(self) -> None:
        """See `MemoryStore.aclose`."""
        self._closed = True

    def _matching(self, where: Filter) -> list[Memory]:
        with self._lock:
            self._require_open()
            found = [kept.memory for kept in self._kept.values() if matches(kept.memory, where)]
        return sorted(found, key=lambda memory: (memory.created_at, memory.id), reverse=True)

    # Last in the class: below it, `list[...]` in an annotation would mean this method.
    async def list(self, where: Filter, page: Page, /) -> Listing:
        """See `MemoryStore.list`."""
        found = self._matching(where)
        after = None if page.cursor is None else decoded(page.cursor)
        rest = [memory for memory in found if after is None or position(memory) < after]
        shown = tuple(rest[: page.limit])
        more = len(rest) > page.limit
        return Listing(shown, len(found), encoded(position(shown[-1])) if more else None)


def _highest(values: Values | None, count: int) -> list[int]:
    return [] if values is None else np.argsort(-values, kind="stable")[:count].tolist()


def _later(memory: Memory, at: datetime) -> datetime:
    """Return when an update at `at` is said to be: no two of a memory have the same time."""
    return max(at, memory.updated_at + timedelta(milliseconds=1))
