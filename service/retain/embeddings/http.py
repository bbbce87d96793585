"""Embeddings from an endpoint that speaks OpenAI's `POST {base}/embeddings`: OpenAI, Ollama, vLLM, TEI and others."""

import asyncio
import logging
import math
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import EmbeddingError, InvalidInputError
from retain.domain.ids import shortened
from retain.embeddings.batching import slices
from retain.embeddings.recent import PASSAGE_BYTES, QUERY_BYTES, RecentVectors
from retain.embeddings.text import concatenated, refuse_long, sound_text, windows

if TYPE_CHECKING:
    import httpx

Vectors = NDArray[np.float32]

log = logging.getLogger(__name__)

# No tokenizer is at hand, so tokens are over-counted: a word piece of at most four ASCII characters, or any other
# single character. 256 of these fit every model in use.
_PIECE = re.compile(r"[A-Za-z0-9_]{1,4}|[^\sA-Za-z0-9_]")
PASSAGE_PIECES = 256
TEXTS_PER_REQUEST = 64
REQUESTS_AT_ONCE = 2
ATTEMPTS = 5
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 8.0
# A server that asks for a longer pause is out of quota; a caller should hear that rather than wait.
LONGEST_RETRY_AFTER_S = 60.0
TIMEOUT_S = 60.0


class HttpEmbedder:
    """A remote model as the core's `Embedder`.

    `url` is the base address ending in the API version, such as `https://host/v1`; `sleep` is awaited between
    attempts, with seconds.
    """

    def __init__(
        self,
        url: str,
        model: str,
        /,
        *,
        api_key: str | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Raises InvalidInputError for an address with a password or without a host, or an empty model name."""
        try:
            parts = urlsplit(url)
            _ = parts.port  # raises for a port that is none
        except ValueError:
            raise InvalidInputError(
                "RETAIN_EMBEDDING is no address, expected http(s)://host/v1#model-name", field="embedding"
            ) from None
        if "@" in parts.netloc:
            raise InvalidInputError(
                "RETAIN_EMBEDDING holds a user name or password; put the key in RETAIN_EMBEDDING_API_KEY",
                field="embedding",
            )
        if not parts.hostname or not model:
            raise InvalidInputError(
                f"RETAIN_EMBEDDING is {shortened(url + (f'#{model}' if model else ''))}, expected "
                "http(s)://host/v1#model-name",
                field="embedding",
            )
        self._url = parts._replace(path=parts.path.rstrip("/") + "/embeddings", fragment="").geturl()
        self._model = model
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._sleep = sleep
        self._client: httpx.AsyncClient | None = None
        self._dimensions: int | None = None
        self._problem = ""
        self._queries, self._passages = RecentVectors(QUERY_BYTES), RecentVectors(PASSAGE_BYTES)

    def __repr__(self) -> str:
        return f"HttpEmbedder({self._url!r}, {self._model!r})"

    @property
    def model_id(self) -> str:
        """The model's name with `@endpoint`: what weights stand behind it, only its operator knows."""
        return f"{self._model}@endpoint"

    @property
    def dimensions(self) -> int:
        """Length of a vector, known after the first answer. Never waits.

        Raises:
            EmbeddingError: the endpoint has not answered yet; the message says why.
        """
        if self._dimensions is None:
            raise EmbeddingError(self._problem or f"the embedding endpoint {self._url} was not asked yet")
        return self._dimensions

    @property
    def passage_tokens(self) -> int:
        """Most pieces, as `token_offsets` counts them, of one passage."""
        return PASSAGE_PIECES

    def token_offsets(self, text: str, /) -> NDArray[np.int32]:
        """Return (t, 2): first and past-the-end character of pieces that are never larger than a few tokens."""
        return np.array([match.span() for match in _PIECE.finditer(text)], np.int32).reshape(-1, 2)

    async def warm_up(self) -> None:
        """Ask for one vector to learn the number of dimensions, unless it is known.

        Raises:
            EmbeddingError: the endpoint doesn't answer or refuses.
        """
        if self._dimensions is None:
            await self._embed(["warm up"])

    async def embed_passages(self, texts: Sequence[str], /) -> Vectors:
        """Return (n, d) float32 unit rows in the order of `texts`; those embedded last are remembered.

        Raises:
            TooLargeError: a text has more than `passage_tokens` pieces.
            EmbeddingError: the endpoint failed, refused, or answered with vectors of another size.
        """
        for text in texts:
            refuse_long(len(self.token_offsets(text)), PASSAGE_PIECES, self._model)
        if not texts:
            await self.warm_up()
            return np.empty((0, self.dimensions), np.float32)
        return await self._passages.or_made(texts, self._embed)

    async def embed_query(self, text: str, /) -> Vectors:
        """Return the (d,) float32 unit row of a question; a long one is the normalised mean of its windows.

        Raises:
            EmbeddingError: the endpoint failed, refused, or answered with a vector of another size.
        """
        return (await self._queries.or_made([text], self._embed_queries))[0]

    async def _embed_queries(self, texts: Sequence[str]) -> Vectors:
        parts = [await self._embed(windows(text, self.token_offsets(text), PASSAGE_PIECES)) for text in texts]
        return _unit_rows(np.array([part.sum(axis=0) for part in parts], np.float64))

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        self._queries.clear()
        self._passages.clear()
        if client is not None:
            await client.aclose()

    async def _embed(self, texts: Sequence[str]) -> Vectors:
        if self._client is None:
            self._client = self._new_client()
        client, gate = self._client, asyncio.Semaphore(REQUESTS_AT_ONCE)

        async def part(some: Sequence[str]) -> Vectors:
            async with gate:
                return await self._request(client, [sound_text(text) for text in some])

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(part(some)) for some in slices(texts, TEXTS_PER_REQUEST)]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return concatenated([task.result() for task in tasks], 0)

    def _new_client(self) -> "httpx.AsyncClient":
        import httpx

        return httpx.AsyncClient(headers=self._headers, timeout=TIMEOUT_S)

    async def _request(self, client: "httpx.AsyncClient", texts: list[str]) -> Vectors:
        import httpx

        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        problem = ""
        for attempt in range(ATTEMPTS):
            response = None
            try:
                response = await client.post(self._url, json=body)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if response.status_code == HTTPStatus.OK:
                    return self._vectors(response, len(texts))
                problem = _problem(response)
                if response.status_code != HTTPStatus.TOO_MANY_REQUESTS and response.status_code < 500:
                    break
            delay = _delay(attempt, response)
            if attempt + 1 == ATTEMPTS or delay > LONGEST_RETRY_AFTER_S:
                break
            log.info("embedding endpoint failed (%s), trying again in %.1f s", problem, delay)
            await self._sleep(delay)
        self._problem = (
            f"the embedding endpoint {self._url} did not give vectors of {self._model}: {problem}; "
            "check RETAIN_EMBEDDING, RETAIN_EMBEDDING_API_KEY and the endpoint itself"
        )
        raise EmbeddingError(self._problem)

    def _vectors(self, response: "httpx.Response", count: int) -> Vectors:
        try:
            rows = sorted(response.json()["data"], key=lambda row: row["index"])
            if [row["index"] for row in rows] != list(range(count)):
                raise ValueError(f"{len(rows)} rows for {count} texts")
            vectors = np.array([row["embedding"] for row in rows], np.float64)
            if vectors.ndim != 2:
                raise ValueError("rows are not lists of numbers")
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise EmbeddingError(
                f"the embedding endpoint {self._url} answered in a way that is not OpenAI's: "
                f"{type(error).__name__}: {str(error)[:200]}"
            ) from error
        if self._dimensions is None:
            self._dimensions = vectors.shape[1]
        elif vectors.shape[1] != self._dimensions:
            raise EmbeddingError(
                f"the embedding endpoint {self._url} gave vectors of {vectors.shape[1]} numbers, before they had "
                f"{self._dimensions}: the model behind {self._model} was changed; restore it or run "
                "`retain reembed`"
            )
        return _unit_rows(vectors)


def _unit_rows(vectors: NDArray[np.float64]) -> Vectors:
    """(n, d) float32 unit rows; numbers too large to be squared are scaled before that."""
    largest = np.abs(vectors).max(axis=1, initial=0, keepdims=True)
    if not (np.isfinite(largest).all() and (largest > 0).all()):
        raise EmbeddingError("the embedding endpoint gave a vector that is zero or not a number")
    scaled = vectors / largest
    return (scaled / np.linalg.norm(scaled, axis=1, keepdims=True)).astype(np.float32)


def _problem(response: "httpx.Response") -> str:
    """The status and, when the body is OpenAI's error object, its message."""
    message = ""
    try:
        error: Any = cast(dict[str, Any], response.json())["error"]
        message = str(cast(dict[str, Any], error)["message"] if isinstance(error, dict) else error)
    except (KeyError, TypeError, ValueError):
        log.debug("no error object in the endpoint's answer")
    return f"HTTP {response.status_code} {response.reason_phrase} {message[:200]}".strip()


def _delay(attempt: int, response: "httpx.Response | None") -> float:
    """Seconds to wait: what the server asks for, else doubling from half a second, a little spread."""
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
