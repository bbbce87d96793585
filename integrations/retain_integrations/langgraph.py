"""LangGraph's long-term memory on Retain.

store = RetainStore("sqlite:///agents.db")            # or RetainStore(base_url=..., api_key=...)
graph = builder.compile(store=store)
"""

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Self

import retain
from retain_integrations._sync import LazyMemory

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchOp,
        TTLConfig,
    )

    from retain_integrations import _langgraph_form as form
    from retain_integrations._langgraph_checks import require_legal, require_minutes
    from retain_integrations._langgraph_embedder import GivenEmbedder
    from retain_integrations._langgraph_mark import MARK, new_mark, refreshed
    from retain_integrations._langgraph_nodes import recall_node, remember_node
    from retain_integrations._langgraph_reader import Mode, Reader, Scored, is_id
    from retain_integrations._langgraph_sweeper import Sweeper
except ImportError as error:
    raise ImportError(
        'retain_integrations.langgraph needs langgraph>=1.0.6; install it with: pip install "retain[langgraph]"'
    ) from error

__all__ = ["RetainStore", "recall_node", "remember_node"]

_TRIES: Final = 5
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
        mode: Mode | None = None,
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
            ttl: How long items live, in minutes. A read begins the time anew when it has `refresh_ttl=True`, or by
                `refresh_on_read`, which counts as False where it is not given.
            mode: How a query is answered. None: "hybrid" by Retain's model; by a given `embed` "semantic", where the
                score is the cosine.
            **settings: Any setting of Retain by name.

        Raises:
            InvalidInputError: `url` and `base_url`, or `base_url` and `embed` are given together.
        """
        given = None if index is None or "embed" not in index else GivenEmbedder(index)
        self.index_config = index
        self.embeddings = None if given is None else given.embeddings
        self.ttl_config = {"refresh_on_read": False, **(ttl or {})}  # as the tests of upstream's SQLite store want it
        self._fields = None if index is None else index.get("fields")
        self._root = "/" + namespace.strip("/")
        self._lazy = LazyMemory(
            url, base_url=base_url, api_key=api_key, embedder=None if given is None else lambda: given, **settings
        )
        self._reader = Reader(
            self._lazy,
            self._root,
            mode=mode or ("hybrid" if given is None else "semantic"),
            given=given,
            omits_expired=self.ttl_config.get("omit_expired", False),
        )
        self._sweeper: Sweeper | None = None

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Answer all operations in order. Reads see the state before; then all that is written is written as one.

        Raises:
            InvalidNamespaceError: a label can't be; nothing was written.
            InvalidInputError: something else of an operation can't be, `field` names it; nothing was written.
            ConflictError: others kept changing the tags of an item that is put; nothing was written.
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
                memory = self._reader.get(op)
                found: Sequence[Scored] = [] if memory is None else [(memory, None)]
                answer: Result = None if memory is None else form.item_of(self._root, memory)
            case SearchOp():
                found = self._reader.search(op)
                answer = [form.search_item_of(self._root, memory, score) for memory, score in found]
            case ListNamespacesOp():
                return self._reader.namespaces(op)
            case PutOp():
                return None
        if op.refresh_ttl:
            used.update((memory.id, memory) for memory, _ in found)
        return answer

    def _write(self, puts: Sequence[PutOp]) -> None:
        last = {retain.id_of(form.path_of(self._root, op.namespace), op.key): op for op in puts}
        for tries_left in reversed(range(_TRIES if last else 0)):
            try:
                self._write_once(last)
                return
            except retain.ConflictError:  # a memory whose tags are to stay was given others just now
                if not tries_left:
                    raise

    def _write_once(self, last: Mapping[str, PutOp]) -> None:
        stored = self._stored(last)
        new: list[retain.NewMemory] = []
        gone: list[str] = []
        for id_, op in last.items():
            keyed, foreign = stored.get(id_), stored.get(op.key)
            if foreign is not None and (foreign.key or foreign.namespace != form.path_of(self._root, op.namespace)):
                foreign = None
            if foreign is not None:
                gone.append(foreign.id)
            if op.value is None:
                gone.append(id_)
            else:
                new.append(self._memory(op, op.value, keyed, foreign))
        self._lazy.memory.store_many(new, delete=gone)

    def _stored(self, last: Mapping[str, PutOp]) -> Mapping[str, retain.Memory]:
        """Return by id what is stored where something is put, and what the keys name that came in by another way."""
        ids = [id_ for id_, op in last.items() if op.value is not None]
        ids += [op.key for op in last.values() if is_id(op.key)]
        stored: dict[str, retain.Memory] = {}
        for start in range(0, len(ids), _IDS_AT_ONCE):
            where = replace(retain.EVERYTHING, ids=tuple(ids[start : start + _IDS_AT_ONCE]))
            listing = self._lazy.memory.list(where, retain.Page(limit=_IDS_AT_ONCE))
            stored |= {memory.id: memory for memory in listing.memories}
        return stored

    def _memory(
        self, op: PutOp, value: Mapping[str, Any], keyed: retain.Memory | None, foreign: retain.Memory | None
    ) -> retain.NewMemory:
        """Return what is put; tags that others gave to what it replaces stay."""
        kept = form.plain(value)
        text, parts = form.text_and_parts(kept, op.index, self._fields)
        old = [one for one in (keyed, foreign) if one is not None]
        return retain.NewMemory(
            content=text,
            namespace=form.path_of(self._root, op.namespace),
            key=op.key,
            tags=[tag for one in old for tag in one.tags if tag != f"agent:{one.agent_id}"],
            metadata={MARK: new_mark(kept, text, op.ttl)},
            searchable=parts,
            if_updated_at=keyed.updated_at if keyed is not None and keyed.tags else None,
        )

    def _refresh(self, used: Iterable[retain.Memory]) -> None:
        """Put off the end of what was read."""
        for memory in used:
            metadata = refreshed(memory)
            if metadata is not None:
                # removed or put anew meanwhile, or not ours to write
                with suppress(retain.NotFoundError, retain.ConflictError, retain.PermissionDeniedError):
                    patch = retain.MemoryPatch(metadata=metadata, if_updated_at=memory.updated_at)
                    self._lazy.memory.update(memory.id, patch)

    def sweep_ttl(self) -> int:
        """Remove what has expired; return how many items that were."""
        return self._sweep()

    def _sweep(self) -> int:
        where = retain.Filter(namespace=self._root, metadata={f"{MARK}.expires_at": {"$lte": time.time()}})
        return self._lazy.memory.delete_many(where).count

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Remove what has expired now and then, in a thread of its own. The future ends when the sweeper does."""
        if self._sweeper is None or self._sweeper.done.done():
            minutes = sweep_interval_minutes or (self.ttl_config or {}).get("sweep_interval_minutes") or 5
            require_minutes(minutes, "sweep_interval_minutes")
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
