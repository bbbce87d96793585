"""Who may come in: keys, Host, Origin, agents, sizes."""

import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest

from retain.auth.api_keys import ApiKeys
from retain.core.service import MemoryService
from retain.domain.errors import InvalidInputError, PermissionDeniedError
from retain.settings import Settings
from retain.storage.sqlite import SqliteStore
from retain.transports.access import is_loopback, require_safe_binding
from retain.transports.server import serve
from tests.transports.conftest import Served

Connect = Callable[..., httpx.AsyncClient]
ID = "01a22ee4-9af5-76bb-91da-fb04d6ba91fd"
ROUTES = [
    ("POST", "/api/memories", {"content": "x"}),
    ("POST", "/api/memories/batch", {"memories": [{"content": "x"}]}),
    ("POST", "/api/memories/search", {"query": "x"}),
    ("GET", "/api/memories", None),
    ("GET", f"/api/memories/{ID}", None),
    ("PATCH", f"/api/memories/{ID}", {"tags": ["x"]}),
    ("DELETE", f"/api/memories/{ID}", None),
    ("POST", "/api/memories/delete", {"tags": "a"}),
    ("POST", "/api/sessions", {"turns": [{"role": "user", "content": "x"}]}),
    ("GET", "/api/tags", None),
    ("POST", "/api/tags/rename", {"old": "a", "new": "b"}),
    ("POST", "/api/tags/merge", {"sources": ["a"], "target": "b"}),
    ("GET", "/api/types", None),
    ("POST", "/api/types", {"type": "recipe"}),
    ("GET", "/api/stats", None),
    ("GET", "/api/export", None),
    ("POST", "/api/import", {"kind": "header", "format": "retain", "version": 1}),
    ("GET", "/api/events", None),
    ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
    ("GET", "/mcp", None),
    ("POST", "/mcp/", {}),
    ("GET", "/sse", None),
]
READS = [route for route in ROUTES if route[0] == "GET" or route[1].endswith("/search")]
WRITES = [route for route in ROUTES if route[1].startswith("/api") and route not in READS]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def problem_of(answer: httpx.Response) -> dict[str, object]:
    assert answer.headers["content-type"] == "application/problem+json"
    form = answer.json()
    assert form.keys() == {"type", "title", "status", "detail", "code", "field"}
    assert form["status"] == answer.status_code
    assert "Traceback" not in answer.text
    return form


# -- keys ---------------------------------------------------------------------------------------------------------


async def test_without_any_key_a_program_on_this_machine_needs_none(rest: httpx.AsyncClient) -> None:
    assert (await rest.get("/api/stats")).status_code == 200


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_as_soon_as_a_key_exists_every_route_demands_one(
    method: str, path: str, body: object, rest: httpx.AsyncClient, keys: ApiKeys
) -> None:
    await keys.create("ci", can_write=True)
    answer = await rest.request(method, path, json=body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert problem_of(answer)["code"] == "not_authenticated"


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key", "authorization-lower-scheme"])
async def test_a_key_comes_as_bearer_token_or_as_x_api_key(header: str, rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    key = await keys.create("ci")
    headers = {
        "Authorization": {"Authorization": f"Bearer {key}"},
        "X-API-Key": {"X-API-Key": key},
        "authorization-lower-scheme": {"Authorization": f"bearer {key}"},
    }[header]
    assert (await rest.get("/api/stats", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer wrong"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"X-API-Key": "wrong"},
        {"X-API-Key": ""},
        {"X-API-Key": "\xff\xfe"},
        {"Authorization": "Bearer a", "X-API-Key": "b"},
    ],
)
@pytest.mark.parametrize("path", ["/api/stats", "/api/health", "/mcp"])
async def test_a_wrong_key_is_refused_even_where_none_is_needed(
    headers: dict[str, str], path: str, rest: httpx.AsyncClient
) -> None:
    latin = {name: value.encode("latin-1") for name, value in headers.items()}
    answer = await rest.get(path, headers=latin)  # type: ignore[arg-type]
    assert answer.status_code == 401
    assert problem_of(answer)["code"] == "not_authenticated"


async def test_a_revoked_key_is_worthless_at_the_next_request(rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    key = await keys.create("ci")
    await keys.create("other")
    assert (await rest.get("/api/stats", headers=bearer(key))).status_code == 200
    await keys.revoke("ci")
    assert (await rest.get("/api/stats", headers=bearer(key))).status_code == 401


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
async def test_a_key_that_may_only_read_is_refused_on_every_route_that_writes(
    method: str, path: str, body: object, rest: httpx.AsyncClient, keys: ApiKeys, store: SqliteStore
) -> None:
    key = await keys.create("reader")
    before = await store.last_event()
    answer = await rest.request(method, path, json=body, headers=bearer(key))
    assert answer.status_code == 403
    assert problem_of(answer)["code"] == "permission_denied"
    assert await store.last_event() == before


async def test_what_lies_outside_the_namespace_of_a_key_does_not_exist_for_it(
    rest: httpx.AsyncClient, keys: ApiKeys, service: MemoryService
) -> None:
    secret = await service.store("payroll runs on the 25th", tags=["secret"], namespace="/hr")
    headers = bearer(await keys.create("dev", namespace="/dev", can_write=True))
    one = f"/api/memories/{secret.memory.id}"
    missing = await rest.get(f"/api/memories/{ID}", headers=headers)
    hidden = await rest.get(one, headers=headers)
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.json()["detail"].replace(secret.memory.id, ID) == missing.json()["detail"]
    assert (await rest.patch(one, json={"tags": []}, headers=headers)).status_code == 404
    assert (await rest.delete(one, headers=headers)).status_code == 404
    assert (await rest.post("/api/memories/search", json={"query": "payroll"}, headers=headers)).json()[
        "memories"
    ] == []
    assert (await rest.get("/api/memories", headers=headers)).json()["total"] == 0
    assert (await rest.get("/api/tags", headers=headers)).json()["tags"] == []
    assert (await rest.get("/api/stats", headers=headers)).json()["total"] == 0
    assert "payroll" not in (await rest.get("/api/export", headers=headers)).text
    outside = await rest.get("/api/memories", params={"namespace": "/hr"}, headers=headers)
    assert outside.status_code == 403


# -- where it is bound --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "memory.example.test"])
def test_listening_beyond_this_machine_without_a_key_is_refused_with_the_reason(host: str) -> None:
    with pytest.raises(PermissionDeniedError, match=r"no API key.*retain keys create") as refused:
        require_safe_binding(host, False)
    assert refused.value.field == "host"
    require_safe_binding(host, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "LOCALHOST", "::1", "[::1]"])
def test_loopback_needs_no_key(host: str) -> None:
    require_safe_binding(host, False)


@pytest.mark.parametrize("host", ["127.0.0.1.evil.test", "localhost.evil.test", "evil.test", "0.0.0.0", "", "[", "1"])
def test_what_only_looks_like_loopback_is_not(host: str) -> None:
    assert not is_loopback(host)


async def test_the_server_does_not_start_on_all_addresses_without_a_key(tmp_path: Path) -> None:
    settings = Settings(database_url=str(tmp_path / "a.db"), host="0.0.0.0", port=0, embedding="hashed")
    with pytest.raises(PermissionDeniedError):
        await serve(settings)


async def test_beyond_loopback_a_key_is_demanded_even_after_the_last_one_was_revoked(connect: Connect) -> None:
    client = connect("http://10.0.0.5:8000", host="0.0.0.0")
    assert (await client.get("/api/stats")).status_code == 401


async def test_a_taken_port_is_named(tmp_path: Path, served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    settings = Settings(database_url=str(tmp_path / "b.db"), port=port, embedding="hashed")
    with pytest.raises(InvalidInputError, match=f"{port}.*--port"):
        await serve(settings)


# -- Host, Origin, proxies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "localhost:9", "LocalHost:1", "[::1]:8000", "[::1]"])
async def test_every_name_of_this_machine_is_served(host: str, rest: httpx.AsyncClient) -> None:
    assert (await rest.get("/api/stats", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.test", "evil.test:8000", "127.0.0.1.evil.test", "", "localhost@evil.test"])
@pytest.mark.parametrize("path", ["/api/stats", "/api/health", "/mcp", "/docs"])
async def test_a_foreign_host_is_refused_on_loopback(host: str, path: str, rest: httpx.AsyncClient) -> None:
    answer = await rest.get(path, headers={"Host": host})
    assert answer.status_code == 421
    assert problem_of(answer)["field"] == "Host"


async def test_an_allowed_host_is_served_to_those_who_have_a_key(connect: Connect, keys: ApiKeys) -> None:
    client = connect(allowed_hosts=["mem.example.test"])
    headers = {"Host": "mem.example.test"}
    assert (await client.get("/api/stats", headers=headers)).status_code == 401
    key = await keys.create("ci")
    assert (await client.get("/api/stats", headers=headers | bearer(key))).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
async def test_what_comes_through_a_proxy_needs_a_key(header: str, rest: httpx.AsyncClient) -> None:
    assert (await rest.get("/api/stats", headers={header: "203.0.113.9"})).status_code == 401


@pytest.mark.parametrize("origin", ["https://evil.test", "null", "http://127.0.0.1:3000", "http://evil.test:8000", "é"])
@pytest.mark.parametrize(("method", "path", "body"), [*WRITES, ("POST", "/mcp", {}), ("GET", "/mcp", None)])
async def test_a_foreign_web_page_may_not_change_anything(
    origin: str, method: str, path: str, body: object, rest: httpx.AsyncClient
) -> None:
    answer = await rest.request(method, path, json=body, headers={"Origin": origin.encode()})  # type: ignore[dict-item]
    assert answer.status_code == 403
    assert problem_of(answer)["field"] == "Origin"
    assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_foreign_web_page_reads_nothing_without_a_key(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/api/memories", headers={"Origin": "https://evil.test"})
    assert answer.status_code == 401
    assert "access-control-allow-origin" not in answer.headers


async def test_the_own_origin_is_served(rest: httpx.AsyncClient) -> None:
    headers = {"Origin": "http://127.0.0.1:8000"}
    assert (await rest.post("/api/memories", json={"content": "x"}, headers=headers)).status_code == 201


async def test_without_a_setting_there_is_no_preflight(rest: httpx.AsyncClient) -> None:
    headers = {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}
    answer = await rest.options("/api/memories", headers=headers)
    assert answer.status_code >= 400
    assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_configured_origin_may_call_without_credentials(connect: Connect) -> None:
    client = connect(cors_origins=["https://app.test"])
    headers = {"Origin": "https://app.test", "Access-Control-Request-Method": "POST"}
    preflight = await client.options("/api/memories", headers=headers)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://app.test"
    stored = await client.post("/api/memories", json={"content": "x"}, headers={"Origin": "https://app.test"})
    assert stored.status_code == 201
    assert "access-control-allow-credentials" not in preflight.headers.keys() | stored.headers.keys()
    assert (await client.post("/api/memories", json={}, headers={"Origin": "https://evil.test"})).status_code == 403


async def test_any_origin_means_with_a_key_and_never_with_credentials(connect: Connect, keys: ApiKeys) -> None:
    client = connect(cors_origins=["*"])
    headers = {"Origin": "https://anywhere.test"}
    anonymous = await client.get("/api/stats", headers=headers)
    assert anonymous.status_code == 401
    answer = await client.get("/api/stats", headers=headers | bearer(await keys.create("ci")))
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


# -- agents -------------------------------------------------------------------------------------------------------


async def test_the_agent_header_adds_the_agent_and_its_tag(rest: httpx.AsyncClient) -> None:
    answer = await rest.post("/api/memories", json={"content": "x", "tags": ["a"]}, headers={"X-Agent-ID": "r1"})
    memory = answer.json()["memory"]
    assert (memory["agent_id"], memory["tags"]) == ("r1", ["a", "agent:r1"])


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
async def test_a_key_bound_to_an_agent_can_name_no_other_on_any_route(
    method: str, path: str, body: object, rest: httpx.AsyncClient, keys: ApiKeys, store: SqliteStore
) -> None:
    key = await keys.create("r1", can_write=True, agent_id="r1")
    answer = await rest.request(method, path, json=body, headers=bearer(key) | {"X-Agent-ID": "r2"})
    assert answer.status_code == 403
    assert problem_of(answer)["field"] == "agent_id"
    assert await store.last_event() == 0


@pytest.mark.parametrize("body", [{"agent_id": "r2"}, {"tags": ["agent:r2"]}])
@pytest.mark.parametrize("bound", [True, False])
async def test_neither_body_nor_tags_can_name_another_agent(
    body: dict[str, object], bound: bool, rest: httpx.AsyncClient, keys: ApiKeys
) -> None:
    key = await keys.create("k", can_write=True, agent_id="r1" if bound else None)
    headers = bearer(key) | ({} if bound else {"X-Agent-ID": "r1"})
    answer = await rest.post("/api/memories", json={"content": "x", **body}, headers=headers)
    assert answer.status_code == 403


async def test_a_bound_key_speaks_for_its_agent_without_the_header(rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    key = await keys.create("k", can_write=True, agent_id="r1")
    answer = await rest.post("/api/memories", json={"content": "x"}, headers=bearer(key))
    assert answer.json()["memory"]["tags"] == ["agent:r1"]


@pytest.mark.parametrize(
    "values", [["r1", "r1"], [""], ["a" * 65], ["r1\n"], ["r\x001"], [" "], ["r\x1b[2J"]], ids=ascii
)
async def test_an_impossible_agent_header_is_refused(values: list[str], rest: httpx.AsyncClient) -> None:
    headers = [("X-Agent-ID", value) for value in values]
    answer = await rest.post("/api/memories", json={"content": "x"}, headers=headers)
    assert 400 <= answer.status_code < 500
    assert problem_of(answer)["field"] == "X-Agent-ID"


async def test_an_agent_name_may_be_utf8(rest: httpx.AsyncClient) -> None:
    headers = {"X-Agent-ID": "forscher-ü".encode()}
    answer = await rest.post("/api/memories", json={"content": "x"}, headers=headers)  # type: ignore[arg-type]
    assert answer.json()["memory"]["agent_id"] == "forscher-ü"


# -- public pages, headers, sizes, logs ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/health", "/api/health/live", "/api/health/ready"])
@pytest.mark.parametrize("with_keys", [True, False])
async def test_health_tells_strangers_the_status_only(
    path: str, with_keys: bool, rest: httpx.AsyncClient, keys: ApiKeys
) -> None:
    if with_keys:
        await keys.create("ci")
    answer = await rest.get(path)
    assert answer.json() == {"status": "healthy"}
    assert "server" not in answer.headers


async def test_health_shows_details_only_to_a_key_without_bounds(rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    everything = (await rest.get("/api/health", headers=bearer(await keys.create("a")))).json()
    assert everything.keys() == {"status", "version", "uptime_s", "problems"}
    bound = await rest.get("/api/health", headers=bearer(await keys.create("b", namespace="/b")))
    assert bound.json() == {"status": "healthy"}


@pytest.mark.parametrize("path", ["/api/health", "/api/stats", "/nowhere", "/docs", "/openapi.json", "/mcp", "/"])
async def test_nosniff_stands_on_every_answer(path: str, rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    await keys.create("ci")
    assert (await rest.get(path)).headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/api/memories", "/mcp"])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_over_the_limit_is_413_whether_its_length_is_told_or_not(
    path: str, chunked: bool, served: Served
) -> None:
    megabyte = b"x" * 1024 * 1024

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield megabyte

    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        answer = await client.post(path, content=chunks() if chunked else megabyte * 9, headers=headers)
    assert answer.status_code == 413
    assert problem_of(answer)["code"] == "too_large"


async def test_a_key_is_found_in_no_log(
    rest: httpx.AsyncClient, keys: ApiKeys, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    key = await keys.create("ci", can_write=True)
    await rest.get("/api/stats", headers=bearer(key))
    await rest.get("/api/stats", headers={"X-API-Key": key + "x"})
    await rest.get("/api/stats", params={"api_key": key}, headers=bearer(key))
    own = [record.getMessage() for record in caplog.records if record.name.startswith("retain")]
    assert own
    assert not [line for line in own if key in line]


async def test_a_key_in_the_url_is_no_key(rest: httpx.AsyncClient, keys: ApiKeys) -> None:
    key = await keys.create("ci")
    assert (await rest.get("/api/stats", params={"api_key": key})).status_code == 401
