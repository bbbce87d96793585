"""Rows that an older version or another program left in the database: one of them spoils no page."""

import json
from collections.abc import AsyncIterator

import apsw
import pytest
from mcp.client import Client

from retain.core.service import MemoryService
from retain.storage.sqlite import SqliteStore
from tests.mcp_clients import connected
from tests.transports.test_mcp_tools import answer, client_of

DEEP = '{"a":' * 900 + "1" + "}" * 900


@pytest.fixture(params=["legacy", "auto"])
async def client(request: pytest.FixtureRequest, service: MemoryService) -> AsyncIterator[Client]:
    async with connected(client_of(service, request.param)) as opened:
        yield opened


def spoil(store: SqliteStore, memory_id: str, metadata: str) -> None:
    """Write metadata that the core would refuse."""
    beside = apsw.Connection(str(store.path))
    beside.execute("UPDATE memory SET metadata = ? WHERE id = ?", (metadata, memory_id))
    beside.close()


@pytest.mark.parametrize("metadata", [DEEP, '{"n": NaN}', '{"n": -Infinity}', '{"half": "\\ud800"}'], ids=range(4))
async def test_one_odd_row_spoils_neither_page_nor_search(
    metadata: str, client: Client, service: MemoryService, store: SqliteStore
) -> None:
    odd = (await service.store("The odd one of the deploy notes", metadata={"a": 1})).memory.id
    await service.store("The plain one of the deploy notes", metadata={"pr": 12})
    spoil(store, odd, metadata)
    for tool, arguments in (("memory_list", {}), ("memory_search", {"query": "deploy notes"})):
        _, structured = await answer(client, tool, **arguments)
        found = {memory["content"][4:9]: memory["metadata"] for memory in structured["memories"]}
        assert found["plain"] == {"pr": 12}
        assert json.dumps(found["odd o"])
    _, structured = await answer(client, "memory_get", id=odd)
    assert structured["id"] == odd
    resource = await client.read_resource(f"memory://memories/{odd}")
    assert json.loads(resource.contents[0].text)["id"] == odd  # type: ignore[union-attr]


async def test_metadata_as_deep_as_may_be_stored_is_shown_whole(client: Client, service: MemoryService) -> None:
    value: object = "core"
    for _ in range(29):
        value = [value]
    stored = (await service.store("Deep and allowed", metadata={"a": value})).memory
    _, structured = await answer(client, "memory_get", id=stored.id)
    assert structured["metadata"] == {"a": value}
