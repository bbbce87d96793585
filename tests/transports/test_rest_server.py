"""The service on a real port: streams, limits, shutdown, and the program from the announcement."""

import asyncio
import json
import logging
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from retain.auth.api_keys import ApiKeys
from retain.core.service import utc_now
from retain.storage.sqlite import open_sqlite
from retain.transports import access, admitted
from retain.transports.rest import events as events_module
from tests.transports.conftest import Served

ANNOUNCEMENT = """
import httpx
BASE_URL = "http://localhost:8000"
async with httpx.AsyncClient() as client:
    await client.post(f"{BASE_URL}/api/memories", json={"content": "API rate limit is 100 req/min", "tags": ["api", "limits"]}, headers={"X-Agent-ID": "researcher"})
    results = await client.post(f"{BASE_URL}/api/memories/search", json={"query": "API rate limits", "tags": ["agent:researcher"]})
    print(results.json()["memories"])
"""  # noqa: E501 - as announced


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as opened:
        yield opened


async def store(client: httpx.AsyncClient, content: str) -> str:
    answer = await client.post("/api/memories", json={"content": content})
    assert answer.is_success, answer.text
    return str(answer.json()["memory"]["id"])


class Stream:
    """Server-sent events, one at a time."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, str]:
        event: dict[str, str] = {}
        async with asyncio.timeout(20):
            async for line in self._lines:
                if not line and event:
                    return event
                name, _, value = line.partition(":")
                if line:
                    event[name or "comment"] = value.strip()
        raise EOFError

    async def aclose(self) -> None:
        await cast("Any", self._lines).aclose()


@asynccontextmanager
async def listening(
    served: Served, headers: dict[str, str] | None = None
) -> AsyncGenerator[tuple[httpx.AsyncClient, Stream]]:
    """Opens a stream of events; the first one, which only tells where it starts, has been read."""
    async with (
        httpx.AsyncClient(base_url=served.url, timeout=30) as client,
        client.stream("GET", "/api/events", headers=headers) as answer,
        aclosing(Stream(answer)) as stream,
    ):
        assert answer.status_code == 200
        await stream.next()
        yield client, stream


async def test_the_program_from_the_announcement_prints_its_memory(start: Callable[..., Served]) -> None:
    served = start(embedding="default")
    program = ANNOUNCEMENT.replace("localhost:8000", f"localhost:{served.url.rpartition(':')[2]}")
    body = "\n".join(f"    {line}" for line in program.splitlines())
    source = f"import asyncio\nasync def main():\n{body}\nasyncio.run(main())"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "'tags': ['api', 'limits', 'agent:researcher']" in done.stdout
    assert "'score': " in done.stdout


async def test_health_is_degraded_until_the_model_is_loaded(
    start: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    from retain.core.service import MemoryService

    async def loads_forever(self: MemoryService) -> None:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(MemoryService, "warm_up", loads_forever)
    served = start()
    async with httpx.AsyncClient(base_url=served.url) as client:
        ready = await client.get("/api/health/ready")
        assert (ready.status_code, ready.json()) == (503, {"status": "degraded"})
        live = await client.get("/api/health/live")
        assert (live.status_code, live.json()) == (200, {"status": "healthy"})


async def test_a_model_that_can_not_be_loaded_leaves_listing_and_keywords(
    start: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    from retain.core.service import MemoryService
    from retain.domain.errors import EmbeddingError

    async def fails(self: MemoryService) -> None:
        raise EmbeddingError("the model file is missing")

    monkeypatch.setattr(MemoryService, "warm_up", fails)
    async with httpx.AsyncClient(base_url=start().url) as client:
        assert (await client.get("/api/health")).status_code == 503
        assert (await client.get("/api/memories")).status_code == 200
        search = await client.post("/api/memories/search", json={"query": "x", "mode": "keyword"})
        assert search.status_code == 200


async def test_a_request_takes_no_nagle_delay(client: httpx.AsyncClient) -> None:
    body = json.dumps({"tags": ["x"]}).encode()
    times: list[float] = []
    for _ in range(10):
        began = time.perf_counter()
        await client.post("/api/types/nothing", content=body, headers={"Content-Type": "application/json"})
        times.append(time.perf_counter() - began)
    assert min(times) < 0.035


# -- events -------------------------------------------------------------------------------------------------------


async def test_changes_are_streamed_in_order_with_their_ids(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/api/events") as answer, aclosing(Stream(answer)) as stream:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert await stream.next() == {"retry": "1000", "id": "0"}
        memory_id = await store(client, "first")
        await client.patch(f"/api/memories/{memory_id}", json={"tags": ["t"]})
        await client.delete(f"/api/memories/{memory_id}")
        seen = [await stream.next() for _ in range(3)]
    assert [event["event"] for event in seen] == ["stored", "updated", "deleted"]
    assert [json.loads(event["data"])["memory_id"] for event in seen] == [memory_id] * 3
    assert [int(event["id"]) for event in seen] == [1, 2, 3]


@pytest.mark.parametrize("way", ["header", "query"])
async def test_a_stream_resumes_after_the_last_event_seen(way: str, client: httpx.AsyncClient) -> None:
    for number in range(3):
        await store(client, f"memory {number}")
    given = {"headers": {"Last-Event-ID": "1"}} if way == "header" else {"params": {"after": "1"}}
    async with client.stream("GET", "/api/events", **given) as answer, aclosing(Stream(answer)) as stream:  # type: ignore[arg-type]
        assert (await stream.next())["id"] == "1"
        assert [(await stream.next())["id"] for _ in range(2)] == ["2", "3"]


@pytest.mark.parametrize("value", ["x", "-1", "1.5", "9" * 30, "٣"])
async def test_an_impossible_event_id_is_refused(value: str, client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/events", headers={"Last-Event-ID": value.encode()})  # type: ignore[dict-item]
    assert answer.status_code == 422


async def test_changes_by_another_process_are_streamed_too(served: Served, tmp_path: Path) -> None:
    program = (
        "import retain, sys\n"
        "with retain.open(sys.argv[1], embedding='hashed') as memory: memory.store('from elsewhere')"
    )
    async with listening(served) as (_, stream):
        command = [sys.executable, "-c", program, str(tmp_path / "served.db")]
        await asyncio.to_thread(subprocess.run, command, check=True, timeout=60)
        assert (await stream.next())["event"] == "stored"


async def test_a_silent_stream_sends_heartbeats(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    async with client.stream("GET", "/api/events") as answer, aclosing(Stream(answer)) as stream:
        await stream.next()
        assert await stream.next() == {"comment": "still here"}
        assert await stream.next() == {"comment": "still here"}


async def test_stopping_the_service_ends_streams_at_once_and_closes_the_database(
    start: Callable[..., Served], tmp_path: Path
) -> None:
    served = start()
    async with listening(served) as (client, stream):
        await store(client, "kept")
        await stream.next()
        began = time.monotonic()
        stopping = asyncio.create_task(asyncio.to_thread(served.stop))
        with pytest.raises(EOFError):
            await stream.next()
        await stopping
        assert time.monotonic() - began < 3
    assert [path.name for path in tmp_path.iterdir()] == ["served.db"]  # noqa: ASYNC240


async def test_a_stream_ends_when_its_key_is_revoked(
    start: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitted, "RECHECK_S", 0.0)
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    beside = await open_sqlite(tmp_path / "served.db", clock=utc_now)
    keys = ApiKeys(beside, utc_now)
    key = await keys.create("watcher")
    headers = {"Authorization": f"Bearer {key}"}
    served = start()
    async with listening(served, headers) as (_, stream):
        await keys.revoke("watcher")
        with pytest.raises(EOFError):
            for _ in range(50):
                await stream.next()
    await beside.aclose()


async def test_a_stream_without_a_key_ends_when_the_first_key_is_made(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitted, "RECHECK_S", 0.0)
    monkeypatch.setattr(events_module, "HEARTBEAT_S", 0.05)
    beside = await open_sqlite(tmp_path / "served.db", clock=utc_now)
    async with listening(served) as (_, stream):
        await ApiKeys(beside, utc_now).create("first")
        with pytest.raises(EOFError):
            for _ in range(50):
                await stream.next()
    await beside.aclose()


async def test_head_of_a_stream_ends(client: httpx.AsyncClient) -> None:
    answer = await client.head("/api/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert (await client.get("/api/stats")).status_code == 200


async def test_a_key_in_the_stream_request_is_in_no_log(
    start: Callable[..., Served], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    beside = await open_sqlite(tmp_path / "served.db", clock=utc_now)
    key = await ApiKeys(beside, utc_now).create("watcher")
    served = start()
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        headers = {"Authorization": f"Bearer {key}"}
        async with client.stream("GET", "/api/events", headers=headers) as answer, aclosing(Stream(answer)) as stream:
            await stream.next()
    served.stop()
    await beside.aclose()
    assert any("/api/events" in record.getMessage() for record in caplog.records)
    assert key not in caplog.text


# -- export and import --------------------------------------------------------------------------------------------


async def test_an_import_may_be_larger_than_an_ordinary_body(client: httpx.AsyncClient) -> None:
    large = {"filler": "x" * 65_000}
    for part in range(2):
        memories = [{"content": f"memory {part}.{number}", "metadata": large} for number in range(80)]
        answer = await client.post("/api/memories/batch", json={"memories": memories})
        assert answer.status_code == 201, answer.text
    exported = (await client.get("/api/export")).content
    assert len(exported) > access.BODY_LIMIT

    async def chunks() -> AsyncIterator[bytes]:
        for begin in range(0, len(exported), 100_003):
            yield exported[begin : begin + 100_003]

    answer = await client.post("/api/import", content=chunks())
    assert answer.json() == {"created": 0, "skipped": 160, "tombstones": 0}


async def test_an_import_that_breaks_off_is_no_failure_of_the_service(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b'{"kind": "header", "format": "retain", "version": 1}\n'
        raise RuntimeError("the client's disk is gone")

    with pytest.raises(RuntimeError):
        await client.post("/api/import", content=broken())
    assert (await client.get("/api/stats")).status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_mcp_answers_on_the_same_port(client: httpx.AsyncClient) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
    }
    headers = {"Accept": "application/json, text/event-stream"}
    answer = await client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["result"]["protocolVersion"] == "2025-11-25"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_mcp_sdk_is_not_imported_before_it_is_wanted() -> None:
    program = "import sys, retain.transports.server; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
