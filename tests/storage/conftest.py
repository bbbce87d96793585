"""Fixtures of the SQLite tests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.making import START

Open = Callable[[], Awaitable[SqliteStore]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the database of this test is."""
    return tmp_path / "retain.db"


@pytest.fixture
async def open_store(path: Path) -> AsyncIterator[Open]:
    """Opens the database once more each time, as another process would; all are closed in the end."""
    opened: list[SqliteStore] = []

    async def open_another() -> SqliteStore:
        opened.append(await open_sqlite(path, clock=lambda: START))
        return opened[-1]

    yield open_another
    for store in opened:
        await store.aclose()


@pytest.fixture
async def store(open_store: Open) -> SqliteStore:
    """An empty database."""
    return await open_store()
