"""One exchange that was let in: its body is counted and may not stall, its answer ends with the right to it."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retain.domain.errors import NotAuthenticatedError, TooLargeError
from retain.transports.exchange import answer
from retain.transports.problems import Headers, document, problem, problem_headers

RECHECK_S = 1.0
"""How long an answer that is still being sent may go on after its caller lost the right to it."""
BODY_STALL_S = 30.0
"""How long the service waits for the next piece of a body."""
_REQUEST_TIMEOUT = 408
_CLOSE: Headers = [(b"connection", b"close")]


def too_large(limit: int, /) -> TooLargeError:
    """Return the error for a body of more than `limit` bytes."""
    return TooLargeError(f"the body is larger than the {limit:,} bytes allowed; send it in parts", field="body")


class Admitted:
    """The two directions of an exchange, for the application behind `Access`."""

    def __init__(
        self, receive: Receive, send: Send, limit: int | None, recheck: Callable[[], Awaitable[object]]
    ) -> None:
        self._receive, self._send = receive, send
        self._limit, self._recheck = limit, recheck
        self._received = 0
        self._whole = False
        self._ended = False
        self._started = False
        self._checked_at = asyncio.get_running_loop().time()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Serve it; what fails after it was ended from here is of no interest."""
        try:
            await app(scope, self.receive, self.send)
        except Exception:
            if not self._ended:
                raise

    async def receive(self) -> Message:
        """Return the next piece of the body; a disconnect when it is too long or does not come."""
        if self._ended:
            return {"type": "http.disconnect"}
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(BODY_STALL_S):
                message = await self._receive()
        except TimeoutError:
            detail = f"no piece of the body came for {BODY_STALL_S:g} seconds; send the request again"
            body = document(_REQUEST_TIMEOUT, "The body did not come", detail, "request_timeout", "body")
            return await self._end(_REQUEST_TIMEOUT, problem_headers(_REQUEST_TIMEOUT) + _CLOSE, body)
        self._whole = not message.get("more_body", False)
        self._received += len(message.get("body", b""))
        if self._limit is not None and self._received > self._limit and not self._started:
            return await self._end(*problem(too_large(self._limit)))
        return message

    async def _end(self, status: int, headers: Headers, body: bytes) -> Message:
        # The framework reads on as if the client had gone; what it then answers goes nowhere.
        if not self._started:
            await answer(self._send, status, headers, body)
        self._ended = True
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a piece of the answer.

        Raises:
            OSError: the caller may not have the rest.
        """
        if self._ended:
            return
        if message["type"] == "http.response.start":
            self._started = True
        elif await self._revoked():
            self._ended = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
            raise OSError("the caller of this request may not go on")
        await self._send(message)

    async def _revoked(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._checked_at < RECHECK_S:
            return False
        self._checked_at = now
        try:
            await self._recheck()
        except NotAuthenticatedError:
            return True
        return False
