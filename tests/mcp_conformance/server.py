"""A server with the suite's fixtures beside Retain's own features, on Retain's HTTP stack and behind its gate.

    python server.py PORT DATABASE streams|shipped

With "streams" it keeps sessions and answers as event streams, since the suite has tools that ask their client something
or report progress. With "shipped" it serves as `retain serve` does, which has no such tools: no sessions, JSON answers.
"""

import asyncio
import sys
import warnings
from typing import Any

import uvicorn
from fixtures import fixtures
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    EmptyResult,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    UnsubscribeRequestParams,
)

from retain.auth.api_keys import ApiKeys
from retain.bootstrap import choose_embedder, make_service, open_store
from retain.core.service import MemoryService, utc_now
from retain.settings import Settings
from retain.transports.access import Access
from retain.transports.exchange import Exchanges
from retain.transports.mcp.features import Context
from retain.transports.mcp.http import McpHttp, scope_of, serve
from retain.transports.mcp.server import make_server, memory_features


async def accepted(context: Context, params: Any) -> EmptyResult:
    return EmptyResult()


async def completed(context: Context, params: Any) -> CompleteResult:
    return CompleteResult(completion=Completion(values=[], total=0, has_more=False))


def endpoint(service: MemoryService, *, sessions: bool) -> McpHttp:
    """Return the MCP endpoint with fixtures, made by the factory that `retain serve` uses."""

    async def memory_of(context: Context) -> MemoryService:
        return service.acting_as(scope_of(context)["state"]["principal"])

    bus = InMemorySubscriptionBus()
    server = make_server(memory_features(memory_of) + fixtures(bus))
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name))
    server.add_request_handler("logging/setLevel", SetLevelRequestParams, accepted)
    server.add_request_handler("resources/subscribe", SubscribeRequestParams, accepted)
    server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accepted)
    server.add_request_handler("completion/complete", CompleteRequestParams, completed)
    server.add_request_handler("subscriptions/listen", SubscriptionsListenRequestParams, ListenHandler(bus))
    return serve(server, sessions=sessions)


async def main(port: int, database: str, mode: str) -> None:
    """Serve until the process is ended."""
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # the suite asks for sampling and logging
    settings = Settings(database_url=database, port=port)
    store = await open_store(settings)
    service = make_service(store, choose_embedder(settings), settings)
    mcp = endpoint(service, sessions=mode == "streams")
    app = Exchanges(Access(mcp.app, keys=ApiKeys(store, utc_now), settings=settings))
    web = uvicorn.Server(uvicorn.Config(app, port=port, lifespan="off", log_level="warning"))
    async with mcp.run():
        await web.serve()
    await service.aclose()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
