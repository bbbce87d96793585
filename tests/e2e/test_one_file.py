"""`retain serve` and two `retain mcp` on one file: what one stores, the others find; a kill loses nothing."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import httpx

from tests.servers import RunningServer


class StdioClient:
    """Speaks JSON-RPC with a `retain mcp` process of its own, one call after the other."""

    def __init__(self, database: Path) -> None:
        command = [sys.executable, "-m", "retain.transports.cli.main", "mcp", "--database", str(database)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._last_id = 0

    def __enter__(self) -> Self:
        client = {"name": "test", "version": "1"}
        self._request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdout is not None
        self._last_id += 1
        self._send({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params})
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._last_id, answer
        return answer["result"]

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result
        return result["structuredContent"]

    def __exit__(self, *exc: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def first(found: dict[str, Any]) -> str:
    return found["memories"][0]["content"]


def test_what_one_process_stores_the_others_find_at_once_and_a_kill_loses_nothing(tmp_path: Path) -> None:  # Shows 3
    database = tmp_path / "memories.db"
    with RunningServer(database) as server, StdioClient(database) as one, StdioClient(database) as two:

        def ask(query: str) -> list[str]:
            answer = httpx.post(f"{server.url}/api/memories/search", json={"query": query}, timeout=30)
            return [
                first(found) for found in (answer.json(), *(c.call("memory_search", query=query) for c in (one, two)))
            ]

        one.call("memory_store", content="The deploy freeze ends on Friday")
        assert ask("when does the deploy freeze end") == ["The deploy freeze ends on Friday"] * 3
        httpx.post(f"{server.url}/api/memories", json={"content": "Redis runs on host A"}, timeout=30)
        assert ask("which host runs redis") == ["Redis runs on host A"] * 3
        two.call("memory_store", content="Lunch is at noon")
        two.process.kill()
        two.process.wait()
        for query, content in (("when is lunch", "Lunch is at noon"), ("redis host", "Redis runs on host A")):
            assert first(one.call("memory_search", query=query)) == content
        one.call("memory_store", content="Two was killed and nothing was lost")
        assert one.call("memory_stats")["total"] == 4
    doctor = subprocess.run(
        [sys.executable, "-m", "retain.transports.cli.main", "doctor", "--database", str(database)],
        text=True,
        capture_output=True,
        check=False,
    )
    assert doctor.returncode == 0, doctor.stdout
