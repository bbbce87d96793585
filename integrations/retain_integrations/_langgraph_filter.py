"""A filter of LangGraph: as conditions on Retain's metadata, and what those can't ask."""

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

import retain
from retain_integrations._langgraph_form import plain
from retain_integrations._langgraph_mark import MARK

OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin")


def conditions(wanted: Mapping[str, Any] | None, /) -> dict[str, Any]:
    """Return a filter of LangGraph as a filter on metadata.

    A nested object is a condition on each of its fields; null also matches a field that is not there.

    Raises:
        InvalidInputError: an unknown operator, a value that JSON has no form for, or a key that is no text or holds a
            quotation mark.
    """
    return dict(_conditions(wanted or {}, f"{MARK}.value"))


def _conditions(wanted: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in cast("Mapping[object, Any]", wanted).items():
        if not isinstance(key, str) or "'" in key or '"' in key:
            reason = "it holds a quotation mark" if isinstance(key, str) else "it is no text"
            raise retain.InvalidInputError(f"Invalid filter key {key!r}: {reason}", field="filter")
        inner = f"{path}.{key}"
        if _is_mapping(value):
            yield from _conditions(value, inner)
        elif isinstance(value, Mapping):
            yield inner, dict(_operators(cast("Mapping[str, Any]", value)))
        else:
            yield inner, dict([_comparable("$eq", plain(value, "filter"))])


def _is_mapping(value: object) -> bool:
    """Whether a condition is an object of further ones, not one of operators."""
    return isinstance(value, Mapping) and not any(
        str(name).startswith("$") for name in cast("Mapping[Any, Any]", value)
    )


def _operators(asked: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    for name, value in asked.items():
        if name not in OPERATORS:
            raise retain.InvalidInputError(
                f"Unsupported operator: {name}; there are {', '.join(OPERATORS)}", field="filter"
            )
        if name in ("$in", "$nin") and not isinstance(value, list | tuple):
            raise retain.InvalidInputError(f"{name} takes a list of values, not {value!r}", field="filter")
        yield _comparable(name, plain(cast("object", value), "filter"))


def _comparable(name: str, value: Any) -> tuple[str, Any]:
    """Return an operator without what JSON has no form for: NUL and NaN equal nothing, infinity is very large."""
    if isinstance(value, float) and math.isinf(value):
        return name, math.copysign(sys.float_info.max, value)
    if (isinstance(value, float) and math.isnan(value)) or (isinstance(value, str) and "\0" in value):
        return ("$nin", []) if name == "$ne" else ("$in", [])
    return name, value


def asks_for_mappings(wanted: Mapping[str, Any] | None, /) -> bool:
    """Whether `has_mappings` can be False."""
    return any(map(_is_mapping, (wanted or {}).values()))


def has_mappings(value: Mapping[str, Any], wanted: Mapping[str, Any] | None, /) -> bool:
    """Whether an object lies wherever a filter has one: no condition on metadata asks that."""
    return all(
        isinstance(inner := _found(value, path), Mapping) and has_mappings(cast("Mapping[str, Any]", inner), fields)
        for path, fields in (wanted or {}).items()
        if _is_mapping(fields)
    )


def _found(value: Mapping[str, Any], path: str) -> object:
    """Return what lies at a path; the longest key that fits is followed first, as conditions on metadata do."""
    if path in value:
        return value[path]
    for end in reversed([place for place, character in enumerate(path) if character == "."]):
        inner = value.get(path[:end])
        if (
            isinstance(inner, Mapping)
            and (found := _found(cast("Mapping[str, Any]", inner), path[end + 1 :])) is not None
        ):
            return found
    return None
