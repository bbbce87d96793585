"""Routes of export and import: JSON Lines, streamed both ways."""

import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from retain.core.api import Record
from retain.domain.errors import InvalidInputError
from retain.domain.json_form import imported_to_json
from retain.domain.memory import STATES, Filter
from retain.transports.json_text import UnreadableJsonError, read_json
from retain.transports.rest.answers import ImportedAnswer
from retain.transports.rest.memories import answers
from retain.transports.rest.requests import (
    Service,
    StrictRoute,
    documented_query,
    json_answer,
    lines_of,
    query_of,
    require_utf8,
)
from retain.transports.schemas import FilterFields

NDJSON = "application/x-ndjson"
CHUNK_BYTES = 65_536
LINE_LIMIT = 16 * 1024 * 1024
"""Longest line of an import in bytes: the longest content that can be set, escaped, and its other fields."""

router = APIRouter(route_class=StrictRoute, tags=["export, import, events"])


class ExportFields(FilterFields):
    """What to export: everything in every state, unless restricted."""

    def to_filter(self) -> Filter:
        """Return the filter; without `states` it takes in all of them."""
        where = super().to_filter()
        return where if self.states else Filter(**{name: getattr(where, name) for name in _FIELDS}, states=STATES)


_FIELDS = tuple(name for name in Filter.__dataclass_fields__ if name != "states")


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {NDJSON: {}}, "description": "One JSON object a line"}},
    openapi_extra=documented_query(ExportFields),
)
async def export(request: Request, service: Service) -> Response:
    """Export as JSON Lines: a header, own types, memories in every state, tombstones."""
    records = service.export(query_of(request, ExportFields).to_filter())
    first = await anext(aiter(records))  # a refusal comes now, while there is still a status to send
    return StreamingResponse(_chunks(first, records), media_type=NDJSON)


async def _chunks(first: Record, records: AsyncIterator[Record]) -> AsyncIterator[bytes]:
    buffer = bytearray(_line(first))
    async with aclosing(cast("Any", records)):
        async for record in records:
            buffer += _line(record)
            if len(buffer) >= CHUNK_BYTES:
                yield bytes(buffer)
                buffer.clear()
    yield bytes(buffer)


def _line(record: Record) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    except UnicodeEncodeError:  # half of a character can only be an escape
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


@router.post(
    "/import",
    responses=answers(ImportedAnswer),
    openapi_extra={"requestBody": {"required": True, "content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def import_records(request: Request, service: Service) -> Response:
    """Import an export; what is there already is left alone. The body may have any length."""
    require_utf8(request)
    async with aclosing(lines_of(request.stream(), limit=LINE_LIMIT)) as lines:
        return json_answer(imported_to_json(await service.import_records(_records(lines))))


async def _records(lines: AsyncIterator[bytes]) -> AsyncIterator[Record]:
    place = 0
    async for line in lines:
        place += 1
        try:
            record = read_json(line)
        except UnreadableJsonError as error:
            raise InvalidInputError(f"line {place} {error}", field="body") from None
        if not isinstance(record, dict):
            raise InvalidInputError(f"line {place} is not a JSON object", field="body")
        yield cast("Record", record)
