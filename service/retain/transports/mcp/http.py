"""MCP over Streamable HTTP: one endpoint, JSON answers, no sessions.

Nothing here is kept between requests. So a restart, or a month of silence, costs a client nothing, and one key can't
reach what another one began. A request that names a session of some earlier server is told that there is none (404),
upon which clients begin anew. Who may come in at all (Host, Origin, key) is decided before this app.
"""

import json
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, Tool
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from retain.core.policy import Principal
from retain.transports.mcp.features import Context
from retain.transports.mcp.messages import UnreadableError, dump, read
from retain.transports.mcp.server import make_server, memory_features

if TYPE_CHECKING:
    from retain.core.service import MemoryService

PrincipalOf = Callable[[Scope], Principal]
SESSION_IDLE_S = 24 * 3600.0
_SESSION = b"mcp-session-id"
_VERSION = b"mcp-protocol-version"


@dataclass(frozen=True, slots=True)
class McpHttp:
    """The endpoint as an ASGI app, and its life."""

    app: ASGIApp
    run: Callable[[], AbstractAsyncContextManager[None]]
    """Enter once, in a task that lives as long as the app serves."""


def create(service: "MemoryService", *, principal_of: PrincipalOf) -> McpHttp:
    """Return the endpoint for a memory.

    Args:
        service: The memory; each request uses it on behalf of its own principal.
        principal_of: Who sent a request, by its ASGI scope.
    """

    async def memory_of(context: Context) -> "MemoryService":
        return service.acting_as(principal_of(scope_of(context)))

    def offered(context: Context, tool: Tool) -> bool:
        reads = tool.annotations is not None and tool.annotations.read_only_hint is True
        return reads or principal_of(scope_of(context)).can_write

    return serve(make_server(memory_features(memory_of), offered=offered))


def scope_of(context: Context) -> Scope:
    """Return the ASGI scope of the request that a call came in."""
    request = context.request
    if request is None:
        raise RuntimeError("this call did not come over HTTP")
    return request.scope


def serve(server: "Server[Any]", /, *, sessions: bool = False) -> McpHttp:
    """Return the endpoint for any MCP server.

    Args:
        server: What to serve.
        sessions: Keep sessions and answer as event streams, for servers that ask their clients something or report
            progress. Retain itself does neither.
    """
    # At INFO the SDK writes a line for each request about a session that there is not.
    transport = logging.getLogger("mcp.server.streamable_http")
    if transport.getEffectiveLevel() == logging.INFO:
        transport.setLevel(logging.WARNING)
    manager = StreamableHTTPSessionManager(
        server,
        json_response=not sessions,
        stateless=not sessions,
        session_idle_timeout=SESSION_IDLE_S,
        max_request_body_size=sys.maxsize,  # `Access` has counted it already, by the one limit there is
    )
    return McpHttp(manager.handle_request if sessions else _without_sessions(manager.handle_request), manager.run)


def _without_sessions(app: ASGIApp) -> ASGIApp:
    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        pieces = await _pieces(receive)
        await (_unreadable(pieces) or app)(scope, _replayed(pieces, receive), send)

    return checked


def _refusal(scope: Scope) -> Response | None:
    if scope["method"] != "POST":
        return _error(
            405, "Method not allowed: this server has no sessions and no stream of its own; use POST", {"Allow": "POST"}
        )
    headers = dict(scope["headers"])
    handshake_era = headers.get(_VERSION, b"").decode("latin-1") in {"", *HANDSHAKE_PROTOCOL_VERSIONS}
    if handshake_era and _SESSION in headers:
        return _error(404, "Session not found: this server keeps none; send initialize, or no Mcp-Session-Id")
    return None


async def _pieces(receive: Receive) -> list[Message]:
    """Return the messages that make up a request, up to its end or the client's."""
    pieces = [await receive()]
    while pieces[-1].get("more_body", False):
        pieces.append(await receive())
    return pieces


def _replayed(pieces: list[Message], receive: Receive) -> Receive:
    left = iter(pieces)

    async def again() -> Message:
        return next(left, None) or await receive()

    return again


def _unreadable(pieces: list[Message]) -> Response | None:
    """Return the refusal of a body that stdio would not take for a message either: the SDK would read it by halves."""
    if pieces[-1]["type"] != "http.request":
        return None
    try:
        read(b"".join(piece.get("body", b"") for piece in pieces))
    except UnreadableError as fault:
        return Response(dump(fault.answer), 400, media_type="application/json")
    return None


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": message}}
    return Response(json.dumps(body), status, headers, "application/json")
