"""The processes that are measured: started as users start them, in an environment of their own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Self

RETAIN = str(Path(sys.executable).with_name("retain"))
ROOT = Path(__file__).parent.parent
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 20.0


def cpu_seconds(pid: int, /) -> float:
    """Return the CPU seconds, user and system, that a running process has used (Linux)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS_PER_S


def resident_mb(pid: int, /) -> tuple[float, float]:
    """Return the resident megabytes (1e6 bytes) of a running process, and how many of them are pages of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {name: value.split()[0] for name, _, value in (line.partition(":") for line in lines) if "kB" in value}
    return int(fields["VmRSS"]) * 1024 / 1e6, int(fields["RssFile"]) * 1024 / 1e6


def environment(folder: Path, /) -> dict[str, str]:
    """Return an environment without the caller's settings, so that only defaults and arguments count."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RETAIN_")}
    return kept | {"RETAIN_OFFLINE": "true", "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}


@dataclass(frozen=True, slots=True)
class Finished:
    """CPU and wall seconds of a process that ended well, and what it printed."""

    cpu_s: float
    wall_s: float
    output: str


def run(command: Sequence[str], folder: Path, /) -> Finished:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed.
    """
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[1:3])} failed: {output[-500:]}")
    return Finished(usage.ru_utime + usage.ru_stime, time.perf_counter() - began, output)


class Client:
    """The thinnest HTTP client there is, so that the server has the cores to itself. One connection, one thread."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def store(self, content: str, tags: Sequence[str] = ()) -> str:
        """Store a memory and return its id."""
        answer = self.post("/api/memories", {"content": content, "tags": list(tags)})
        return answer["memory"]["id"]

    def recall(self, query: str, k: int = 10) -> list[str]:
        """Return the contents found, best first."""
        found = self.post("/api/memories/search", {"query": query, "k": k})
        return [memory["content"] for memory in found["memories"]]

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """Send JSON, return JSON.

        Raises:
            RuntimeError: the answer is an error.
        """
        return json.loads(self._ask("POST", path, json.dumps(body).encode()))

    def healthy(self) -> bool:
        """Whether the service answers and says that it is ready."""
        try:
            self._ask("GET", "/api/health/ready", None)
        except (OSError, HTTPException, RuntimeError):
            self._connection.close()
            return False
        return True

    def _ask(self, method: str, path: str, body: bytes | None) -> bytes:
        self._connection.request(method, path, body, {"content-type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 400:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:300].decode('utf-8', 'replace')}")
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class Server:
    """A running `retain serve`. Used as a context manager; leaving it stops the server."""

    def __init__(self, database: Path) -> None:
        self._folder = database.parent
        self.port = _free_port()
        self._log = (self._folder / f"serve-{self.port}.log").open("w+")
        began = time.perf_counter()
        command = [RETAIN, "serve", "--database", str(database), "--port", str(self.port)]
        self._process = subprocess.Popen(
            command, cwd=self._folder, env=environment(self._folder), stdout=self._log, stderr=self._log
        )
        self._wait_until_healthy(began)
        self.wall_to_healthy_s = time.perf_counter() - began
        self.cpu_to_healthy_s = self.cpu_seconds()

    def _wait_until_healthy(self, began: float) -> None:
        client = Client(self.port)
        while not client.healthy():
            if self._process.poll() is not None or time.perf_counter() - began > _START_LIMIT_S:
                self._process.kill()
                self._log.seek(0)
                raise RuntimeError(f"retain serve did not start: {self._log.read()[-500:]}")
            time.sleep(0.025)
        client.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU seconds used so far."""
        return cpu_seconds(self._process.pid)

    def settle(self) -> None:
        """Wait until the server has done what it does behind its first answers, such as importing the MCP SDK."""
        used, quiet = self.cpu_seconds(), 0
        while quiet < 5:
            time.sleep(0.1)
            now = self.cpu_seconds()
            quiet, used = (quiet + 1 if now - used <= 0.01 else 0), now

    def client(self) -> Client:
        """Return a new connection."""
        return Client(self.port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Piped:
    """A process that is spoken to line by line: `retain mcp`, or one of `benchmarks.workers`."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._began = time.perf_counter()
        self._errors = (folder / f"piped-{len(list(folder.glob('piped-*')))}.log").open("w+")
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment(folder), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self._errors, text=True,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def seconds(self) -> float:
        """Return the wall seconds since it was started."""
        return time.perf_counter() - self._began

    def send(self, line: str) -> None:
        """Send one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def line(self) -> str:
        """Return the next line.

        Raises:
            RuntimeError: the process ended.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the process ended: {self._errors.read()[-500:]}")
        return line.rstrip("\n")

    def rest(self) -> Iterator[str]:
        """Yield what is still to be read; ends when the process has ended."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line
                yield line.rstrip("\n")

    def kill(self) -> None:
        """Kill -9."""
        self._process.kill()

    def end(self) -> None:
        """Close its input, and kill it when that does not end it."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()
