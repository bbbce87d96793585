"""`retain serve` and `retain mcp`: the ways in for other programs."""

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from retain.transports.cli.command import Call, command
from retain.transports.cli.display import one_line

if TYPE_CHECKING:
    from retain.core.service import MemoryService
    from retain.settings import Settings

PANEL = "Serve"
SERVER_MODULES = ("fastapi", "uvicorn", "mcp")

EVERY_ADDRESS = ("0.0.0.0", "::")


def register(app: typer.Typer, /) -> None:
    """Add the commands to `app`."""
    command(app, "serve", panel=PANEL)(serve)
    command(app, "mcp", panel=PANEL)(mcp)


async def serve(
    call: Call,
    *,
    host: Annotated[
        str | None, typer.Option("--host", metavar="HOST", help="Address to listen on. (env RETAIN_HOST)")
    ] = None,
    port: Annotated[
        str | None, typer.Option("--port", "-p", metavar="PORT", help="0 takes a free one. (env RETAIN_PORT)")
    ] = None,
) -> None:
    """Serve REST, MCP over HTTP and the API's documentation on one port, until stopped."""
    require_server("retain serve")
    call.arguments = {"host": host, "port": port}
    settings = call.local("serve")
    from retain.transports.logs import configure_logging
    from retain.transports.server import serve as run_server

    configure_logging(settings.log_level)
    await run_server(settings, announce=lambda url: _announce(url, settings, call))


def _announce(url: str, settings: "Settings", call: Call) -> None:
    if call.out.as_json:
        call.out.json({"url": url, "database_url": settings.database_url})
    else:
        from retain.bootstrap import database_path

        exposed = settings.host in EVERY_ADDRESS
        lines = (
            f"Retain listens on {url}" + (f"   and on every other address of this machine ({settings.host})" * exposed),
            f"  REST      {url}/api   described at {url}/docs",
            f"  MCP       {url}/mcp   or, started by the client: retain mcp",
            f"  database  {one_line(str(database_path(settings.database_url).absolute()))}",
            "Ctrl-C stops it.",
        )
        sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def mcp(call: Call) -> None:
    """Speak MCP on standard input and output, for a client that starts this command."""
    require_server("retain mcp")
    settings = call.local("mcp")
    from retain.transports.logs import configure_logging
    from retain.transports.mcp.streams import Channel

    channel = Channel()  # before anything else may print
    configure_logging(settings.log_level)
    import asyncio

    from retain.transports.mcp.stdio import run_stdio

    async def open_service() -> "MemoryService":
        from retain.bootstrap import open_service

        return await open_service(settings)

    asyncio.run(run_stdio(open_service, channel=channel))


def missing_server_modules() -> list[str]:
    """Return the packages of the [server] extra that are not installed."""
    return [name for name in SERVER_MODULES if find_spec(name) is None]


def require_server(what: str) -> None:
    """Refuse to go on without the packages of the [server] extra.

    Raises:
        CapabilityError: one of them is missing; the message says how to install them.
    """
    from retain.domain.errors import CapabilityError

    missing = missing_server_modules()
    if missing:
        raise CapabilityError(f'{what} needs {", ".join(missing)}; install with: pip install "retain[server]"')
