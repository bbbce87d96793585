"""A language model behind an endpoint that speaks OpenAI's `POST {base_url}/chat/completions`.

OpenAI, Ollama, vLLM, llama.cpp and many others do.
"""

import asyncio
import json
import logging
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import httpx

from retain import (
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    PermissionDeniedError,
    RetainError,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)

ATTEMPTS: Final = 5
ATTEMPTS_THAT_TIME_OUT: Final = 2
"""Fewer, because each of them takes long and may be paid for."""
FIRST_DELAY_S, LONGEST_DELAY_S = 1.0, 16.0
LONGEST_RETRY_AFTER_S: Final = 60.0
"""An endpoint that asks for a longer pause is out of quota: the user should hear that rather than wait."""
TIMEOUT_S: Final = 180.0
CONNECT_TIMEOUT_S: Final = 10.0
_SHOWN: Final = 200

Sleep = Callable[[float], Awaitable[object]]


class EndpointError(RetainError):
    """The endpoint refused this request, or its answer makes no sense; another request may well succeed."""

    code: ClassVar[str] = "endpoint"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model at an address.

    Attributes:
        base_url: Ends in the API version, such as "https://host/v1".
        api_key: Sent to `base_url` only; never shown, logged or written.
        key_variable: Where the user sets the key, for messages.
        timeout_s: How long one answer may take.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    key_variable: str = "OPENAI_API_KEY"
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        """Raises InvalidInputError for an address, model, key or limit that can't be right."""
        _require_address(self.base_url)
        if not self.model.strip():
            raise InvalidInputError("a model without a name can't be asked; give --model", field="model")
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise InvalidInputError(
                f"{self.key_variable} holds line breaks or other characters that no key has", field="api_key"
            )
        if not self.timeout_s > 0:
            raise InvalidInputError(f"a timeout of {self.timeout_s} s lets nothing through", field="timeout")

    def for_judge(
        self, *, model: str | None, base_url: str | None, api_key: str | None, key_variable: str
    ) -> "Endpoint":
        """Return the endpoint of a judge: what is None is as here, the key only if it goes to the same address."""
        address = base_url or self.base_url
        is_same = address.rstrip("/") == self.base_url.rstrip("/")
        if api_key is None and is_same:
            api_key, key_variable = self.api_key, self.key_variable
        return Endpoint(address, model or self.model, api_key, key_variable, self.timeout_s)

    @property
    def url(self) -> str:
        """Where requests go."""
        return f"{self.base_url.rstrip('/')}/chat/completions"


class ChatClient:
    """Asks one model, while it is entered. Safe for many tasks of one event loop.

    `sleep` is awaited between attempts, with seconds.
    """

    def __init__(self, endpoint: Endpoint, /, *, sleep: Sleep = asyncio.sleep) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        headers = {"Content-Type": "application/json"}
        if endpoint.api_key:
            headers["Authorization"] = f"Bearer {endpoint.api_key}"
        # The time for a whole answer is limited around the request; a limit for each packet would not be one.
        self._http = httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(None, connect=CONNECT_TIMEOUT_S))

    def __repr__(self) -> str:
        return f"ChatClient({self._endpoint!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def complete(self, prompt: str, /, *, max_tokens: int, temperature: float = 0) -> str:
        """Return the model's answer to one user message, without surrounding whitespace, never empty.

        A busy or unreachable endpoint is asked again, up to `ATTEMPTS` times in all, after the pause that it asks for.

        Raises:
            NotAuthenticatedError, PermissionDeniedError: the key is missing, wrong, or may not do this.
            NotFoundError: there is no such address or model.
            StoreUnavailableError: busy, broken, out of reach or too slow, also after several attempts.
            EndpointError: it refused the request, or answered without text.
        """
        body = {
            "model": self._endpoint.model,
            "messages": [{"role": "user", "content": prompt}],
            "temperature": temperature,
            "max_tokens": max_tokens,
        }
        content = json.dumps(body).encode()
        problem = ""
        timed_out = 0
        for attempt in range(ATTEMPTS):
            response = None
            try:
                async with asyncio.timeout(self._endpoint.timeout_s):
                    response = await self._http.post(self._endpoint.url, content=content)
            except TimeoutError:
                timed_out += 1
                problem = f"no answer within {self._endpoint.timeout_s:g} s"
            except (httpx.TransportError, httpx.DecodingError) as error:
                problem = f"{type(error).__name__} {error}".strip()
            else:
                if not _is_busy(response):
                    return self._text(response)
                problem = self._told(response)
            delay = _delay(attempt, response)
            if attempt + 1 == ATTEMPTS or delay > LONGEST_RETRY_AFTER_S or timed_out == ATTEMPTS_THAT_TIME_OUT:
                break
            log.info("%s failed (%s), trying again in %.1f s", self._endpoint.url, problem, delay)
            await self._sleep(delay)
        raise StoreUnavailableError(f"{self._asked()} can't be asked at the moment: {problem}")

    def _text(self, response: httpx.Response) -> str:
        if response.status_code != HTTPStatus.OK:
            raise self._refusal(response)
        try:
            choice: Any = response.json()["choices"][0]
            text: Any = choice["message"]["content"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise EndpointError(
                f"{self._asked()} answered in a way that is not OpenAI's, without choices[0].message.content: "
                f"{self._shown(response.text)!r}; is the base URL the one that ends in the API version?"
            ) from None
        if isinstance(text, str) and text.strip():
            return text.strip()
        raise EndpointError(
            f"{self._asked()} gave no text (finish_reason {choice.get('finish_reason')}); a model that thinks before "
            "it answers needs more tokens"
        )

    def _refusal(self, response: httpx.Response) -> RetainError:
        told, variable = self._told(response), self._endpoint.key_variable
        match response.status_code:
            case HTTPStatus.UNAUTHORIZED:
                what = "does not accept the key in" if self._endpoint.api_key else "wants a key: set"
                return NotAuthenticatedError(f"{self._asked()} {what} {variable} ({told})")
            case HTTPStatus.FORBIDDEN:
                return PermissionDeniedError(f"{self._asked()} does not let the key in {variable} do this ({told})")
            case HTTPStatus.NOT_FOUND:
                return NotFoundError(f"{self._asked()} is not there; check the model and the base URL ({told})")
            case _:
                return EndpointError(f"{self._asked()} refused the request ({told})")

    def _asked(self) -> str:
        return f"{self._endpoint.model} at {self._endpoint.url}"

    def _told(self, response: httpx.Response) -> str:
        """The status and, when the body is OpenAI's error object, its message."""
        message = ""
        try:
            error: Any = response.json()["error"]
            message = str(error if isinstance(error, str) else error["message"])
        except (ValueError, LookupError, TypeError):
            log.debug("no error object in the answer of %s", self._endpoint.url)
        return f"HTTP {response.status_code} {response.reason_phrase} {self._shown(message)}".strip()

    def _shown(self, text: str) -> str:
        """The start of what an endpoint said, without the key, which some repeat."""
        key = self._endpoint.api_key
        return (text.replace(key, "…") if key else text)[:_SHOWN]


def _require_address(base_url: str) -> None:
    try:
        parts = urlsplit(base_url)
        _ = parts.port  # raises for a port that is none
    except ValueError:
        raise InvalidInputError("the base URL is no address; give http(s)://host/v1", field="base_url") from None
    if "@" in parts.netloc or parts.query or parts.fragment:  # not quoted: there may be a key in it
        raise InvalidInputError(
            "the base URL holds a user name, a password, a query or a fragment; give http(s)://host/v1, and the key "
            "through its variable",
            field="base_url",
        )
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInputError(f"the base URL is {base_url!r}; give http(s)://host/v1", field="base_url")


def _is_busy(response: httpx.Response) -> bool:
    return response.status_code == HTTPStatus.TOO_MANY_REQUESTS or response.status_code >= 500


def _delay(attempt: int, response: httpx.Response | None) -> float:
    """Seconds to wait: what the endpoint asks for, else doubling from the first delay, a little spread."""
    asked = response.headers.get("Retry-After", "") if response is not None else ""
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(asked).astimezone(UTC) - datetime.now(UTC)).total_seconds()
        except ValueError:
            seconds = math.nan
    if math.isfinite(seconds):
        return max(0.0, seconds)
    return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2**attempt) * random.uniform(0.75, 1.25)
