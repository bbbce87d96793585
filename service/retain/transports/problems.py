"""Errors as HTTP answers: RFC 9457 problem documents, the same from REST, from the access checks and for MCP."""

import json

from retain.domain.errors import RetainError
from retain.transports.errors import rendering

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:retain:error:"
RETRY_AFTER_S = 1

Headers = list[tuple[bytes, bytes]]


def document(status: int, title: str, detail: str, code: str, field: str | None = None) -> bytes:
    """Return a problem document; ASCII, so that no text from a request can break it."""
    form = {"type": TYPE_PREFIX + code, "title": title, "status": status, "detail": detail, "code": code}
    return json.dumps({**form, "field": field}).encode("ascii")


def problem(error: RetainError, /, status: int | None = None) -> tuple[int, Headers, bytes]:
    """Return status, headers and body for an error.

    Args:
        error: What went wrong.
        status: Instead of the one in the table of errors.
    """
    shown = rendering(error)
    status = status or shown.status
    return status, problem_headers(status), document(status, shown.title, str(error), error.code, error.field)


def problem_headers(status: int) -> Headers:
    """Return the headers that a problem of this status carries."""
    headers: Headers = [(b"content-type", MEDIA_TYPE.encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 503:
        headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
    return headers
