"""A service in trouble: a clear error of Retain, and nothing half written: one save is one request that writes."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("crewai", reason="CrewAI has an environment of its own: it can't be installed beside mcp 2")

from crewai.memory.types import MemoryRecord

import retain
from retain.client import connection
from retain_integrations.crewai import RetainStorage

STORE = ("POST", "/api/memories/batch")
TROUBLES = [
    (500, retain.StoreError, "in trouble"),
    (409, retain.ConflictError, "in trouble"),
    (401, retain.NotAuthenticatedError, "in trouble"),
    (None, retain.StoreUnavailableError, "did not answer"),
]
EMPTY: dict[str, Any] = {"namespaces": [], "memories": [], "total": 0, "next_cursor": None}
CODES = {401: "not_authenticated", 409: "conflict", 500: "store"}
Make = Callable[..., tuple["FakeService", RetainStorage]]


@dataclass
class FakeService:
    """A fake: `status` is the answer to writes, and to reads unless `reads_work`; None never comes."""

    status: int | None
    reads_work: bool = True
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """What was asked that changes something."""
        return [asked for asked in self.requests if asked[0] != "GET"]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.requests.append((handler.command, handler.path.partition("?")[0]))
        if self.reads_work and handler.command == "GET":
            self._send(handler, 200, EMPTY)
        elif self.status is None:
            self.released.wait()
        else:
            self._send(handler, self.status, {"code": CODES[self.status], "detail": "the fake is in trouble"})

    @staticmethod
    def _send(handler: BaseHTTPRequestHandler, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@contextmanager
def serving(fake: FakeService) -> Iterator[FakeService]:
    """Run the fake until the end of the `with`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        do_GET = do_POST = do_PATCH = do_DELETE = lambda self: fake.answer(self)  # noqa: N815

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        fake.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.shutdown()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes a fake and a storage on it, which does not wait long for an answer."""
    with ExitStack() as open_ones:

        def made(status: int | None, *, reads_work: bool = True) -> tuple[FakeService, RetainStorage]:
            monkeypatch.setattr(connection, "READ_S", 2.0 if reads_work else 0.2)
            fake = open_ones.enter_context(serving(FakeService(status, reads_work)))
            storage = RetainStorage(base_url=fake.url, api_key="key")
            open_ones.callback(storage.close)
            return fake, storage

        yield made


@pytest.mark.parametrize(("status", "kind", "message"), TROUBLES)
def test_a_save_fails_whole(make: Make, status: int | None, kind: type[Exception], message: str) -> None:
    fake, storage = make(status)
    with pytest.raises(kind, match=message):
        storage.save([MemoryRecord(content=f"record {n}") for n in range(1_001)])
    assert set(fake.writes) == {STORE}
    assert len(fake.writes) == (5 if status == 409 else 1)


@pytest.mark.parametrize(("status", "kind", "message"), TROUBLES)
def test_whatever_reads_first_writes_nothing(
    make: Make, status: int | None, kind: type[Exception], message: str
) -> None:
    fake, storage = make(status, reads_work=False)
    record = MemoryRecord(content="text")
    uses: list[Callable[[], object]] = [
        lambda: storage.save([record]),
        lambda: storage.update(record),
        lambda: storage.touch_records([record.id]),
        lambda: storage.delete(record_ids=[record.id]),
        lambda: storage.get_record(record.id),
        storage.count,
    ]
    for use in uses:
        with pytest.raises(kind, match=message):
            use()
    assert fake.writes == []


@pytest.mark.parametrize(("status", "kind", "message"), TROUBLES)
def test_a_search_or_a_reset_that_fails_says_why(
    make: Make, status: int | None, kind: type[Exception], message: str
) -> None:
    _, storage = make(status)
    for use in (lambda: storage.search(storage.embedder(["text"])[0]), storage.reset):
        with pytest.raises(kind, match=message):
            use()
