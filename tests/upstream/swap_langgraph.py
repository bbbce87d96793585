"""A pytest plugin: langgraph's own store suites, unchanged, against `RetainStore`.

The suites make their stores by upstream's class names and connection strings; this is where those names lead to ours.
"""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import langgraph.store.memory
import langgraph.store.sqlite
import langgraph.store.sqlite.aio

from retain_integrations.langgraph import RetainStore


def _new_database() -> str:
    return str(Path(tempfile.mkdtemp(prefix="retain-upstream-")) / "store.db")


def _path(conn_string: str) -> str:
    """Return a path of our own for one of upstream's: the suites make empty files that they remove themselves."""
    return _new_database() if conn_string == ":memory:" else conn_string + ".retain"


_used: set[str] = set()


class SwappedIn(RetainStore):
    """`RetainStore` that tells when it answers a batch."""

    def batch(self, ops: Any) -> Any:
        """See `RetainStore.batch`."""
        _used.add(type(self).__name__)
        return super().batch(ops)


class InMemoryStore(SwappedIn):
    """Made without a place, as upstream's, and closed when it goes."""

    def __init__(self, *, index: Any = None) -> None:
        super().__init__(_new_database(), index=index)

    def __del__(self) -> None:
        self.close()


def _index(index: Any) -> Any:
    if index is not None and index.get("text_fields"):
        return {**index, "fields": index["text_fields"]}
    return index


class SqliteStore(SwappedIn):
    """Made from a connection string, and set up."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, conn_string: str, *, index: Any = None, ttl: Any = None) -> Iterator["SqliteStore"]:
        with cls(_path(conn_string), index=_index(index), ttl=ttl) as store:
            yield store

    def setup(self) -> None:
        """Nothing has to be set up."""


class AsyncSqliteStore(SwappedIn):
    """The same, for async code."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, index: Any = None, ttl: Any = None
    ) -> AsyncIterator["AsyncSqliteStore"]:
        async with cls(_path(conn_string), index=_index(index), ttl=ttl) as store:
            yield store

    async def setup(self) -> None:
        """Nothing has to be set up."""

    async def sweep_ttl(self) -> int:  # type: ignore[override]
        """Remove what has expired."""
        return super().sweep_ttl()

    async def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Any:  # type: ignore[override]
        """Begin to remove what expires."""
        return super().start_ttl_sweeper(sweep_interval_minutes)

    async def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # type: ignore[override] # noqa: ASYNC109
        """Stop that."""
        return super().stop_ttl_sweeper(timeout)

    def close(self) -> None:
        """Close; `RetainStore` would call the coroutine above."""
        RetainStore.stop_ttl_sweeper(self)
        self._lazy.close()


langgraph.store.memory.InMemoryStore = InMemoryStore  # type: ignore[misc]
langgraph.store.sqlite.SqliteStore = SqliteStore  # type: ignore[misc,assignment]
langgraph.store.sqlite.aio.AsyncSqliteStore = AsyncSqliteStore  # type: ignore[misc,assignment]
langgraph.store.sqlite.AsyncSqliteStore = AsyncSqliteStore  # type: ignore[attr-defined]


def pytest_sessionfinish() -> None:
    """The tests would not have been about us if none of these had answered."""
    assert _used
