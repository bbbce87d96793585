"""The synchronous twin of `MemoryAPI`: the same methods, run on an event loop in a thread of its own."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from retain.core.api import GroupBy, MemoryAPI, Record
from retain.domain.errors import StoreUnavailableError
from retain.domain.memory import (
    EVERYTHING,
    Deleted,
    Event,
    Filter,
    Imported,
    Listing,
    Memory,
    MemoryFields,
    MemoryPatch,
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

T = TypeVar("T")
_CLOSED = "this memory is closed; open it again"


class SyncMemory:
    """See `MemoryAPI`; each method blocks until its answer is there. Safe to use from several threads."""

    def __init__(self, open_memory: Callable[[], Awaitable[MemoryAPI]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="retain-sync", daemon=True)
        self._thread.start()
        self._closed = False
        self._closing = threading.Lock()
        self._process = os.getpid()
        try:
            self._memory = self._run(_await(open_memory()))
        except BaseException:
            self._stop()
            raise

    def store(
        self,
        memory: str | NewMemory,
        /,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Stored:
        """See `MemoryAPI.store`."""
        return self._run(self._memory.store(memory, idempotency_key=idempotency_key, **fields))

    def store_many(
        self,
        memories: Iterable[str | NewMemory],
        /,
        *,
        delete: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Sequence[Stored]:
        """See `MemoryAPI.store_many`."""
        return self._run(self._memory.store_many(memories, delete=delete, idempotency_key=idempotency_key))

    def store_session(
        self,
        turns: Sequence[Turn],
        /,
        *,
        mode: SessionMode = "turn",
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> StoredSession:
        """See `MemoryAPI.store_session`."""
        return self._run(self._memory.store_session(turns, mode=mode, idempotency_key=idempotency_key, **fields))

    def recall(
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
        return self._run(
            self._memory.recall(
                query,
                k=k,
                mode=mode,
                where=where,
                group_by=group_by,
                min_score=min_score,
                time_from_query=time_from_query,
            )
        )

    def get(self, memory_id: str, /) -> Memory:
        """See `MemoryAPI.get`."""
        return self._run(self._memory.get(memory_id))

    def list(self, where: Filter = Filter(), page: Page = Page(), /) -> Listing:  # noqa: B008 - immutable
        """See `MemoryAPI.list`."""
        return self._run(self._memory.list(where, page))

    def update(self, memory_id: str, patch: MemoryPatch, /) -> Memory:
        """See `MemoryAPI.update`."""
        return self._run(self._memory.update(memory_id, patch))

    def delete(self, memory_id: str, /) -> None:
        """See `MemoryAPI.delete`."""
        self._run(self._memory.delete(memory_id))

    def delete_many(self, where: Filter, /, *, dry_run: bool = False, expected_count: int | None = None) -> Deleted:
        """See `MemoryAPI.delete_many`."""
        return self._run(self._memory.delete_many(where, dry_run=dry_run, expected_count=expected_count))

    def tags(self, where: Filter = Filter(), /, *, minimum_use: int = 1) -> Sequence[TagCount]:  # noqa: B008
        """See `MemoryAPI.tags`."""
        return self._run(self._memory.tags(where, minimum_use=minimum_use))

    def merge_tags(self, sources: Sequence[str], target: str, /) -> int:
        """See `MemoryAPI.merge_tags`."""
        return self._run(self._memory.merge_tags(sources, target))

    def namespaces(self, where: Filter = Filter(), /) -> Sequence[NamespaceCount]:  # noqa: B008 - immutable
        """See `MemoryAPI.namespaces`."""
        return self._run(self._memory.namespaces(where))

    def types(self) -> Sequence[TypeCount]:
        """See `MemoryAPI.types`."""
        return self._run(self._memory.types())

    def register_type(self, name: str, /, *, parent: str | None = None) -> None:
        """See `MemoryAPI.register_type`."""
        self._run(self._memory.register_type(name, parent=parent))

    def stats(self) -> Stats:
        """See `MemoryAPI.stats`."""
        return self._run(self._memory.stats())

    def export(self, where: Filter = EVERYTHING, /) -> Iterator[Record]:
        """See `MemoryAPI.export`."""
        return self._iterate(self._memory.export(where))

    def import_records(self, records: Iterable[Record], /) -> Imported:
        """See `MemoryAPI.import_records`."""
        return self._run(self._memory.import_records(_asynchronous(records)))

    def events(self, *, after: int | None = None) -> Iterator[Event]:
        """See `MemoryAPI.events`."""
        return self._iterate(self._memory.events(after=after))

    def close(self) -> None:
        """Close the memory and end the thread. Idempotent; calls under way in other threads may be refused."""
        if self._process != os.getpid():
            return  # it is the other process's to close
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            self._begin(self._memory.aclose()).result()
        finally:
            self._stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._process != os.getpid():
            work.close()
            raise StoreUnavailableError("this memory was opened in another process; open it anew after a fork")
        with self._closing:
            if self._closed:
                work.close()
                raise StoreUnavailableError(_CLOSED)
            future = self._begin(work)
        try:
            return future.result()
        except CancelledError:
            raise StoreUnavailableError(_CLOSED) from None
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: the work must not go on unseen
            raise

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        try:
            while True:
                try:
                    item = self._run(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            with suppress(StoreUnavailableError):  # closed meanwhile: nothing is left to end
                self._run(_end(items))

    def _stop(self) -> None:
        self._closed = True
        self._begin(_cancel_the_rest()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _cancel_the_rest() -> None:
    """End what still runs on this loop: without it, whoever waits for that would wait forever."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def _await(value: Awaitable[T]) -> T:
    return await value


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _end(items: AsyncIterator[object]) -> None:
    if isinstance(items, AsyncGenerator):
        await items.aclose()


async def _asynchronous(records: Iterable[Record]) -> AsyncIterator[Record]:
    for record in records:
        yield record
