"""Any other memory system, as a command that speaks JSON Lines or as an HTTP endpoint.

Both get the same two requests, one JSON object each, and answer with one JSON object:

    {"op": "store", "haystack": "h1", "mode": "turn", "sessions":
        [{"session": 0, "started_at": "2023-05-20T03:29:00Z", "turns": [{"turn": 0, "role": "user", "content": "…"}]}]}
    -> {}
    {"op": "search", "haystack": "h1", "question": "…", "k": 20, "grouped": false}
    -> {"hits": [{"session": 0, "turn": 3, "score": 0.71}, …]}
    {"op": "forget", "haystack": "h1"}
    -> {}

Sessions and turns are numbers, since the dataset's ids give the evidence away. `turn` is left out or null in mode
"session". {"error": "…"} stops the run with that message. A command gets a request a line on its standard input and
answers with a line each; its standard error is shown. An endpoint gets each as the body of a POST.
"""

import asyncio
import json
import shlex
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any, Protocol, cast

import httpx

from retain import InvalidInputError, StoreUnavailableError
from retain_evals.haystack import Haystack, Session
from retain_evals.run import Grouping, Mode, Ranked

_LONGEST_LINE = 1 << 28
_TIMEOUT_S = 600.0


class _Exchange(Protocol):
    async def ask(self, request: Mapping[str, Any], /) -> Mapping[str, Any]: ...

    async def aclose(self) -> None: ...


class External:
    """A peer behind `command:…` or `http://…`.

    Args:
        target: A URL, or a command line as a shell would split it.
        label: The name in reports.
    """

    is_remote = True

    def __init__(self, target: str, /, *, label: str) -> None:
        self._target = target
        self._label = label
        self._exchange: _Exchange | None = None

    @property
    def name(self) -> str:
        """The label."""
        return self._label

    async def settings(self) -> Mapping[str, str]:
        """Return what is asked; its own settings are the peer's to tell."""
        return {"target": self._target}

    @asynccontextmanager
    async def stored(self, haystack: Haystack, mode: Mode, /) -> AsyncGenerator["_Stored"]:
        """Send the sessions; leaving tells the peer to forget them."""
        sessions = [_session(number, session) for number, session in enumerate(haystack.sessions)]
        await self._ask({"op": "store", "haystack": haystack.id, "mode": mode, "sessions": sessions})
        yield _Stored(self, haystack, mode)
        await self._ask({"op": "forget", "haystack": haystack.id})

    async def search(self, request: Mapping[str, Any], /) -> Sequence[Mapping[str, Any]]:
        """Return the hits of a search.

        Raises:
            InvalidInputError: the answer has no list of hits.
        """
        hits: object = (await self._ask(request)).get("hits")
        if not isinstance(hits, list):
            raise InvalidInputError(f"{self._label} answered a search without a list of hits", field="hits")
        return cast("list[Mapping[str, Any]]", hits)

    async def aclose(self) -> None:
        """End the command, or close the connection."""
        if self._exchange is not None:
            await self._exchange.aclose()
            self._exchange = None

    async def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._exchange is None:
            is_url = self._target.startswith(("http://", "https://"))
            self._exchange = _Endpoint(self._target) if is_url else await _Command.start(self._target)
        answer = await self._exchange.ask(request)
        if "error" in answer:
            raise StoreUnavailableError(f"{self._label} refused {request['op']}: {answer['error']}")
        return answer


def _session(number: int, session: Session) -> Mapping[str, Any]:
    at = session.started_at
    return {
        "session": number,
        "started_at": None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "turns": [
            {"turn": place, "role": turn.role, "content": turn.content} for place, turn in enumerate(session.turns)
        ],
    }


class _Stored:
    """One haystack at the peer."""

    def __init__(self, peer: External, haystack: Haystack, mode: Mode) -> None:
        self._peer = peer
        self._haystack = haystack
        self._mode: Mode = mode

    async def search(self, question: str, k: int, grouping: Grouping, /) -> Sequence[Ranked]:
        """Ask the peer."""
        hits = await self._peer.search(
            {
                "op": "search",
                "haystack": self._haystack.id,
                "question": question,
                "k": k,
                "grouped": grouping == "grouped",
            }
        )
        return [self._ranked(hit) for hit in hits[:k]]

    def _ranked(self, hit: Mapping[str, Any]) -> Ranked:
        try:
            session = self._haystack.sessions[_number(hit["session"])]
            turn = session.turns[_number(hit["turn"])].id if self._mode == "turn" else None
            return Ranked(session.id, turn, float(hit["score"]))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"{self._peer.name} returned the hit {json.dumps(hit)}, which names no stored memory: {error!r}; "
                "it needs session, turn (in mode turn) and score",
                field="hits",
            ) from None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is no number from 0")
    return value


class _Command:
    """A child process; one line each way."""

    def __init__(self, process: asyncio.subprocess.Process, command: str) -> None:
        self._process = process
        self._command = command
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, command: str) -> "_Command":
        words = shlex.split(command)
        if not words:
            raise InvalidInputError("the command of the system is empty", field="system")
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_LONGEST_LINE
            )
        except OSError as error:
            raise InvalidInputError(f"{words[0]} can't be started: {error.strerror}", field="system") from None
        return cls(process, command)

    async def ask(self, request: Mapping[str, Any], /) -> Mapping[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        async with self._turn:
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                await self._process.stdin.drain()
                line = await asyncio.wait_for(self._process.stdout.readline(), _TIMEOUT_S)
            except (BrokenPipeError, ConnectionResetError):
                line = b""
            except TimeoutError:
                raise StoreUnavailableError(f"{self._command} did not answer for {_TIMEOUT_S:.0f} s") from None
        if not line:
            raise StoreUnavailableError(f"{self._command} ended before it answered {request['op']}")
        return _object(line, self._command)

    async def aclose(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 10)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class _Endpoint:
    """An HTTP endpoint; one POST each."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S)

    async def ask(self, request: Mapping[str, Any], /) -> Mapping[str, Any]:
        try:
            response = await self._client.post(self._url, json=request)
        except httpx.HTTPError as error:
            raise StoreUnavailableError(f"{self._url} can't be reached: {error or type(error).__name__}") from None
        if response.is_error:
            raise StoreUnavailableError(
                f"{self._url} answered {request['op']} with {response.status_code}: {response.text[:200]}"
            )
        return _object(response.content, self._url)

    async def aclose(self) -> None:
        await self._client.aclose()


def _object(answer: bytes, source: str) -> Mapping[str, Any]:
    try:
        read: object = json.loads(answer)
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise InvalidInputError(f"{source} answered {answer[:200]!r}, which is no JSON object", field="system")
    return cast("Mapping[str, Any]", read)
