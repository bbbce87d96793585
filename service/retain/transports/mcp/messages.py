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
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from retain.transports.json_text import UnreadableJsonError, is_whole, presentable, read_json

_log = logging.getLogger(__name__)


class UnreadableError(Exception):
    """A line that is no message; `answer` is what its sender is owed."""

    def __init__(self, code: int, message: str, request_id: int | str | None) -> None:
        super().__init__(message)
        self.answer = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def read(text: bytes, /) -> object:
    """Return the JSON value of a message.

    Half of a character (a lone surrogate) is refused here, except in the arguments of a tool, which names the one
    that holds it.

    Raises:
        UnreadableError: it is not JSON.
    """
    try:
        value = read_json(text)
    except UnreadableJsonError as error:
        raise UnreadableError(PARSE_ERROR, f"Parse error: the message {error}", None) from None
    if _halved(value):
        request_id = cast("dict[str, object]", value).get("id") if isinstance(value, dict) else None
        whole = isinstance(request_id, int | str) and not isinstance(request_id, bool) and not _halved(request_id)
        fault = "Parse error: the message holds a lone surrogate, half of a character"
        raise UnreadableError(PARSE_ERROR, fault, cast("int | str", request_id) if whole else None)
    return value


def parse(line: bytes, /) -> JSONRPCMessage:
    """Return the message in one line.

    Raises:
        UnreadableError: it is not JSON, or not a JSON-RPC 2.0 message.
    """
    value = read(line)
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


def _halved(value: object) -> bool:
    """Whether a lone surrogate stands anywhere but in the arguments of a tool."""
    open_values = [(value, 0)]
    while open_values:
        item, depth = open_values.pop()
        if isinstance(item, str):
            if not is_whole(item):
                return True
        elif isinstance(item, list):
            open_values += [(each, depth + 1) for each in cast("list[object]", item)]
        elif isinstance(item, dict):
            for name, each in cast("dict[str, object]", item).items():
                open_values.append((name, depth + 1))
                if not (depth == 1 and name == "arguments"):
                    open_values.append((each, depth + 1))
    return False


def dump(message: JSONRPCMessage, /) -> bytes:
    """Return the line for a message; for one that can't be written, an error to the same request."""
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except (ValueError, TypeError, RecursionError) as error:
        _log.warning("an answer is written in part, since it can't be as it is: %s", error)
    request_id: object = getattr(message, "id", None)
    try:
        form = presentable(message.model_dump(by_alias=True, exclude_unset=True))
        own_id = {} if request_id is None else {"id": request_id}
        return json.dumps({**cast("dict[str, object]", form), **own_id}).encode()
    except Exception as error:  # noqa: BLE001 - the outermost edge: no answer may end the process
        _log.error("an answer can't be written as JSON: %s", error)
    failed = {"code": INTERNAL_ERROR, "message": "the answer can't be written as JSON"}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "error": failed}).encode()
