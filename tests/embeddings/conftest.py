"""Local HTTP servers that stand in for a hub and for an embedding endpoint."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest


@dataclass
class FakeHub:
    """Serves `files` with ETag and Range as a hub does; `cuts` breaks that many answers off after 1,000 bytes."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: int = 0
    requests: list[tuple[str, str | None]] = field(default_factory=list)

    def put(self, model: str, files: dict[str, bytes], revision: str = "main") -> None:
        self.files.update({f"/{model}/resolve/{revision}/{name}": content for name, content in files.items()})

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path, wanted))
        content = self.files.get(handler.path)
        if content is None:
            handler.send_error(404)
            return
        etag, start = f'"{hash(content):x}"', 0
        if wanted and handler.headers.get("If-Range") == etag:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        handler.send_response(206 if start else 200)
        handler.send_header("ETag", etag)
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        rest = content[start:]
        if self.cuts and len(rest) > 1000:
            self.cuts -= 1
            rest = rest[:1000]
            handler.close_connection = True
        handler.wfile.write(rest)


@dataclass
class FakeEndpoint:
    """Answers POST /v1/embeddings by `reply`, which is given the body and returns status, headers and content."""

    url: str = ""
    reply: Callable[[dict[str, Any]], tuple[int, dict[str, str], Any]] | None = None
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    @staticmethod
    def vectors(count: int, dimensions: int = 4) -> dict[str, Any]:
        """An answer of OpenAI's shape, rows in the wrong order on purpose; row i points along axis i."""
        rows = [
            {"index": i, "embedding": [2.0 * (i % dimensions == j) for j in range(dimensions)]} for i in range(count)
        ]
        return {"data": rows[::-1]}

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        self.bodies.append(body)
        self.keys.append(handler.headers.get("Authorization"))
        status, headers, content = self.reply(body) if self.reply else (200, {}, self.vectors(len(body["input"])))
        encoded = json.dumps(content).encode()
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(encoded))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(encoded)


def serving(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub()
    for url in serving(lambda handler: fake.answer(handler)):
        fake.url = url
        yield fake


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    fake = FakeEndpoint()
    for url in serving(lambda handler: fake.answer(handler)):
        fake.url = f"{url}/v1"
        yield fake
