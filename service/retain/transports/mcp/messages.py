"""Lines to JSON-RPC messages and back."""

import json
import logging
from typing import Any, cast

from mcp_types import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

_log = logging.getLogger(__name__)


class UnreadableError(Exception):
    """A line that is no message; `answer` is what its sender is owed."""

    def __init__(self, code: int, message: str, request_id: int | str | None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def parse(line: bytes, /) -> JSONRPCMessage:
    """Return the message in one line.

    Raises:
        UnreadableError: it is not JSON, or not a JSON-RPC 2.0 message.
    """
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(PARSE_ERROR, f"Parse error: {error}", None) from None
    if not isinstance(value, dict):
        raise UnreadableError(INVALID_REQUEST, "Invalid request: send one JSON-RPC object on each line", None)
    message = cast("dict[str, Any]", value)
    request_id = message.get("id")
    usable = request_id if isinstance(request_id, int | str) and not isinstance(request_id, bool) else None
    if "method" in message and "id" in message and usable is None:
        raise UnreadableError(INVALID_REQUEST, "Invalid request: id must be a string or a whole number", None)
    try:
        return jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise UnreadableError(INVALID_REQUEST, f"Invalid request: {fault}", usable) from None


def dump(message: JSONRPCMessage, /) -> bytes:
    """Return the line for a message."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except PydanticSerializationError as error:
        if not isinstance(message, JSONRPCResponse):
            raise
        _log.error("an answer can't be written as JSON: %s", error)
        failed = ErrorData(code=INTERNAL_ERROR, message="the answer can't be written as JSON")
        return JSONRPCError(jsonrpc="2.0", id=message.id, error=failed).model_dump_json(by_alias=True).encode()
