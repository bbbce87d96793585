"""The SQLite store fulfils the contract, and leaves a database in which everything agrees."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conformance.making import START
from tests.conformance.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[SqliteStore]:
        store = await open_sqlite(tmp_path / "retain.db", clock=lambda: START)
        yield store
        await store.aclose()
        again = await open_sqlite(tmp_path / "retain.db", clock=lambda: START)
        problems = await again.check()
        await again.aclose()
        assert problems == []
