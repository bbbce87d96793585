"""LangGraph's long-term memory on Retain.

store = RetainStore("sqlite:///agents.db")            # or RetainStore(base_url=..., api_key=...)
graph = builder.compile(store=store)
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from operator import itemgetter
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import retain
from retain_integrations._question import question_of
from retain_integrations._sync import LazyMemory

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )

    from retain_integrations import _langgraph_form as form
    from retain_integrations._langgraph_checks import require_legal
    from retain_integrations._langgraph_embedder import GivenEmbedder
    from retain_integrations._langgraph_nodes import recall_node, remember_node
    from retain_integrations._langgraph_ttl import Sweeper, expires_at, refreshed
except ImportError as error:
    raise ImportError(
        'retain_integrations.langgraph needs langgraph>=1.0.6; install it with: pip install "retain[langgraph]"'
    ) from error

__all__ = ["RetainStore", "recall_node", "remember_node"]

_Mode: TypeAlias = Literal["hybrid", "semantic", "keyword"]
_Scored: TypeAlias = tuple[retain.Memory, float | None]
_Reader: TypeAlias = Callable[[int], Sequence[_Scored]]
"""Gives the first so many of what is asked for."""
_IDS_AT_ONCE: Final = 200
"""A service is asked by address, and servers bound how long that may be."""


class RetainStore(BaseStore):
    """A `BaseStore` whose items are memories of Retain. Safe to use from threads, event loops and several processes.

    An item lies in Retain's namespace of its labels, under its key; other ways in see it, and memories that came in by
    another way are seen here as `{"content": ...}` with their id for a key.
    """

    supports_ttl = True

    def __init__(
        self,
        url: str | None = None,
        /,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        namespace: str = "/",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        mode: _Mode | None = None,
        **settings: Any,
    ) -> None:
        """Nothing is opened or loaded before the first use.

        Args:
            url: `sqlite:///PATH` or a plain path; None takes the setting.
            base_url: Where a service listens, instead of `url`.
            api_key: A key of that service.
            namespace: The path in Retain below which everything lies.
            index: Another embedding model than Retain's, for a database in this process, and which fields are searched
                (without `fields`: all). It is not needed for search.
            ttl: How long items live, in minutes. A read prolongs it only with `refresh_on_read`.
            mode: How a query is answered. None: "hybrid" by Retain's model; by a given `embed` "semantic", where the
                score is the cosine.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: `url` and `base_url`, or `base_url` and `embed` are given together.
        """
        given = None if index is None or "embed" not in index else GivenEmbedder(index)
        self.index_config = index
        self.embeddings = None if given is None else given.embeddings
        self.ttl_config = ttl
        self._given = given
        self._fields = None if index is None else index.get("fields")
        self._mode: _Mode = mode or ("hybrid" if given is None else "semantic")
        self._root = "/" + namespace.strip("/")
        self._lazy = LazyMemory(
            url, base_url=base_url, api_key=api_key, embedder=None if given is None else lambda: given, **settings
        )
        self._sweeper: Sweeper | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all operations in order. Reads see the state before; then all that is written is written as one.

        Raises:
            InvalidNamespaceError: a label can't be; nothing was written.
            InvalidInputError: a value, key or filter can't be; nothing was written.
        """
        asked = list(ops)
        for op in asked:
            require_legal(op)
        used: dict[str, retain.Memory] = {}
        results = [self._answer(op, used) for op in asked]
        self._write([op for op in asked if isinstance(op, PutOp)])
        self._refresh(used.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `batch`; the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _answer(self, op: Op, used: dict[str, retain.Memory]) -> Result:
        match op:
            case GetOp():
                return self._get(op, used)
            case SearchOp():
                return self._search(op, used)
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None

    def _get(self, op: GetOp, used: dict[str, retain.Memory]) -> Item | None:
        memory = self._find(op)
        if memory is None or self._is_omitted(memory):
            return None
        if op.refresh_ttl:
            used[memory.id] = memory
        return form.item_of(self._root, memory)

    def _find(self, op: GetOp) -> retain.Memory | None:
        path = form.path_of(self._root, op.namespace)
        ids = {retain.id_of(path, op.key), op.key} if _is_id(op.key) else {retain.id_of(path, op.key)}
        found = self._lazy.memory.list(retain.Filter(ids=tuple(ids)), retain.Page(limit=2)).memories
        return next((one for one in found if one.namespace == path and (one.key or one.id) == op.key), None)

    def _search(self, op: SearchOp, used: dict[str, retain.Memory]) -> list[SearchItem]:
        if op.limit <= 0:
            return []
        where = retain.Filter(
            namespace=form.path_of(self._root, op.namespace_prefix), metadata=form.conditions(op.filter)
        )
        question = question_of(op.query or "")
        read = self._recalled(question, where) if question else self._listed(where)
        found = _without(self._is_omitted, read, op.offset + op.limit)[op.offset :]
        if op.refresh_ttl:
            used.update((memory.id, memory) for memory, _ in found)
        return [form.search_item_of(self._root, memory, score) for memory, score in found]

    def _recalled(self, query: str, where: retain.Filter) -> _Reader:
        """Return what reads hits, best first, and after them, without a score, what no query finds."""
        listed = self._listed(where)

        def read(count: int) -> list[_Scored]:
            hits = self._lazy.memory.recall(query, k=min(count, 1_000), mode=self._mode, where=where).hits
            found: list[_Scored] = list(self._scored(query, hits))
            if len(found) < count:
                known = {memory.id for memory, _ in found}
                found += [one for one in listed(count + len(known)) if one[0].id not in known]
            return found[:count]

        return read

    def _scored(self, query: str, hits: Sequence[retain.Hit]) -> Sequence[_Scored]:
        """Return hits with the score that LangGraph's users expect of the mode: in "semantic", the cosine."""
        if self._mode != "semantic":
            return [(hit.memory, hit.score) for hit in hits]
        scored = [(hit.memory, hit.signals["semantic"]) for hit in hits]
        clipped = [memory for memory, score in scored if score <= 0]
        if self._given is None or not clipped:
            return scored
        cosines = self._given.cosines(query, map(form.parts_of, clipped))
        return [
            *((memory, score) for memory, score in scored if score > 0),
            *sorted(zip(clipped, cosines, strict=True), key=itemgetter(1), reverse=True),
        ]

    def _listed(self, where: retain.Filter) -> _Reader:
        def read(count: int) -> list[_Scored]:
            found: list[_Scored] = []
            cursor: str | None = None
            while len(found) < count:
                page = retain.Page(limit=min(count - len(found), 1_000), cursor=cursor)
                listing = self._lazy.memory.list(where, page)
                found += [(memory, None) for memory in listing.memories]
                cursor = listing.next_cursor
                if cursor is None:
                    break
            return found

        return read

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        paths = self._lazy.memory.namespaces(retain.Filter(namespace=self._root))
        conditions = op.match_conditions or ()
        found = [
            labels
            for labels in (form.namespace_of(self._root, count.namespace) for count in paths)
            if labels and all(form.matches(labels, one.match_type, one.path) for one in conditions)
        ]
        return form.shortened_to(found, op.max_depth)[op.offset : op.offset + op.limit]

    def _write(self, puts: Sequence[PutOp]) -> None:
        last = {retain.id_of(form.path_of(self._root, op.namespace), op.key): op for op in puts}
        if not last:
            return
        gone = [id_ for id_, op in last.items() if op.value is None]
        gone += [op.key for op in last.values() if op.value is None and _is_id(op.key) and self._find_foreign(op)]
        tags = self._tags_of([id_ for id_, op in last.items() if op.value is not None])
        new = [self._memory(op, op.value, tags.get(id_, ())) for id_, op in last.items() if op.value is not None]
        self._lazy.memory.store_many(new, delete=gone)

    def _find_foreign(self, op: PutOp) -> bool:
        found = self._find(GetOp(op.namespace, op.key))
        return found is not None and found.key is None

    def _tags_of(self, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the tags that memories to be replaced were given by other ways in, which stay."""
        tags: dict[str, tuple[str, ...]] = {}
        for start in range(0, len(ids), _IDS_AT_ONCE):
            where = retain.Filter(ids=tuple(ids[start : start + _IDS_AT_ONCE]))
            listing = self._lazy.memory.list(where, retain.Page(limit=_IDS_AT_ONCE))
            tags |= {memory.id: memory.tags for memory in listing.memories}
        return tags

    def _memory(self, op: PutOp, value: Mapping[str, Any], tags: Sequence[str]) -> retain.NewMemory:
        kept = form.plain(value)
        text, parts = form.text_and_parts(kept, op.index, self._fields)
        mark: dict[str, Any] = {"value": kept}
        if op.ttl is not None:
            mark |= {"ttl": op.ttl, "expires_at": time.time() + op.ttl * 60}
        if thread_id := _thread_id():
            mark["thread_id"] = thread_id
        return retain.NewMemory(
            content=text,
            namespace=form.path_of(self._root, op.namespace),
            key=op.key,
            tags=tags,
            metadata={form.MARK: mark},
            searchable=parts,
        )

    def _is_omitted(self, memory: retain.Memory) -> bool:
        return bool((self.ttl_config or {}).get("omit_expired")) and expires_at(memory) <= time.time()

    def _refresh(self, used: Iterable[retain.Memory]) -> None:
        """Put off the end of what was read, where the configuration says so, as upstream's stores do."""
        if not (self.ttl_config or {}).get("refresh_on_read"):
            return
        for memory in used:
            metadata = refreshed(memory)
            if metadata is not None:
                with suppress(retain.NotFoundError, retain.ConflictError):  # removed or put anew meanwhile
                    patch = retain.MemoryPatch(metadata=metadata, if_updated_at=memory.updated_at)
                    self._lazy.memory.update(memory.id, patch)

    def sweep_ttl(self) -> int:
        """Remove what has expired; return how many items that were."""
        return self._sweep()

    def _sweep(self) -> int:
        where = retain.Filter(namespace=self._root, metadata={f"{form.MARK}.expires_at": {"$lte": time.time()}})
        return self._lazy.memory.delete_many(where).count

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Remove what has expired now and then, in a thread of its own. The future ends when the sweeper does."""
        if self._sweeper is None or self._sweeper.done.done():
            minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or 5
            self._sweeper = Sweeper(self._sweep, minutes * 60)
            self._sweeper.start()
        return self._sweeper.done

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; return whether it has stopped within `timeout` seconds."""
        sweeper, self._sweeper = self._sweeper, None
        return sweeper is None or sweeper.stop(timeout)

    def close(self) -> None:
        """Close the database or the connection; it opens again when it is used again."""
        self.stop_ttl_sweeper()
        self._lazy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)


def _without(is_omitted: Callable[[retain.Memory], bool], read: _Reader, count: int) -> Sequence[_Scored]:
    """Return the first `count` that are not omitted; more is read only where some are."""
    asked = count
    while True:
        read_now = read(asked)
        kept = [one for one in read_now if not is_omitted(one[0])]
        if len(kept) >= count or len(read_now) < asked or (asked := asked * 2) > 1_000:
            return kept[:count]


def _is_id(key: str) -> bool:
    """Whether a key may be the id of a memory that has no key of its own."""
    try:
        uuid.UUID(key)
    except ValueError:
        return False
    return True


def _thread_id() -> str | None:
    """Return the thread of the graph that runs here, if one does."""
    from langchain_core.runnables.config import var_child_runnable_config

    config = var_child_runnable_config.get()
    thread_id = None if config is None else config.get("configurable", {}).get("thread_id")
    return None if thread_id is None else str(thread_id)
