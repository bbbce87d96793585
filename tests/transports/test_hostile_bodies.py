"""Bodies and headers that are wrong on purpose: each is refused by name, none is half read or kept for ever."""

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from retain.transports import admitted
from retain.transports.json_text import UnreadableJsonError, presentable, read_json, write_json
from tests.servers import RunningServer
from tests.transports.conftest import Served
from tests.transports.test_mcp_http import call

JSON = {"Content-Type": "application/json"}
LONG = b"1" * 5_000


def half_sent(url: str, path: str = "/api/memories") -> socket.socket:
    """Return a connection on which half of a request was sent."""
    address = url.removeprefix("http://").split(":")
    connection = socket.create_connection((address[0], int(address[1])), timeout=20)
    head = f"POST {path} HTTP/1.1\r\nHost: {address[0]}\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
    connection.sendall(head.encode() + b'{"content":')
    return connection


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"content": ' + LONG + b"}", "the body holds a number of 5,000 digits, which is too long"),
        (b'{"content": "x", "metadata": {"n": -' + LONG + b"}}", "the body holds a number of 5,000 digits"),
        (b"\xff", "the body is not UTF-8"),
        ("{}".encode("utf-16"), "the body is not UTF-8"),
        (b"[" * 100_000, "the body is nested too deeply"),
        (b'{"content": "x", "metadata": {"n": NaN}}', "NaN is no JSON value"),
        (b'{"content": "x", "tags": ["a"], "tags": ["b"]}', "the body gives 'tags' twice"),
        (b'{"content": "x", "metadata": {"a": 1, "a": 1}}', "the body gives 'a' twice"),
        (b"{", "the body is not JSON: "),
    ],
    ids=range(9),
)
async def test_a_body_that_can_not_be_taken_at_its_word_is_400_and_says_why(
    body: bytes, said: str, rest: httpx.AsyncClient
) -> None:
    answer = await rest.post("/api/memories", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert said in answer.json()["detail"]
    assert (await rest.get("/api/memories")).json()["total"] == 0


async def test_a_filter_given_twice_deletes_nothing(rest: httpx.AsyncClient) -> None:
    await rest.post("/api/memories", json={"content": "kept", "tags": ["b"]})
    answer = await rest.post("/api/memories/delete", content=b'{"tags": ["a"], "tags": ["b"]}', headers=JSON)
    assert answer.status_code == 400
    assert (await rest.get("/api/memories")).json()["total"] == 1


@pytest.mark.parametrize("charset", ["utf-16", "latin-1", '"x y"'])
@pytest.mark.parametrize("path", ["/api/memories", "/api/import"])
async def test_a_body_declared_in_another_encoding_is_415(path: str, charset: str, rest: httpx.AsyncClient) -> None:
    answer = await rest.post(path, content=b"{}", headers={"Content-Type": f"application/json; charset={charset}"})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "UTF-8" in answer.json()["detail"]


async def test_a_body_declared_as_utf8_is_read_with_or_without_a_mark(rest: httpx.AsyncClient) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        body = mark + '{"content": "Zürich"}'.encode()
        answer = await rest.post(
            "/api/memories", content=body, headers={"Content-Type": "application/json; charset=UTF-8"}
        )
        assert answer.json()["memory"]["content"] == "Zürich"


async def test_a_number_that_is_too_long_is_named_with_the_line_of_an_import(rest: httpx.AsyncClient) -> None:
    header = b'{"kind": "header", "format": "retain", "version": 1}\n'
    answer = await rest.post("/api/import", content=header + b'{"kind": "memory", "n": ' + LONG + b"}\n")
    assert answer.status_code == 422
    assert "line 2 holds a number of 5,000 digits" in answer.json()["detail"]


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "https://a]b", "http://\u2100.example"])
@pytest.mark.parametrize("path", ["/api/memories", "/mcp"])
async def test_an_origin_that_can_not_be_read_is_foreign(origin: str, path: str, rest: httpx.AsyncClient) -> None:
    answer = await rest.post(path, json={"content": "x"}, headers=[(b"Origin", origin.encode())])
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("path", ["/api/memories", "/api/import", "/mcp"])
async def test_a_body_that_does_not_go_on_is_408(
    path: str, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(admitted, "BODY_STALL_S", 0.05)
    with half_sent(served.url, path) as connection:
        answer = await asyncio.to_thread(lambda: b"".join(iter(lambda: connection.recv(65_536), b"")))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(body)["code"] == "request_timeout"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_stream_is_not_ended_by_the_limit_for_bodies(
    start: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitted, "BODY_STALL_S", 0.01)
    monkeypatch.setattr("retain.transports.rest.events.HEARTBEAT_S", 0.05)
    async with (
        httpx.AsyncClient(base_url=start().url, timeout=20) as client,
        client.stream("GET", "/api/events") as answer,
    ):
        beats = 0
        async for line in answer.aiter_lines():
            beats += line == ": still here"
            if beats == 3:
                return
    pytest.fail("the stream ended")


def test_stopping_with_half_sent_bodies_is_quiet(tmp_path: Path) -> None:
    with RunningServer(tmp_path / "stopped.db", RETAIN_EMBEDDING="hashed") as server:
        connections = [half_sent(server.url) for _ in range(5)]
        httpx.get(f"{server.url}/api/stats", timeout=20)  # whatever was sent before has been taken up
        os.kill(server.pid, signal.SIGTERM)
        answers = [connection.recv(65_536) for connection in connections]
        for connection in connections:
            connection.close()
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
    assert "Traceback" not in server.output and "Exception" not in server.output
    assert server.output.count("POST /api/memories 503") == 5
    assert len([line for line in server.output.splitlines() if "ERROR" in line]) <= 1


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":' + LONG + b"}}",
    ],
    ids=range(5),
)
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_mcp_refuses_over_http_what_it_refuses_on_stdio(body: bytes, version: str, served: Served) -> None:
    headers = {**JSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    async with httpx.AsyncClient(base_url=served.url, timeout=30) as client:
        answer = await client.post("/mcp", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32700)


async def test_mcp_takes_a_body_as_long_as_the_one_limit_allows(start: Callable[..., Served]) -> None:
    served = start(max_content_chars=1_000_000)
    message = call("memory_store", content="x" * 900_000)
    body = json.dumps(message).replace("x" * 900_000, "\\u0078" * 900_000).encode()  # 5.4 MB
    headers = {**JSON, "Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=served.url, timeout=60) as client:
        answer = await client.post("/mcp", content=body, headers=headers)
    assert answer.json()["result"]["structuredContent"]["created"]


def nested(levels: int) -> object:
    value: object = "core"
    for _ in range(levels):
        value = {"a": value}
    return value


def test_whatever_a_row_holds_can_be_written() -> None:
    odd = [float("nan"), float("inf"), 10**5_000, "\ud800", nested(5_000), {1: b"x"}, {"\ud800": None}, (1, 2)]
    written = json.loads(write_json({"odd": odd, "kept": [1, 1.5, True, None, "ü"]}))
    assert written["kept"] == [1, 1.5, True, None, "ü"]
    assert written["odd"][0] == "(nan, which is no JSON number)"
    assert "nested deeper" in json.dumps(written["odd"][4])


def test_what_is_plain_is_shown_as_it_is() -> None:
    plain = {"a": [1, -2.5, {"b": None}], "c": "é", "deep": nested(40)}
    assert presentable(plain) == plain
    assert json.loads(write_json(plain)) == plain


def test_what_is_read_strictly_is_what_json_means() -> None:
    assert read_json('{"a": [1, 1.5, "\\u00e9", null, true]}') == {"a": [1, 1.5, "é", None, True]}
    with pytest.raises(UnreadableJsonError, match="gives 'b' twice"):
        read_json(b'[{"a": {"b": 1, "b": 2}}]')
