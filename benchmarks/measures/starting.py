"""How long a process takes until it is of use: the server, MCP on stdio, the help of the command line."""

import json
from statistics import median
from typing import Any

from benchmarks.bench import Bench
from benchmarks.processes import RETAIN, Piped, Server, cpu_seconds, run
from benchmarks.readings import Reading, Readings

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    },
}


def measure(bench: Bench) -> Readings:
    """Start each a few times; the first start of each, which meets cold files, does not count."""
    return _help(bench) | _serve(bench) | _mcp(bench)


def _help(bench: Bench) -> Readings:
    runs = [run([RETAIN, "--help"], bench.folder) for _ in range(bench.plan.starts + 1)][1:]
    return {"help": _started([one.cpu_s for one in runs], [one.wall_s for one in runs])}


def _serve(bench: Bench) -> Readings:
    cpu: list[float] = []
    wall: list[float] = []
    for _ in range(bench.plan.starts + 1):
        with Server(bench.folder / "starting.db") as server:
            cpu.append(server.cpu_to_healthy_s)
            wall.append(server.wall_to_healthy_s)
    return {"start": _started(cpu[1:], wall[1:])}


def _mcp(bench: Bench) -> Readings:
    cpu: list[float] = []
    wall: list[float] = []
    answer = ""
    for _ in range(bench.plan.starts + 1):
        session = McpSession(bench)
        cpu.append(session.cpu_s)
        wall.append(session.wall_s)
        answer = session.tools_list()
        session.end()
    tools: list[Any] = json.loads(answer)["result"]["tools"]
    return {
        "mcp": _started(cpu[1:], wall[1:]),
        "mcp_bytes": Reading(len(answer.encode()), "the whole answer, one line"),
        "mcp_tools": Reading(len(tools), ", ".join(tool["name"].removeprefix("memory_") for tool in tools)),
    }


class McpSession:
    """`retain mcp`, started and initialised; knows how long that took."""

    def __init__(self, bench: Bench) -> None:
        database = str(bench.folder / "starting.db")
        self._process = Piped([RETAIN, "mcp", "--database", database], bench.folder)
        self._process.send(json.dumps(INITIALIZE))
        self._answer(1)
        self.cpu_s = cpu_seconds(self._process.pid)
        self.wall_s = self._process.seconds()

    def tools_list(self) -> str:
        """Return the line that answers `tools/list`."""
        self._process.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self._process.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}))
        return self._answer(2)

    def _answer(self, number: int) -> str:
        while True:
            line = self._process.line()
            if json.loads(line).get("id") == number:
                return line

    def end(self) -> None:
        """Close its input, which ends it."""
        self._process.end()


def _started(cpu: list[float], wall: list[float]) -> Reading:
    return Reading(median(cpu), f"wall {median(wall):.2f} s; median of {len(cpu)}")
