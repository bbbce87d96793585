"""MCP at /mcp, imported at its first request: the SDK takes longer to import than all the rest to start."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import TYPE_CHECKING, cast

from starlette.types import Receive, Scope, Send

from retain.core.policy import Principal
from retain.core.service import MemoryService
from retain.domain.errors import CapabilityError, RetainError
from retain.transports.exchange import UNEXPECTED, answer
from retain.transports.problems import problem

if TYPE_CHECKING:
    from retain.transports.mcp.http import McpHttp

logger = logging.getLogger(__name__)


def principal_in(scope: Scope, /) -> Principal:
    """Return on whose behalf a request is made; `Access` has put it there."""
    return cast("Principal", scope["state"]["principal"])


class LazyMcp:
    """ASGI app that becomes the MCP app at its first request."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service
        self._wanted = asyncio.Event()
        self._decided = asyncio.Event()
        self._running = False
        self._http: McpHttp | None = None
        self._failure: RetainError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: D102 - ASGI
        self._wanted.set()
        if self._running:
            await self._decided.wait()
        if self._http is None:
            await answer(send, *problem(self._failure or RetainError(UNEXPECTED)))
        else:
            await self._http.app(scope, receive, send)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Hold the task in which MCP lives, once somebody wants it."""
        task = asyncio.create_task(self._live(), name="mcp")
        self._running = True
        try:
            yield
        finally:
            self._running = False
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _live(self) -> None:
        await self._wanted.wait()
        try:
            module = await asyncio.to_thread(import_module, "retain.transports.mcp.http")
            http = cast("McpHttp", module.create(self._service, principal_of=principal_in))
            async with http.run():
                self._http = http
                self._decided.set()
                await asyncio.get_running_loop().create_future()
        except ModuleNotFoundError as error:
            logger.error("MCP is not available: %s", error)
            self._failure = CapabilityError('MCP needs the package mcp; install "retain[server]"')
        except Exception:
            logger.exception("MCP failed")
        finally:
            self._http = None
            self._decided.set()
