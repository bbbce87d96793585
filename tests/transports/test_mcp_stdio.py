"""`retain mcp` as a client starts it: a process, its stdin and its stdout."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.stdio import stdio_client
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

from retain.transports.mcp.messages import UnreadableError, dump, parse
from tests.servers import RunningServer
from tests.transports.test_mcp_http import call, initialize

LIMIT = 2**24
NOISY = """
import ctypes, os, sys
from retain.transports.mcp.streams import Channel
channel = Channel()
print("a library prints")
os.write(1, b"a library writes to descriptor 1\\n")
os.system("echo a child writes")
libc = ctypes.CDLL(None)
libc.puts(b"C writes")
libc.fflush(None)
assert sys.stdin.read() == ""
for line in channel.lines():
    channel.write(line)
"""


def command(database: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "retain.transports.cli.main", "mcp", "--database", str(database)]


class Process:
    """A running `retain mcp`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, *messages: object) -> None:
        assert self.process.stdin is not None
        lines = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
        self.process.stdin.write(b"".join(line + b"\n" for line in lines))
        await self.process.stdin.drain()

    async def receive(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(await self.process.stdout.readline())

    async def finish(self) -> list[Any]:
        """Close stdin, read all that still comes, and return it once the process has ended well."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        rest = await self.process.stdout.read()
        assert await self.process.wait() == 0
        return [json.loads(line) for line in rest.splitlines()]


@asynccontextmanager
async def started(*argv: str, **environment: str) -> AsyncIterator[Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, limit=LIMIT, env={**os.environ, **environment}
    )
    draining = asyncio.create_task(process.stderr.read()) if process.stderr else None
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
        if draining is not None:
            await draining
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined] - asyncio leaves the pipes to the collector


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_sdk_client_stores_and_finds(tmp_path: Path, mode: str) -> None:
    argv = command(tmp_path / "memories.db")
    async with Client(stdio_client(StdioServerParameters(command=argv[0], args=argv[1:])), mode=mode) as client:
        await client.call_tool("memory_store", {"content": "The deploy freeze ends on Friday"})
        found = await client.call_tool("memory_search", {"query": "when can we ship again?"})
        assert found.structured_content is not None
        assert found.structured_content["memories"][0]["content"] == "The deploy freeze ends on Friday"


async def test_thirty_calls_sent_at_once_are_all_answered(tmp_path: Path) -> None:
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize(), {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert (await server.receive())["result"]["protocolVersion"] == "2025-11-25"
        ids = []
        for number in range(5):
            await server.send(call("memory_store", f"old-{number}", content=f"Outdated note number {number}"))
            ids.append((await server.receive())["result"]["structuredContent"]["memory"]["id"])
        await server.send(
            *(call("memory_store", f"store-{n}", content=f"Lesson number {n}") for n in range(20)),
            *(call("memory_delete", f"delete-{n}", id=ids[n]) for n in range(5)),
            *(call("memory_search", f"search-{n}", query=f"lesson {n}") for n in range(5)),
        )
        answers = await server.finish()
    assert len(answers) == len({answer["id"] for answer in answers}) == 30
    assert not any(answer["result"]["isError"] for answer in answers)
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize(), call("memory_list", 2, limit=100, max_chars=100_000))
        (_, listing) = await server.finish()
    contents = {memory["content"] for memory in listing["result"]["structuredContent"]["memories"]}
    assert contents == {f"Lesson number {n}" for n in range(20)}


async def test_calls_piped_in_before_the_end_of_input_are_finished(tmp_path: Path) -> None:
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize(), call("memory_store", 2, content="Said just before leaving"))
        answers = await server.finish()
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["created"]


async def test_sigterm_finishes_what_runs_and_ends_well(tmp_path: Path) -> None:
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize())
        await server.receive()
        await server.send(call("memory_store", 2, content="Stored in the last moment"))
        stored = await server.receive()
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0
    assert stored["result"]["structuredContent"]["created"]


async def test_every_line_on_stdout_is_protocol(tmp_path: Path) -> None:
    async with started(*command(tmp_path / "memories.db"), RETAIN_LOG_LEVEL="debug", PYTHONDEVMODE="1") as server:
        await server.send(initialize(), call("memory_store", 2, content="Quiet"), call("memory_get", 3, id="no"))
        answers = await server.finish()
    assert all(answer["jsonrpc"] == "2.0" for answer in answers)
    assert {answer["id"] for answer in answers} == {1, 2, 3}


async def test_nobody_else_can_write_to_stdout_or_read_stdin() -> None:
    async with started(sys.executable, "-c", NOISY) as server:
        await server.send({"echo": 1})
        assert await server.finish() == [{"echo": 1}]


async def test_what_is_no_message_is_answered_and_the_next_one_served(tmp_path: Path) -> None:
    bad = (b"garbage", b"\xff\xfe", b"[1]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"1.0","id":7}')
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize())
        await server.receive()
        await server.send(*bad, b"", {"jsonrpc": "2.0", "id": "still here", "method": "ping"})
        answers = await server.finish()
    assert [answer.get("error", {}).get("code") for answer in answers] == [-32700, -32700, -32600, -32600, -32600, None]
    assert [answer["id"] for answer in answers] == [None, None, None, None, 7, "still here"]


async def test_nothing_that_a_client_sends_ends_the_process(tmp_path: Path) -> None:
    bad = (
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":2,"method":"\\ud800"}', 2),
        (b'{"jsonrpc":"2.0","id":"3","method":"resources/read","params":{"uri":"\\ud800"}}', "3"),
        (b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\\udfff"}}', None),
        (b'{"jsonrpc":"2.0","id":4,"\\ud800":1,"method":"ping"}', 4),
        (b'{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}', None),
        (b'{"jsonrpc":"2.0","id":' + b"7" * 5_000 + b',"method":"ping"}', None),
        (b"[" * 100_000, None),
    )
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize())
        await server.receive()
        for line, request_id in bad:
            await server.send(line)
            answer = await server.receive()
            assert (answer["error"]["code"], answer["id"]) == (-32700, request_id)
        await server.send(call("memory_get", 8, **{"id": "\ud800"}), call("memory_get", 9, **{"\ud800": "x"}))
        assert {answer["id"] for answer in [await server.receive(), await server.receive()]} == {8, 9}
        deep: object = 1
        for _ in range(300):
            deep = [deep]
        await server.send(call("memory_search", 10, query=deep), {"jsonrpc": "2.0", "id": 11, "method": "ping"})
        assert {answer["id"] for answer in await server.finish()} == {10, 11}


def test_every_answer_can_be_written() -> None:
    deep: object = 1
    for _ in range(2_000):
        deep = [deep]
    for result in ({"n": float("nan")}, {"text": "\ud800"}, {"deep": deep}, {"object": object()}):
        answer = json.loads(dump(JSONRPCResponse.model_construct(jsonrpc="2.0", id="7", result=result)))
        assert answer["id"] == "7"
    failed = JSONRPCError.model_construct(
        jsonrpc="2.0", id="\ud800", error=ErrorData.model_construct(code=1, message="\ud800", data={"uri": "\ud800"})
    )
    assert json.loads(dump(failed))["id"] == "\ud800"


async def test_half_a_character_is_refused_by_name(tmp_path: Path) -> None:
    async with started(*command(tmp_path / "memories.db")) as server:
        await server.send(initialize(), call("memory_store", 2, content="ok \ud83d end"))
        (_, answer) = await server.finish()
    text = answer["result"]["content"][0]["text"]
    assert text.startswith("invalid_input: content holds a lone surrogate")


async def test_a_database_that_can_not_be_opened_is_told_at_each_call(tmp_path: Path) -> None:
    async with started(*command(tmp_path)) as server:
        await server.send(initialize())
        assert "result" in await server.receive()
        for request_id in (2, 3):
            await server.send(call("memory_stats", request_id))
            failed = (await server.receive())["result"]
            assert failed["isError"] and str(tmp_path) in failed["content"][0]["text"]
        assert await server.finish() == []


async def test_tools_are_the_same_over_every_transport(tmp_path: Path) -> None:
    argv = command(tmp_path / "one.db")
    async with Client(stdio_client(StdioServerParameters(command=argv[0], args=argv[1:]))) as client:
        stdio, named = await client.list_tools(), client.server_info
    with RunningServer(tmp_path / "two.db") as server:
        async with Client(f"{server.url}/mcp") as client:
            http, also_named = await client.list_tools(), client.server_info
    assert stdio.tools == http.tools
    assert named == also_named and named is not None


def test_a_message_is_read_with_its_id() -> None:
    assert parse(b'{"jsonrpc":"2.0","id":"x","method":"ping"}').id == "x"  # type: ignore[union-attr]
    with pytest.raises(UnreadableError) as fault:
        parse(b'{"jsonrpc":"2.0","id":3,"method":5}')
    assert fault.value.answer.id == 3
