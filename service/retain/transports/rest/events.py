"""The stream of changes as server-sent events."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.domain.json_form import event_to_json
from retain.domain.memory import Event
from retain.transports.rest.requests import (
    Service,
    StrictRoute,
    documented_query,
    header_of,
    query_of,
)
from retain.transports.wire import OptionalWhole, Wire

HEARTBEAT_S = 15.0
"""Silence after which a comment is sent, so that proxies keep the connection and dead ones are noticed."""
RETRY_MS = 1_000
LAST_EVENT_ID = "Last-Event-ID"
_MAX_SEQ = 2**63 - 1

router = APIRouter(route_class=StrictRoute, tags=["export, import, events"])


class EventFields(Wire):
    """Where a stream of events starts."""

    after: OptionalWhole = Field(None, description="Events after this one; the header Last-Event-ID wins")


@router.get(
    "/events",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Server-sent events"}},
    openapi_extra=documented_query(EventFields),
)
async def events(request: Request, service: Service) -> Response:
    """Stream changes as they are committed, by any process. `id` is what `Last-Event-ID` resumes after."""
    after = _start(request)
    if after is None:
        after = await service.last_event()
    closing: asyncio.Event = request.app.state.closing
    return StreamingResponse(
        _stream(service.events(after=after), after, closing),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


def _start(request: Request) -> int | None:
    after = query_of(request, EventFields).after
    header = header_of(request, LAST_EVENT_ID)
    if header is not None and header.strip():
        if not (header.strip().isascii() and header.strip().isdecimal()):
            raise InvalidInputError(
                f"{LAST_EVENT_ID} must be the id of an event, not {shortened(header)}", field=LAST_EVENT_ID
            )
        after = int(header) if len(header) < 20 else _MAX_SEQ + 1
    if after is not None and not 0 <= after <= _MAX_SEQ:
        raise InvalidInputError("after must be the id of an event, from 0", field="after")
    return after


async def _stream(changes: AsyncIterator[Event], after: int, closing: asyncio.Event) -> AsyncIterator[str]:
    # The empty event tells a client where to resume before anything has happened.
    yield f"retry: {RETRY_MS}\nid: {after}\n\n"
    closed = asyncio.ensure_future(closing.wait())
    change: asyncio.Future[Event] | None = None
    async with aclosing(cast("Any", changes)):
        try:
            while not closing.is_set():
                change = change or asyncio.ensure_future(_next(changes))
                done, _ = await asyncio.wait((change, closed), timeout=HEARTBEAT_S, return_when="FIRST_COMPLETED")
                if change in done:
                    yield _rendered(change.result())
                    change = None
                elif not done:
                    yield ": still here\n\n"
        finally:
            for task in filter(None, (change, closed)):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task


async def _next(changes: AsyncIterator[Event]) -> Event:
    return await anext(changes)


def _rendered(event: Event) -> str:
    return f"id: {event.seq}\nevent: {event.kind}\ndata: {json.dumps(event_to_json(event))}\n\n"
