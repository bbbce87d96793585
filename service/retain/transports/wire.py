"""The parts that wire models are made of: a strict base, field types that forgive what clients do, one refusal.

An optional field that is "" or null was not given, since language models fill every field of a form. Unknown
fields are refused, never ignored.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, tzinfo
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened
from retain.domain.time_range import parse_instant
from retain.transports.json_text import UnreadableJsonError, read_json

UNKNOWN_FIELD = "unknown_field"
_MOST_FAULTS = 3
_TEXTS: dict[str, Any] = {"type": ["array", "string"], "items": {"type": "string"}}


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("number", "must be a number, not true or false")
    return value


def _texts(value: object) -> object:
    if isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(item, str) for item in cast("list[object]", value))
    ):
        return cast("list[str] | str", value)
    raise PydanticCustomError("texts", "must be a list of strings or a comma-separated string")


def _time(value: object) -> object:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    raise PydanticCustomError("time", "must be a time such as 2026-11-30T10:30:00Z")


def _object_in_text(value: object) -> object:
    if isinstance(value, str):
        try:
            return read_json(value)
        except UnreadableJsonError as error:
            raise PydanticCustomError(
                "object", "must be a JSON object, and {fault}", {"fault": f"the text {error}"}
            ) from None
    return value


Texts = Annotated[list[str] | str, PlainValidator(_texts), WithJsonSchema(_TEXTS)]
"""A list of strings, a comma-separated string, or a JSON array as text."""
WireTime = Annotated[float | str, PlainValidator(_time), WithJsonSchema({"type": ["string", "number"]})]
"""RFC 3339, a date, or seconds since 1970."""
Whole = Annotated[int, BeforeValidator(_no_bool)]
OptionalWhole = Annotated[int | None, BeforeValidator(_no_bool), WithJsonSchema({"type": "integer"})]
OptionalSpans = Annotated[
    list[tuple[Whole, Whole]] | None,
    WithJsonSchema({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
]
Number = Annotated[float, BeforeValidator(_no_bool)]
JsonMap = Annotated[dict[str, Any], BeforeValidator(_object_in_text), WithJsonSchema({"type": "object"})]


class Wire(BaseModel):
    """A body, or the query parameters of a GET."""

    model_config = ConfigDict(extra="forbid")
    kept_empty: ClassVar[frozenset[str]] = frozenset(("content", "query"))
    kept_null: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _only_what_was_given(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[object, object]", value)
        unknown = [name for name in given if name not in cls.model_fields]
        if unknown:
            raise PydanticCustomError(
                UNKNOWN_FIELD,
                "{name} is not known here; known are {known}",
                {"name": shortened(unknown[0]).strip("'\""), "known": ", ".join(cls.model_fields)},
            )
        return {name: item for name, item in given.items() if not cls._left_out(cast("str", name), item)}

    @classmethod
    def _left_out(cls, name: str, value: object) -> bool:
        if value is None:
            return name not in cls.kept_null
        return isinstance(value, str) and value == "" and name not in cls.kept_empty


def split_texts(value: list[str] | str, field: str, /) -> list[str]:
    """Return the strings of a list, of a JSON array as text, or of a comma-separated string.

    Raises:
        InvalidInputError: the JSON array holds something else than strings.
    """
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            parsed: object = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            items = cast("list[object]", parsed)
            if not all(isinstance(item, str) for item in items):
                raise InvalidInputError(f"{field} must hold strings, not {shortened(value)}", field=field)
            return cast("list[str]", items)
    return [part.strip() for part in value.split(",") if part.strip()]


def to_instant(value: str | float, field: str, zone: tzinfo | None = None, /) -> datetime | None:
    """Return a time as aware UTC, or None for "".

    Raises:
        InvalidInputError: it is no time.
    """
    if value == "":
        return None
    return parse_instant(value, field=field) if zone is None else parse_instant(value, zone=zone, field=field)


def refusal(errors: Iterable[Mapping[str, Any]], /, *, skip: int = 0) -> InvalidInputError:
    """Return what pydantic found as the one error that every way in shows.

    Args:
        errors: `ValidationError.errors()`.
        skip: How many leading parts of each location are the framework's, not the caller's.
    """
    faults = [_fault(error, skip) for error in errors]
    shown = "; ".join(text for _, text in faults[:_MOST_FAULTS])
    more = f"; and {len(faults) - _MOST_FAULTS} more" if len(faults) > _MOST_FAULTS else ""
    return InvalidInputError(shown + more, field=faults[0][0] or None)


def _fault(error: Mapping[str, Any], skip: int) -> tuple[str, str]:
    where = _path(error["loc"][skip:])
    context: Mapping[str, Any] = error.get("ctx") or {}
    if error["type"] == UNKNOWN_FIELD:
        name = f"{where}.{context['name']}" if where else str(context["name"])
        return name, f"{where}: {error['msg']}" if where else error["msg"]
    if error["type"] == "string_unicode":
        return where, f"{where} holds a lone surrogate (half of a character); send the whole character or remove it"
    message = str(error["msg"])
    text = f"{where}: {message}" if where else message
    return where, text.encode("utf-8", "backslashreplace").decode()


def _path(parts: Iterable[object]) -> str:
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif isinstance(part, str) and part.replace("_", "").isalnum():
            path += f".{part}" if path else part
    return path
