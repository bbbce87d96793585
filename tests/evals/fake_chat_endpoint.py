"""A fake of an OpenAI-compatible chat endpoint: a real HTTP server on this machine; a test makes up what it answers."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

READER, JUDGE = "reader-1", "judge-1"


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    key: str | None
    body: dict[str, Any]

    @property
    def model(self) -> str:
        return self.body["model"]

    @property
    def prompt(self) -> str:
        return self.body["messages"][0]["content"]


@dataclass(frozen=True)
class Reply:
    """What the fake sends back; a text as it is, anything else as JSON."""

    content: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def encoded(self) -> bytes:
        return self.content.encode() if isinstance(self.content, str) else json.dumps(self.content).encode()


def says(text: str | None, *, finish_reason: str = "stop") -> Reply:
    """Return an answer of OpenAI's shape."""
    message = {"role": "assistant", "content": text}
    return Reply({"object": "chat.completion", "choices": [{"message": message, "finish_reason": finish_reason}]})


def refuses(status: int, message: str = "", **headers: str) -> Reply:
    """Return OpenAI's error object; in the names of headers "_" stands for "-"."""
    return Reply({"error": {"message": message}}, status, {name.replace("_", "-"): v for name, v in headers.items()})


def usual(received: Received) -> Reply:
    """Answer as a reader that says little and a judge that agrees."""
    return says("Yes." if received.model == JUDGE else "An answer.")


@dataclass
class FakeChatEndpoint:
    """Answers by `reply`, and keeps what it received, in order."""

    base_url: str = ""
    reply: Callable[[Received], Reply] = usual
    received: list[Received] = field(default_factory=list[Received])

    def by(self, model: str) -> list[Received]:
        return [one for one in self.received if one.model == model]

    def first(self, *replies: Reply) -> None:
        """Give these answers first, whoever asks, then the usual ones."""
        left = list(replies)
        self.reply = lambda received: left.pop(0) if left else usual(received)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        received = Received(handler.path, handler.headers.get("Authorization"), body)
        self.received.append(received)
        reply = self.reply(received)
        content = reply.encoded()
        handler.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(content))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(content)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about clients that hung up, which some tests make them do."""


@contextmanager
def fake_chat_endpoint() -> Iterator[FakeChatEndpoint]:
    """Run the fake on a free port."""
    fake = FakeChatEndpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            fake.handle(self)

        def log_message(self, *_: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
