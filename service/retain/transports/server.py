"""One process, one port: REST under /api, its description at /docs, MCP at /mcp."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.auth.api_keys import ApiKeys
from retain.bootstrap import choose_embedder, make_service, open_store
from retain.core.service import MemoryService, utc_now
from retain.domain.errors import InvalidInputError
from retain.settings import Settings
from retain.transports.access import MCP_PATH, Access, require_safe_binding
from retain.transports.exchange import Exchanges
from retain.transports.lazy_mcp import LazyMcp
from retain.transports.rest.app import create_rest

logger = logging.getLogger(__name__)
SHUTDOWN_S = 5
"""How long running requests may take to end when the server stops."""
_BACKLOG = 2048
_CORS_REQUEST_HEADERS = (
    "Authorization",
    "X-API-Key",
    "X-Agent-ID",
    "Idempotency-Key",
    "Content-Type",
    "Last-Event-ID",
    "Mcp-Session-Id",
    "Mcp-Protocol-Version",
    "Mcp-Method",
    "Mcp-Name",
)


def create_app(
    service: MemoryService, keys: ApiKeys, settings: Settings, *, closing: asyncio.Event | None = None
) -> ASGIApp:
    """Return the whole service as one ASGI application.

    Args:
        service: The core; the caller closes it.
        keys: The API keys that requests are checked against.
        settings: `host` says whether requests without a key may be served at all.
        closing: Set by the server when it stops, so that streams end.
    """
    closing = closing or asyncio.Event()
    mcp = LazyMcp(service)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        loading = app.state.loading = asyncio.create_task(_warm(service), name="model")
        loading.add_done_callback(_log_failure)
        async with mcp.running():
            yield
        closing.set()
        loading.cancel()
        await asyncio.gather(loading, return_exceptions=True)

    site = Access(_Site(create_rest(service, closing, lifespan), mcp), keys=keys, settings=settings)
    if not settings.cors_origins:
        return Exchanges(site)
    return Exchanges(
        CORSMiddleware(
            site,
            allow_origins=settings.cors_origins,
            allow_methods=("GET", "POST", "PATCH", "DELETE"),
            allow_headers=_CORS_REQUEST_HEADERS,
            expose_headers=("Location", "Mcp-Session-Id"),
        )
    )


class _Site:
    """Sends /mcp to MCP and all else to REST."""

    def __init__(self, rest: ASGIApp, mcp: ASGIApp) -> None:
        self._rest, self._mcp = rest, mcp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        app = self._mcp if path == MCP_PATH or path.startswith(MCP_PATH + "/") else self._rest
        await app(scope, receive, send)


async def _warm(service: MemoryService) -> None:
    await service.warm_up()
    await service.require_ready()


def _log_failure(loading: "asyncio.Task[None]") -> None:
    if not loading.cancelled() and (error := loading.exception()) is not None:
        logger.error("only keyword search and listing work: %s", error)


def _is_no_cut_off(record: logging.LogRecord) -> bool:
    """Whether a record is no traceback of a request that was cut off; how many were, uvicorn says in one line."""
    kind = record.exc_info[0] if isinstance(record.exc_info, tuple) else None
    return kind is None or not issubclass(kind, asyncio.CancelledError)


class _Server(uvicorn.Server):
    """Ends streams before it waits for connections, and returns after a signal, so that the database is closed."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        log = logging.getLogger("uvicorn.error")
        log.addFilter(_is_no_cut_off)
        try:
            await super().shutdown(sockets)
        finally:
            log.removeFilter(_is_no_cut_off)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


async def serve(
    settings: Settings, *, announce: Callable[[str], None] | None = None, stop: asyncio.Event | None = None
) -> None:
    """Serve until a signal comes or `stop` is set.

    Args:
        settings: Where to listen (port 0 takes a free one), and on what.
        announce: Called once with the URL when requests are taken.
        stop: Ends the service when set.

    Raises:
        PermissionDeniedError: the address is reachable from outside and there is no API key.
        InvalidInputError: the address can't be listened on.
        StoreError: the database can't be opened.
    """
    embedder = choose_embedder(settings)
    store = await open_store(settings)
    service = make_service(store, embedder, settings)
    try:
        keys = ApiKeys(store, utc_now)
        require_safe_binding(settings.host, bool(await keys.all()))
        with contextlib.closing(listen(settings.host, settings.port)) as listener:
            await _serve_on(listener, service, keys, settings, announce, stop)
    finally:
        await service.aclose()


async def _serve_on(
    listener: socket.socket,
    service: MemoryService,
    keys: ApiKeys,
    settings: Settings,
    announce: Callable[[str], None] | None,
    stop: asyncio.Event | None,
) -> None:
    closing = asyncio.Event()
    config = uvicorn.Config(
        create_app(service, keys, settings, closing=closing),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=SHUTDOWN_S,
        timeout_keep_alive=30,
    )
    server = _Server(config, closing)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    watching = asyncio.create_task(_watch(server, url_of(listener), announce, stop))
    try:
        await running
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(server: _Server, url: str, announce: Callable[[str], None] | None, stop: asyncio.Event | None) -> None:
    await server.ready.wait()
    logger.info("listening on %s", url)
    if announce:
        announce(url)
    if stop:
        await stop.wait()
        server.should_exit = True


def listen(host: str, port: int, /) -> socket.socket:
    """Return a listening socket.

    Raises:
        InvalidInputError: there is no such address, or the port is taken.
    """
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, _, _, address = min(found, key=lambda item: item[0] != socket.AF_INET)
        # Asyncio turns Nagle's delay (40 ms a request) off only where the protocol is named.
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
        return listener
    except OSError as error:
        raise InvalidInputError(
            f"can't listen on {host}:{port}: {error.strerror or error}; choose another with --port or --host",
            field="port",
        ) from None


def url_of(listener: socket.socket, /) -> str:
    """Return the URL under which programs on this machine reach a listening socket."""
    host, port = listener.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}"
