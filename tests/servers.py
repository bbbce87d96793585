"""A real `retain serve` in a process of its own, on a free port, for tests that need the whole thing."""

import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Self

START_LIMIT_S = 60


class RunningServer:
    """Runs `retain serve` while entered. `url` is where it listens."""

    def __init__(self, database: Path, **settings: str) -> None:
        self._command = [sys.executable, "-m", "retain.transports.cli.main", "serve", "--port", "0"]
        self._command += ["--database", str(database)]
        self._environment = {**os.environ, **settings}
        self.url = ""
        self.output = ""

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, env=self._environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._await_url()
        return self

    def _await_url(self) -> None:
        assert self._process.stdout is not None
        selector = selectors.DefaultSelector()
        selector.register(self._process.stdout, selectors.EVENT_READ)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline and selector.select(timeout=1) is not None:
            line = self._process.stdout.readline()
            self.output += line
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                self.url = found.group()
                # A full pipe would stop the server, which logs a line for each request.
                self._reader = threading.Thread(target=self._read_on, daemon=True)
                self._reader.start()
                return
            if not line and self._process.poll() is not None:
                break
        self._process.kill()
        raise AssertionError(f"the server did not start:\n{self.output}")

    def _read_on(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.output += line

    def kill(self) -> None:
        """End the server as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def __exit__(self, *exc: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            assert self._process.stdout is not None
            self._reader.join()
            self._process.stdout.close()
