"""A service that can't, won't, or does not answer: a clear error, and nothing half written."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

import pytest
from langgraph.store.base import PutOp

import retain
from retain.client import connection
from retain_integrations.langgraph import RetainStore

USER = ("users", "u1")
Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def fake_service(answer: Answer) -> Iterator[str]:
    """Run a fake of the service, which gives `answer` to every request; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def says(status: int, content: str, kind: str = "text/plain") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content.encode())

    return answer


def refuses(status: int, code: str, detail: str) -> Answer:
    return says(status, json.dumps({"code": code, "detail": detail}), "application/problem+json")


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        (says(500, "oops"), retain.StoreError, "answers 500, which is not an answer of Retain"),
        (refuses(500, "store", "the disk failed"), retain.StoreError, "the disk failed"),
        (refuses(409, "conflict", "it was updated"), retain.ConflictError, "it was updated"),
        (says(200, "<html>"), retain.RetainError, "."),
        (says(404, "no such page"), retain.StoreError, "answers 404"),
    ],
)
def test_a_service_that_refuses(answer: Answer, error: type[Exception], told: str) -> None:
    with fake_service(answer) as url, RetainStore(base_url=url) as store:
        for use in (lambda: store.get(USER, "k"), lambda: store.put(USER, "k", {"n": 1}), lambda: store.search(USER)):
            with pytest.raises(error, match=told):
                use()


def test_a_service_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_S", 0.1)
    monkeypatch.setattr(connection, "FIRST_PAUSE_S", 0.01)
    end = Event()

    def hang(_: BaseHTTPRequestHandler) -> None:
        end.wait(20)

    with fake_service(hang) as url, RetainStore(base_url=url) as store:
        try:
            with pytest.raises(retain.StoreUnavailableError, match=url):
                store.search(USER)
        finally:
            end.set()


def test_a_service_that_is_down_says_how_to_start_it() -> None:
    store = RetainStore(base_url="http://127.0.0.1:9")
    with store, pytest.raises(retain.StoreUnavailableError, match="retain serve"):
        store.get(USER, "k")


def test_a_wrong_key_is_refused(server: Any) -> None:
    store = RetainStore(base_url=server.url, api_key="rtn_wrong")
    with store, pytest.raises(retain.NotAuthenticatedError, match="unknown or revoked"):
        store.put(USER, "k", {"text": "x"})


def test_a_batch_that_is_refused_half_way_writes_nothing(
    store: RetainStore, memory: retain.SyncMemory, place: str
) -> None:
    store.put(USER, "gone", {"n": 1})
    foreign = memory.store("from elsewhere", namespace=place).memory.id
    deep: Any = 1
    for _ in range(40):
        deep = {"deeper": deep}
    puts = [PutOp(USER, "new", {"n": 1}), PutOp(USER, "gone", None), PutOp(USER, foreign, {"n": 2})]

    with pytest.raises(retain.TooLargeError, match="nested more than 32 deep"):
        store.batch([*puts, PutOp(USER, "deep", deep)])

    assert sorted(item.key for item in store.search(USER)) == sorted(["gone", foreign])
    assert memory.get(foreign).content == "from elsewhere"
