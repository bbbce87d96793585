"""What the routes share: on whose behalf they act, and how queries and headers are read."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from email.message import Message
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from retain.core.policy import Principal
from retain.core.service import MemoryService
from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.transports.json_text import read_json, write_json
from retain.transports.wire import Wire, refusal

QUERY = "parameters"
IDEMPOTENCY_KEY = "Idempotency-Key"
M = TypeVar("M", bound=Wire)


async def _acting_service(request: Request) -> MemoryService:
    service: MemoryService = request.app.state.service
    return service.acting_as(cast("Principal", request.state.principal))


Service = Annotated[MemoryService, Depends(_acting_service)]
"""The core, on behalf of whoever sent the request."""


def header_of(request: Request, name: str, /) -> str | None:
    """Return a header that may be given once, None when it is not given.

    Raises:
        InvalidInputError: it is given more than once.
    """
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise InvalidInputError(f"{name} is given more than once", field=name)
    return values[0] if values else None


async def _idempotency_key(request: Request) -> str | None:
    return header_of(request, IDEMPOTENCY_KEY)


IdempotencyKey = Annotated[str | None, Depends(_idempotency_key)]
"""The header of that name: a repeated request with the same key has no second effect."""


def query_of(request: Request, model: type[M], /) -> M:
    """Return the query parameters as `model`; a repeated parameter is a list.

    Raises:
        InvalidInputError: a parameter is unknown or impossible.
    """
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        given.setdefault(name, []).append(value)
    flat = {name: values[0] if len(values) == 1 else values for name, values in given.items()}
    try:
        return model.model_validate(flat)
    except ValidationError as error:
        raise refusal(error.errors()) from None


def documented_query(model: type[Wire], /) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads its query with `query_of`."""
    schema = model.model_json_schema()
    parameters: list[dict[str, Any]] = []
    for name, field in schema["properties"].items():
        if field.get("type") == "object":
            field = {**field, "type": "string", "description": f"{field.get('description', name)}, as JSON"}
        parameters.append({"name": name, "in": "query", "schema": field, "description": field.get("description", "")})
    return {QUERY: parameters}


def documented_key() -> dict[str, Any]:
    """Return the `openapi_extra` of a route that takes an `Idempotency-Key`."""
    text = "A repeated request with the same key, within 24 hours, has no second effect."
    schema = {"type": "string", "maxLength": 200}
    return {QUERY: [{"name": IDEMPOTENCY_KEY, "in": "header", "schema": schema, "description": text}]}


class StrictRequest(Request):
    """A request whose body is UTF-8 and strict JSON."""

    async def json(self) -> Any:
        """Return the value of the body.

        Raises:
            UnreadableJsonError: it is no JSON, or can't be taken at its word.
            HTTPException: it is declared to be in another encoding than UTF-8 (415).
        """
        require_utf8(self)
        return read_json(await self.body())


def require_utf8(request: Request) -> None:
    """Refuse a body that is declared to be in another encoding than UTF-8.

    Raises:
        HTTPException: it is (415).
    """
    declared = Message()
    declared["content-type"] = request.headers.get("content-type", "")
    charset = declared.get_content_charset("utf-8")
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise HTTPException(415, f"send the body in UTF-8, not in {printed(charset)}")


class StrictRoute(APIRoute):
    """A route that refuses query parameters unless it documents its own, and takes strict JSON only."""

    def get_route_handler(self) -> Callable[[Request], Awaitable[Response]]:  # type: ignore[override]
        """Return the handler with the check before it."""
        handler = super().get_route_handler()
        reads_query = any(item["in"] == "query" for item in (self.openapi_extra or {}).get(QUERY, ()))

        async def strict(request: Request) -> Response:
            if not reads_query and request.query_params:
                name = next(iter(request.query_params))
                raise InvalidInputError(f"the query parameter {shortened(name)} is not known here", field=printed(name))
            return await handler(StrictRequest(request.scope, request.receive))

        return strict


def printed(name: str) -> str:
    """Return a name from a request so that it can stand in an answer."""
    return shortened(name).strip("'\"")


def json_answer(form: object, /, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON answer; no model checks it a second time."""
    # A lone surrogate can't be UTF-8, and its backslash form is just what JSON writes for it.
    body = write_json(form).encode("utf-8", "backslashreplace")
    return Response(body, status, headers, "application/json")


async def lines_of(chunks: AsyncIterator[bytes], /, *, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a byte stream without their ends, the empty ones left out.

    Raises:
        InvalidInputError: a line is longer than `limit` bytes.
    """
    rest = bytearray()
    async for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for piece in whole:
            rest += piece
            if rest.strip():
                yield bytes(rest)
            rest.clear()
        rest += last
        if len(rest) > limit:
            raise InvalidInputError(f"a line is longer than {limit:,} bytes", field="body")
    if rest.strip():
        yield bytes(rest)
