"""MCP clients that fixtures can hold open."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.client import Client


@asynccontextmanager
async def connected(client: Client) -> AsyncIterator[Client]:
    """Hold `client` open in a task of its own: its scopes must end in the task that began them.

    pytest sets up and tears down an async fixture in different tasks.
    """
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        try:
            async with client:
                ready.set_result(None)
                await done.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
                return
            raise

    task = asyncio.create_task(hold())
    await ready
    try:
        yield client
    finally:
        done.set()
        await task
