"""MCP over stdin and stdout: the handshake is answered at once, the database and the model open behind it."""

import asyncio
import importlib
import logging
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from retain.domain.errors import RetainError
from retain.transports.mcp.features import Context
from retain.transports.mcp.messages import UnreadableError, dump, parse
from retain.transports.mcp.server import make_server, memory_features
from retain.transports.mcp.streams import Channel

if TYPE_CHECKING:
    from retain.core.service import MemoryService

ServiceOpener = Callable[[], "Awaitable[MemoryService]"]
DRAIN_S = 30.0
"""How long running calls may take to finish once the client has closed its side or a signal came."""
_READ_AHEAD = 64
_STOPPING = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger(__name__)


async def run_stdio(open_service: ServiceOpener, /, *, channel: Channel | None = None) -> None:
    """Serve MCP on stdin and stdout until the client closes stdin, or SIGTERM or SIGINT comes.

    Calls that are running then are finished and answered first. Whoever holds the pipe is the local user.

    Args:
        open_service: Opens the memory. Called once the handshake is answered, and again after a failure.
        channel: The streams, when the caller took hold of them before it imported this module.
    """
    memory = _Memory(open_service)
    server = make_server(memory_features(memory.of))
    wire = _Wire(channel or Channel(), memory.start)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(wire.read(to_server, to_client.clone()))
            tasks.create_task(wire.write(from_server))
            await server.run(from_client, to_client, server.create_initialization_options())
    finally:
        await memory.aclose()


class _Memory:
    """The service, opened in the background; a call that comes earlier waits for it."""

    def __init__(self, open_service: ServiceOpener) -> None:
        self._open_service = open_service
        self._opening: asyncio.Task[MemoryService] | None = None
        self._warming: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[MemoryService]":
        """Begin to open, unless that is under way or done."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(_heard)
        return self._opening

    async def _open(self) -> "MemoryService":
        # Imported on a thread: the event loop has clients to answer meanwhile.
        await asyncio.to_thread(importlib.import_module, "retain.bootstrap")
        service = await self._open_service()
        self._warming = asyncio.create_task(_warm(service))
        return service

    async def of(self, context: Context) -> "MemoryService":
        """Return the service, for the local user. A failure is told, and the next call tries again."""
        opening = self.start()
        try:
            return await asyncio.shield(opening)
        except Exception:
            if self._opening is opening:
                self._opening = None
            raise

    async def aclose(self) -> None:
        """Close what was opened."""
        opening = self._opening
        if opening is None:
            return
        if not opening.done():
            opening.cancel()
        (service,) = await asyncio.gather(opening, return_exceptions=True)
        if not isinstance(service, BaseException):
            await service.aclose()  # also ends a download of the model
        if self._warming is not None:
            await self._warming


async def _warm(service: "MemoryService") -> None:
    try:
        await service.warm_up()
        await service.require_ready()
    except RetainError as error:
        _log.warning("only keyword search and listing work: %s", error)


def _heard(opening: "asyncio.Task[MemoryService]") -> None:
    if not opening.cancelled() and (error := opening.exception()) is not None:
        _log.error("the memory can't be opened: %s", error)


class _Wire:
    """Both directions of the channel, and which requests still await their answer."""

    def __init__(self, channel: Channel, on_first_answer: Callable[[], object]) -> None:
        self._channel = channel
        self._on_first_answer = on_first_answer
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_READ_AHEAD)
        self._unanswered: set[int | str] = set()
        self._settled = asyncio.Event()
        self._answered_once = False

    async def read(
        self,
        to_server: MemoryObjectSendStream[SessionMessage | Exception],
        to_client: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Hand lines to the server until the client closes or a signal comes, then wait for the last answers."""
        loop = asyncio.get_running_loop()
        for name in _STOPPING:
            with suppress(NotImplementedError):  # Windows has no signal handlers on an event loop
                loop.add_signal_handler(name, self._incoming.put_nowait, None)
        threading.Thread(target=self._pump, args=(loop,), name="stdin", daemon=True).start()
        async with to_server, to_client:
            while (line := await self._incoming.get()) is not None:
                self._room.release()
                if not line.strip():
                    continue
                try:
                    message = parse(line)
                except UnreadableError as fault:
                    await to_client.send(SessionMessage(fault.answer))
                    continue
                self._note(message)
                await to_server.send(SessionMessage(message))
            for name in _STOPPING:
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(name)  # the next one ends the process at once
            with suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_S):
                    while self._unanswered:
                        self._settled.clear()
                        await self._settled.wait()

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            try:
                for line in self._channel.lines():
                    self._room.acquire()
                    loop.call_soon_threadsafe(self._incoming.put_nowait, line)
            except OSError as error:
                _log.warning("standard input can't be read: %s", error)
            loop.call_soon_threadsafe(self._incoming.put_nowait, None)

    def _note(self, message: object) -> None:
        if isinstance(message, JSONRPCRequest):
            self._unanswered.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._settle((message.params or {}).get("requestId"))

    def _settle(self, request_id: object) -> None:
        if isinstance(request_id, int | str):
            self._unanswered.discard(request_id)
            self._settled.set()

    async def write(self, from_server: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Write what the server says, one line a message."""
        async with from_server:
            async for outgoing in from_server:
                message = outgoing.message
                try:
                    await asyncio.to_thread(self._channel.write, dump(message))
                except OSError as error:
                    _log.info("the client is gone: %s", error)
                    self._unanswered.clear()
                    self._incoming.put_nowait(None)
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.id)
                    if not self._answered_once:
                        self._answered_once = True
                        self._on_first_answer()
