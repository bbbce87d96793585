"""Who is asking, and whether from where they may: one gate before REST and MCP alike. See docs/security.md.

The principal is left in `scope["state"]["principal"]`; None on the few public pages when no key was sent.
"""

import ipaddress
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from retain.auth.api_keys import ApiKeys
from retain.core.policy import LOCAL_USER, MAX_AGENT_CHARS, Principal
from retain.domain.errors import (
    InvalidInputError,
    NotAuthenticatedError,
    PermissionDeniedError,
    RetainError,
)
from retain.domain.ids import shortened
from retain.domain.text import clean_name
from retain.settings import Settings
from retain.transports.admitted import Admitted, too_large
from retain.transports.exchange import answer
from retain.transports.problems import problem

PUBLIC_PATHS = frozenset(("/", "/docs", "/openapi.json", "/api/health", "/api/health/live", "/api/health/ready"))
"""Served without a key; they say nothing of what is stored or where."""
MCP_PATH = "/mcp"
BODY_LIMIT = 8 * 1024 * 1024
"""Largest body of an ordinary REST request in bytes; more when `max_content_chars` asks for it."""
MCP_BODY_LIMIT = 4 * 1024 * 1024
"""The same for a request over MCP."""
UNLIMITED_PATHS = frozenset(("/api/import",))
"""Bodies that are read as a stream, line by line."""
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_MISDIRECTED = 421
_LONGEST_LENGTH = 18
_HOW = "send one as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'; make one with: retain keys create NAME"


def is_loopback(host: str) -> bool:
    """Whether a name or address, with or without brackets, can only mean this machine."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def require_safe_binding(host: str, has_keys: bool) -> None:
    """Refuse to serve other machines while anybody could do anything.

    Raises:
        PermissionDeniedError: `host` is reachable from outside and there is no API key.
    """
    if not has_keys and not is_loopback(host):
        raise PermissionDeniedError(
            f"{host or '0.0.0.0'} is reachable from other machines and this database has no API key, so everybody "
            "could read and write it. Make a key first (retain keys create NAME --read-write), or listen on 127.0.0.1",
            field="host",
        )


class Access:
    """ASGI layer that lets a request through with its principal, or answers with a problem."""

    def __init__(self, app: ASGIApp, *, keys: ApiKeys, settings: Settings) -> None:
        self._app = app
        self._keys = keys
        self._local = is_loopback(settings.host)
        self._hosts = frozenset(host.lower() for host in settings.allowed_hosts)
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.cors_origins)
        self._room = 12 * settings.max_content_chars + 1024 * 1024  # one memory fits, however it is escaped

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            foreign = self._check_origin(scope, headers)
            key = presented_key(headers)
            principal = await self._principal(scope, headers, key, foreign)
            agent = agent_in(headers)
            state = cast("dict[str, Any]", scope.setdefault("state", {}))
            state["principal"] = principal if principal is None or agent is None else narrowed(principal, agent)
            limit = self._limit(scope["path"])
            if limit is not None:
                _check_length(headers, limit)
        except _MisdirectedError as error:
            await answer(send, *problem(error, _MISDIRECTED))
        except RetainError as error:
            await answer(send, *problem(error))
        else:
            admitted = Admitted(receive, send, limit, lambda: self._principal(scope, headers, key, foreign))
            await admitted.run(self._app, scope)

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        name = _host_name(given[0]) if len(given) == 1 else ""
        if name in self._hosts or is_loopback(name) or (not self._local and not self._hosts and name):
            return
        raise _MisdirectedError(
            f"the Host {shortened(', '.join(given))} is not served here; add it to the setting allowed_hosts",
            field="Host",
        )

    def _check_origin(self, scope: Scope, headers: Headers) -> bool:
        """Whether another site's page asks; refused when that may change something."""
        origin = headers.get("origin")
        if origin is None:
            return False
        if _authority(origin) == headers.get("host", "").lower():
            return False
        allowed = "*" in self._origins or origin.lower() in self._origins
        if not allowed and (scope["method"] not in _SAFE_METHODS or _is_mcp(scope["path"])):
            raise PermissionDeniedError(
                f"web pages of {shortened(origin)} may not call this service; the setting cors_origins names "
                "those that may",
                field="Origin",
            )
        return "*" in self._origins or not allowed

    async def _principal(self, scope: Scope, headers: Headers, key: str | None, foreign: bool) -> Principal | None:
        if key is not None:
            return await self._keys.principal_of(key)
        if scope["path"] in PUBLIC_PATHS:
            return None
        if not self._local:
            raise NotAuthenticatedError(f"this service takes an API key: {_HOW}")
        if await self._keys.all():
            raise NotAuthenticatedError(f"this database has API keys, so each request takes one: {_HOW}")
        if foreign or not is_loopback(_host_name(headers["host"])) or any(name in headers for name in _PROXY_HEADERS):
            raise NotAuthenticatedError(
                f"only programs on this machine may do without an API key, not web pages or proxies: {_HOW}"
            )
        return LOCAL_USER

    def _limit(self, path: str) -> int | None:
        if path in UNLIMITED_PATHS:
            return None
        return max(MCP_BODY_LIMIT if _is_mcp(path) else BODY_LIMIT, self._room)


class _MisdirectedError(InvalidInputError):
    """The request names a host that is not this service."""


def presented_key(headers: Headers, /) -> str | None:
    """Return the API key of a request, None when it has none.

    Raises:
        NotAuthenticatedError: there is a credential that can be no key.
    """
    given = [("x-api-key", value.strip()) for value in headers.getlist("x-api-key")]
    for value in headers.getlist("authorization"):
        scheme, _, key = value.partition(" ")
        given.append(("authorization", key.strip() if scheme.lower() == "bearer" else ""))
    if not given:
        return None
    keys = {key for _, key in given}
    if len(keys) > 1 or "" in keys:
        raise NotAuthenticatedError(f"the credential of this request is not one API key; {_HOW}")
    return keys.pop()


def agent_in(headers: Headers, /) -> str | None:
    """Return the agent that `X-Agent-ID` names, None without that header.

    Raises:
        InvalidInputError: several headers, or no usable name of up to 64 characters.
    """
    given = headers.getlist("x-agent-id")
    if not given:
        return None
    if len(given) > 1:
        raise InvalidInputError("X-Agent-ID is given more than once", field="X-Agent-ID")
    try:
        name = given[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        name = given[0]
    return clean_name(name, field="X-Agent-ID", limit=MAX_AGENT_CHARS)


def narrowed(principal: Principal, agent: str, /) -> Principal:
    """Return `principal` speaking for `agent` alone.

    Raises:
        PermissionDeniedError: it is bound to another agent.
    """
    return replace(principal, agent_id=principal.agent_for(agent))


def _authority(origin: str) -> str | None:
    """Return host and port of a web origin, None for what is none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if origin.isascii() and parts.scheme in ("http", "https") else None


def _is_mcp(path: str) -> bool:
    return path == MCP_PATH or path.startswith(MCP_PATH + "/")


def _host_name(host: str) -> str:
    """Return a Host header without its port."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() else host.lower()


def _check_length(headers: Headers, limit: int) -> None:
    length = headers.get("content-length", "")
    if length.isdecimal() and (len(length) > _LONGEST_LENGTH or int(length) > limit):
        raise too_large(limit)
