"""MCP over HTTP, byte by byte and through the SDK's client, behind the gate that `retain serve` has."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp.client import Client

from retain.auth.api_keys import ApiKeys
from retain.core.service import MemoryService, utc_now
from retain.settings import Settings
from retain.storage.sqlite import SqliteStore
from retain.transports.access import Access
from retain.transports.exchange import Exchanges
from retain.transports.lazy_mcp import principal_in
from retain.transports.mcp.http import create
from tests.servers import RunningServer

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
IDENTITY = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def initialize(version: str = "2025-11-25", request_id: object = 1) -> dict[str, Any]:
    info = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
    return {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}


def call(tool: str, request_id: object = 1, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@asynccontextmanager
async def served(service: MemoryService, store: SqliteStore) -> AsyncIterator[httpx.AsyncClient]:
    """Serve MCP in this process."""
    mcp = create(service, principal_of=principal_in)
    app = Exchanges(Access(mcp.app, keys=ApiKeys(store, utc_now), settings=Settings()))
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type] - Starlette's types are wider
    async with mcp.run(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=JSON) as client:
        yield client


async def post(client: httpx.AsyncClient, message: object, **headers: str) -> httpx.Response:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.post("/mcp", content=json.dumps(message), headers=names)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with RunningServer(tmp_path_factory.mktemp("mcp") / "memories.db") as running:
        yield running


@pytest.mark.parametrize("mode", ["legacy", "auto", MODERN])
async def test_a_real_server_answers_the_sdk_in_every_mode(server: RunningServer, mode: str) -> None:
    async with Client(f"{server.url}/mcp", mode=mode) as client:
        stored = await client.call_tool("memory_store", {"content": "Deploys run from the main branch"})
        found = await client.call_tool("memory_search", {"query": "which branch is deployed?"})
        assert not stored.is_error and found.structured_content is not None
        assert found.structured_content["memories"][0]["content"] == "Deploys run from the main branch"
        assert client.protocol_version == (MODERN if mode != "legacy" else "2025-11-25")


async def test_calls_at_the_same_time_are_all_answered(server: RunningServer) -> None:
    async with httpx.AsyncClient(base_url=server.url, headers=JSON, timeout=30) as client:
        asked = [post(client, call("memory_search", f"r{n}", query=f"q {n}")) for n in range(10)]
        answers = await asyncio.gather(*asked)
    assert [answer.json()["id"] for answer in answers] == [f"r{n}" for n in range(10)]


async def test_notifications_get_202_and_no_body(service: MemoryService, store: SqliteStore) -> None:
    async with served(service, store) as client:
        for method in ("notifications/initialized", "notifications/cancelled", "notifications/unknown"):
            for headers in ({}, {"MCP_Protocol_Version": "2025-11-25"}, {"MCP_Protocol_Version": MODERN}):
                answer = await post(client, {"jsonrpc": "2.0", "method": method, "params": {}}, **headers)
                assert (answer.status_code, answer.content) == (202, b""), (method, headers)


async def test_a_session_of_an_earlier_server_is_unknown_and_a_new_start_works(
    service: MemoryService, store: SqliteStore
) -> None:
    async with served(service, store) as client:
        old = await post(client, call("memory_stats"), Mcp_Session_Id="0123456789abcdef")
        assert old.status_code == 404 and old.json()["error"]["message"].startswith("Session not found")
        started = await post(client, initialize())
        assert started.status_code == 200 and "mcp-session-id" not in started.headers
        assert (await post(client, call("memory_stats"))).json()["result"]["structuredContent"]["total"] == 0


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_handshake_revisions_are_negotiated(service: MemoryService, store: SqliteStore, version: str) -> None:
    async with served(service, store) as client:
        started = (await post(client, initialize(version))).json()["result"]
        assert started["protocolVersion"] == version
        listed = await post(client, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, MCP_Protocol_Version=version)
        assert len(listed.json()["result"]["tools"]) == 8


async def test_the_revision_without_handshake_is_served(service: MemoryService, store: SqliteStore) -> None:
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": IDENTITY}}
    async with served(service, store) as client:
        listed = await post(client, message, MCP_Protocol_Version=MODERN, Mcp_Method="tools/list")
        assert listed.status_code == 200 and len(listed.json()["result"]["tools"]) == 8


@pytest.mark.parametrize("version", ["1900-01-01", "x"])
async def test_an_unknown_revision_is_refused(service: MemoryService, store: SqliteStore, version: str) -> None:
    async with served(service, store) as client:
        for message in (call("memory_stats"), {"jsonrpc": "2.0", "method": "notifications/initialized"}):
            answer = await post(client, message, MCP_Protocol_Version=version)
            assert answer.status_code == 400 and "error" in answer.json()


@pytest.mark.parametrize("request_id", [1, "a", 0, 10**15, "", "ü"])
async def test_ids_come_back_as_they_were(service: MemoryService, store: SqliteStore, request_id: object) -> None:
    async with served(service, store) as client:
        for message in (call("memory_stats", request_id), call("memory_get", request_id, id="x")):
            answer = (await post(client, message)).json()
            assert answer["id"] == request_id and type(answer["id"]) is type(request_id)
            assert "result" in answer and "error" not in answer
        failed = (await post(client, {"jsonrpc": "2.0", "id": request_id, "method": "no/such"})).json()
        assert failed["id"] == request_id and "error" in failed and "result" not in failed


async def test_what_is_no_message_is_refused_with_id_null(service: MemoryService, store: SqliteStore) -> None:
    async with served(service, store) as client:
        for version in ("2025-11-25", MODERN):
            headers = {"MCP-Protocol-Version": version}
            answer = await client.post("/mcp", content=b"{nonsense", headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)
            assert answer.json().get("id", None) is None
            batch = await client.post("/mcp", content=json.dumps([call("memory_stats")]), headers=headers)
            assert batch.status_code == 400 and "error" in batch.json()


async def test_methods_other_than_post_are_not_served(service: MemoryService, store: SqliteStore) -> None:
    async with served(service, store) as client:
        for method in ("GET", "DELETE", "PUT"):
            answer = await client.request(method, "/mcp")
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_pages_of_other_sites_and_other_hosts_are_refused(service: MemoryService, store: SqliteStore) -> None:
    async with served(service, store) as client:
        evil = await post(client, call("memory_stats"), Origin="https://evil.test")
        assert evil.status_code == 403 and "access-control-allow-origin" not in evil.headers
        assert 400 <= (await post(client, call("memory_stats"), Host="evil.test")).status_code < 500


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
async def test_each_request_acts_for_its_own_key(service: MemoryService, store: SqliteStore, version: str) -> None:
    keys = ApiKeys(store, utc_now)
    team = await keys.create("team", namespace="/team", can_write=True)
    reader = await keys.create("reader", namespace="/other")

    async def ask(client: httpx.AsyncClient, key: str | None, tool: str, **arguments: Any) -> Any:
        message = call(tool, **arguments)
        message["params"]["_meta"] = IDENTITY if version == MODERN else {}
        headers = {"MCP_Protocol_Version": version, "Mcp_Method": "tools/call", "Mcp_Name": tool}
        bearer = {} if key is None else {"Authorization": f"Bearer {key}"}
        return await post(client, message, **headers, **bearer)

    async with served(service, store) as client:
        stored = (await ask(client, team, "memory_store", content="Team secret")).json()["result"]
        memory = stored["structuredContent"]["memory"]
        assert memory["namespace"] == "/team"
        hidden = (await ask(client, reader, "memory_get", id=memory["id"])).json()["result"]
        assert hidden["isError"] and hidden["content"][0]["text"].startswith("not_found")
        refused = (await ask(client, reader, "memory_store", content="No")).json()["result"]
        assert refused["isError"] and refused["content"][0]["text"].startswith("permission_denied")
        listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": IDENTITY}}
        for key, count in ((team, 8), (reader, 4)):
            headers = {"MCP_Protocol_Version": version, "Mcp_Method": "tools/list", "Authorization": f"Bearer {key}"}
            assert len((await post(client, listed, **headers)).json()["result"]["tools"]) == count
        assert (await ask(client, None, "memory_stats")).status_code == 401
        assert (await ask(client, "rtn_wrong", "memory_stats")).status_code == 401


async def test_the_agent_of_the_header_is_the_agent_of_the_memory(service: MemoryService, store: SqliteStore) -> None:
    keys = ApiKeys(store, utc_now)
    key = await keys.create("r1", can_write=True, agent_id="r1")
    async with served(service, store) as client:
        bearer = {"Authorization": f"Bearer {key}"}
        own = await post(client, call("memory_store", content="Mine"), **bearer, X_Agent_ID="r1")
        assert own.json()["result"]["structuredContent"]["memory"]["tags"] == ["agent:r1"]
        assert (await post(client, call("memory_store", content="Not"), **bearer, X_Agent_ID="r2")).status_code == 403
        claimed = (await post(client, call("memory_store", content="Not", agent_id="r2"), **bearer)).json()["result"]
        assert claimed["content"][0]["text"].startswith("permission_denied")
        listing = (await post(client, call("memory_list"), **bearer)).json()["result"]["structuredContent"]
        assert listing["total"] == 1
