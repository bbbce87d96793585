"""The REST application: routes, problem documents for every refusal, and the OpenAPI description."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from retain.core.service import MemoryService
from retain.domain.errors import InvalidInputError, RetainError
from retain.transports.exchange import UNEXPECTED
from retain.transports.json_text import UnreadableJsonError
from retain.transports.problems import document, problem, problem_headers
from retain.transports.rest import catalogue, events, health, memories, transfer
from retain.transports.rest.answers import ProblemAnswer
from retain.transports.rest.page import openapi_page
from retain.transports.wire import refusal

API_VERSION = "1"
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]
_FRAMEWORK_CODES = {
    400: "invalid_input",
    404: "not_found",
    405: "method_not_allowed",
    415: "unsupported_media_type",
}


def create_rest(service: MemoryService, closing: asyncio.Event, lifespan: Lifespan) -> FastAPI:
    """Return the application; the principal of a request stands in its state, put there by `Access`.

    Args:
        service: The core.
        closing: Set when the server shuts down; streams end then.
        lifespan: What runs beside the server.
    """
    app = FastAPI(
        title="Retain",
        version=API_VERSION,
        description="Memory for AI agents: store what they learn, find it again by meaning.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        responses={"default": {"model": ProblemAnswer, "description": "A problem (RFC 9457)"}},
    )
    app.state.service, app.state.closing, app.state.loading = service, closing, None
    for part in (memories, catalogue, transfer, events, health):
        app.include_router(part.router, prefix="/api")
    app.add_api_route("/docs", _docs, include_in_schema=False)
    app.add_api_route("/", _home, include_in_schema=False)
    app.add_exception_handler(RetainError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _framework)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)
    return app


async def _docs(request: Request) -> Response:
    page = openapi_page(request.app.openapi())
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
    return HTMLResponse(page, headers={"content-security-policy": policy})


async def _home() -> Response:
    return RedirectResponse("docs")


def _answer(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> Response:
    return Response(body, status, {name.decode(): value.decode() for name, value in headers})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RetainError)
    return _answer(*problem(error))


async def _gone(request: Request, error: Exception) -> Response:
    return _framework_answer(400, "Broken off", "the client went before its request was whole")


async def _unexpected(request: Request, error: Exception) -> Response:
    return _answer(*problem(RetainError(UNEXPECTED)))


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = error.errors()
    first: Any = faults[0]
    kind = request.headers.get("content-type", "")
    if first["loc"] == ("body",) and "json" not in kind and first["type"] != "missing":
        detail = f"send the body as application/json, not {kind[:80] or 'without a content type'}"
        return _framework_answer(415, "Unsupported media type", detail)
    return _answer(*problem(refusal(faults, skip=1)))


async def _framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error.__cause__, UnreadableJsonError):
        return _answer(*problem(InvalidInputError(f"the body {error.__cause__}", field="body"), 400))
    if error.status_code == 415:
        return _framework_answer(415, "Unsupported media type", str(error.detail))
    details = {
        400: "the body can't be read",
        404: "there is nothing at this address; /docs lists all there is",
        405: f"{request.method} is not served at this address; /docs says what is",
    }
    answer = _framework_answer(error.status_code, str(error.detail), details.get(error.status_code, str(error.detail)))
    for name, value in (error.headers or {}).items():
        answer.headers[name] = value
    return answer


def _framework_answer(status: int, title: str, detail: str) -> Response:
    code = _FRAMEWORK_CODES.get(status, "error")
    return _answer(status, problem_headers(status), document(status, title, detail, code))
