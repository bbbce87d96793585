"""The four ways in as one parametrised fixture."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from retain.core.service import MemoryService, utc_now
from retain.embeddings.onnx import OnnxEmbedder
from retain.storage.sqlite import open_sqlite
from tests.parity.cli_door import CliDoor
from tests.parity.doors import Door
from tests.parity.http_door import RestDoor
from tests.parity.mcp_door import McpDoor
from tests.parity.python_door import PythonDoor
from tests.servers import RunningServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One real service for all tests; each leaves it empty."""
    with RunningServer(tmp_path_factory.mktemp("parity") / "memories.db") as running:
        yield running


async def empty(client: httpx.AsyncClient) -> None:
    """Delete everything that a service holds."""
    body: dict[str, object] = {"states": ["active", "superseded", "archived"]}
    tried = await client.post("/api/memories/delete", json={**body, "dry_run": True})
    body["expected_count"] = tried.json()["count"]
    (await client.post("/api/memories/delete", json=body)).raise_for_status()


@pytest.fixture(params=["python", "rest", "mcp", "cli"])
async def door(
    request: pytest.FixtureRequest, tmp_path: Path, model: OnnxEmbedder, server: RunningServer
) -> AsyncIterator[Door]:
    """One way in, on a database of its own."""
    async with contextlib.AsyncExitStack() as stack:
        database = tmp_path / "memories.db"
        if request.param == "cli":
            yield CliDoor(database)
            return
        if request.param == "python":
            store = await open_sqlite(database, clock=utc_now)
            stack.push_async_callback(store.aclose)
            yield PythonDoor(MemoryService(store, model))
            return
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=30))
        stack.push_async_callback(empty, client)
        if request.param == "rest":
            yield RestDoor(client)
            return
        yield McpDoor(f"{server.url}/mcp")
