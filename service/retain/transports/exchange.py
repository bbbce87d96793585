"""What every HTTP exchange gets, whatever answers it: safe headers, a log line, and no traceback at the user."""

import asyncio
import logging
import time
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retain.domain.errors import RetainError, StoreUnavailableError
from retain.transports.problems import Headers, problem

logger = logging.getLogger("retain.access")
UNEXPECTED = "something went wrong here; the log of the service says what"
STOPPING = "the service is stopping; try again in a moment"
SAFE_HEADERS: Headers = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Exchanges:
    """Outermost ASGI layer: `nosniff` and `no-store` on every answer, HEAD as GET without body, 500 as a problem."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await _Exchange(scope, receive, send).run(self._app)
        else:
            await send({"type": "websocket.close", "code": 1008})


class _Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._head = scope["method"] == "HEAD"
        self._status = 0
        self._complete = False

    async def run(self, app: ASGIApp) -> None:
        started = time.perf_counter()
        scope = {**self._scope, "method": "GET"} if self._head else self._scope
        try:
            await app(scope, self._receive, self.send)
        except asyncio.CancelledError:  # the service stops and has waited long enough
            if self._status:
                raise
            await answer(self.send, *problem(StoreUnavailableError(STOPPING)))
        except Exception:
            logger.exception("failed: %s %s", scope["method"], quote(scope["path"], errors="replace"))
            if not self._status:
                await answer(self.send, *problem(RetainError(UNEXPECTED)))
        finally:
            took_ms = (time.perf_counter() - started) * 1000
            path = quote(scope["path"], errors="replace")
            logger.info("%s %s %s %.1f ms", self._scope["method"], path, self._status or "unanswered", took_ms)

    async def send(self, message: Message) -> None:
        if self._complete:
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            given: Headers = list(message.get("headers", []))
            names = {name.lower() for name, _ in given}
            message = {**message, "headers": given + [pair for pair in SAFE_HEADERS if pair[0] not in names]}
        elif self._head:
            # The connection ends here, which a stream behind it notices as a disconnect.
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._complete = True


async def answer(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """Send a whole answer."""
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})
