"""Requests to a service: retries, errors by their code, and how to reach a base URL."""

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from retain.domain import errors
from retain.domain.errors import InvalidInputError, NotFoundError, RetainError, StoreError, StoreUnavailableError
from retain.domain.ids import shortened
from retain.domain.text import clean_name
from retain.version import __version__

ATTEMPTS = 4
FIRST_PAUSE_S = 0.1
CONNECT_S = 5.0
READ_S = 120.0
"""How long one answer may take: the longest content takes the model some 15 seconds."""

_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")
Sleep = Callable[[float], Awaitable[None]]


def _errors_by_code() -> dict[str, type[RetainError]]:
    kinds = (kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RetainError))
    return {kind.code: kind for kind in kinds}


ERRORS = _errors_by_code()
"""By the `code` of a problem document."""


def checked_url(base_url: str, /) -> str:
    """Return a base URL with a final slash, so that a path prefix of a proxy is kept.

    Raises:
        InvalidInputError: it is no http or https URL of a service.
    """
    if not isinstance(base_url, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people pass other things
        raise InvalidInputError(f"base_url must be text, not {type(base_url).__name__}", field="base_url")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), 0
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not plain:
        shown = shortened(_CREDENTIALS.sub("***@", base_url))
        raise InvalidInputError(
            f"{shown} is no URL of a service; write it like http://127.0.0.1:8000 or https://host/prefix",
            field="base_url",
        )
    return base_url.rstrip("/") + "/"


class Connection:
    """Sends requests below `base_url`, again when that is safe, and raises what the service refused with."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        agent_id: str | None,
        transport: httpx.AsyncBaseTransport | None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.base_url = checked_url(base_url)
        headers = {b"user-agent": f"retain/{__version__}".encode()}
        if api_key:
            if not (api_key.isascii() and api_key.isprintable()):
                raise InvalidInputError("api_key holds a character that no API key has", field="api_key")
            headers[b"authorization"] = f"Bearer {api_key}".encode()
        if agent_id:
            headers[b"x-agent-id"] = clean_name(agent_id, field="agent_id").encode()
        host = urlsplit(self.base_url).hostname or ""
        self._client = httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            transport=transport,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S),
            # A company's proxy can't reach this machine.
            trust_env=host not in ("localhost", "127.0.0.1", "::1"),
        )
        self._sleep = sleep

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
    ) -> httpx.Response:
        """Return a successful answer, read whole.

        Args:
            method: HTTP method.
            path: Below the base URL, without a leading slash.
            content: A JSON body, or a stream of JSON Lines.
            query: Query parameters.
            headers: Further headers.
            repeatable: Whether the request may be sent again when nobody knows what became of it.

        Raises:
            RetainError: what the service refused with.
            StoreUnavailableError: the service can't be reached, or stayed unavailable.
        """
        kind = "application/json" if isinstance(content, bytes) else "application/x-ndjson"
        given = {**({"content-type": kind} if content is not None else {}), **(headers or {})}
        once = content is not None and not isinstance(content, bytes)
        lost = False
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS or once
            try:
                answer = await self._client.request(
                    method, path, content=content, params=query, headers=given, follow_redirects=False
                )
            except httpx.RequestError as error:
                unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                # A service that takes too long would only get more to do.
                if last or isinstance(error, httpx.ReadTimeout) or not (unsent or repeatable):
                    raise self.unavailable(error) from None
                lost = lost or not unsent
            else:
                if answer.is_success:
                    return answer
                refused = problem_in(answer, self.base_url)
                if lost and method == "DELETE" and isinstance(refused, NotFoundError):
                    return answer  # the earlier request got through, only its answer was lost
                if last or not refused.retryable or not (repeatable or answer.status_code == 503):
                    raise refused
            await self.pause(attempt)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        read_s: float = READ_S,
    ) -> AsyncGenerator[httpx.Response]:
        """Open a GET whose successful answer is read bit by bit.

        Raises:
            RetainError: what the service refused with.
            StoreUnavailableError: the service can't be reached, or the answer broke off.
        """
        timeout = httpx.Timeout(read_s, connect=CONNECT_S)
        opened: AbstractAsyncContextManager[httpx.Response] = self._client.stream(
            "GET", path, params=query, headers=headers, timeout=timeout
        )
        try:
            async with opened as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise problem_in(answer, self.base_url)
                yield answer
        except httpx.RequestError as error:
            raise self.unavailable(error) from None

    async def pause(self, attempt: int) -> None:
        """Wait before the next attempt: 0.1, 0.3, 0.9 s and so on up to 3 s, give or take a fifth."""
        await self._sleep(min(FIRST_PAUSE_S * 3 ** (attempt - 1), 3.0) * random.uniform(0.8, 1.2))

    def unavailable(self, error: Exception) -> StoreUnavailableError:
        """Return the error that says how to start the service."""
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return StoreUnavailableError(f"no service answers at {self.base_url}; start it with: retain serve")
        if isinstance(error, httpx.ReadTimeout):
            return StoreUnavailableError(f"{self.base_url} did not answer within {READ_S:.0f} s; is it overloaded?")
        detail = str(error) or type(error).__name__
        return StoreUnavailableError(f"the connection to {self.base_url} failed ({detail}); try again")

    async def aclose(self) -> None:
        """Close all connections. Idempotent."""
        await self._client.aclose()


def problem_in(answer: httpx.Response, base_url: str, /) -> RetainError:
    """Return the error that an unsuccessful answer stands for."""
    form = _problem_form(answer)
    if form is not None:
        kind = ERRORS.get(str(form.get("code")), StoreError)
        field: object = form.get("field")
        return kind(str(form.get("detail")), field=field if isinstance(field, str) else None)
    status = answer.status_code
    if status in (502, 503, 504):
        return StoreUnavailableError(f"{base_url} answers {status}: the service behind it is not running")
    where = f" and points to {shortened(answer.headers['location'])}" if "location" in answer.headers else ""
    return StoreError(f"{base_url} answers {status}{where}, which is not an answer of Retain; check the URL")


def _problem_form(answer: httpx.Response) -> dict[str, Any] | None:
    if "problem+json" not in answer.headers.get("content-type", ""):
        return None
    try:
        form: object = json.loads(answer.content)
    except ValueError:
        return None
    return cast("dict[str, Any]", form) if isinstance(form, dict) else None
