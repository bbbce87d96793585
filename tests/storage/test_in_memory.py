"""The store in memory fulfils the contract."""

from collections.abc import AsyncIterator

import pytest

from retain.storage.in_memory import InMemoryStore
from tests.conformance.making import START
from tests.conformance.store_contract import StoreContract


class TestInMemoryStore(StoreContract):
    @pytest.fixture
    async def store(self) -> AsyncIterator[InMemoryStore]:
        yield InMemoryStore(clock=lambda: START)
