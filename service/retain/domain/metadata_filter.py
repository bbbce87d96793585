"""What a filter may ask of metadata: equal values or operators, at a path into nested objects.

    {"source": "wiki"}                     the field is there and equal
    {"run.score": {"$gte": 0.5}}           a path; a key that itself holds the dot is looked for first
    {"color": {"$in": ["red", "blue"]}}    an operator

`$eq $ne $gt $gte $lt $lte $in $nin`. Operators read a missing field as null, so `$ne` and `$nin` match it. Numbers
are ordered among numbers and texts among texts (by code point); anything else is in no order and does not match.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened

ANYTHING: Final = object()
"""Stands for any value; see `certain_part`."""
_MISSING: Final = object()
_NEVER_OF_NULL: Final = frozenset(("$gt", "$gte", "$lt", "$lte"))


def require_known_operators(wanted: Mapping[str, Any], /) -> None:
    """Check the conditions of a filter.

    Raises:
        InvalidInputError: an operator is unknown, stands beside plain keys, or has a value that it can't use.
    """
    for path, value in wanted.items():
        if not _has_operators(value):
            continue
        for operator, operand in cast("Mapping[str, object]", value).items():
            if operator not in _OPERATORS:
                raise InvalidInputError(
                    f"metadata.{path} asks for {shortened(operator)}, which is no operator; there are "
                    f"{', '.join(_OPERATORS)}",
                    field="metadata",
                )
            if operator in ("$in", "$nin") and not isinstance(operand, list | tuple):
                raise InvalidInputError(f"metadata.{path}: {operator} takes a list of values", field="metadata")


def metadata_matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any], /) -> bool:
    """Whether `metadata` meets all conditions of `wanted`."""
    return all(_meets(_found(metadata, path), value) for path, value in wanted.items())


def certain_part(path: str, value: object, /) -> tuple[str, object] | None:
    """Return the key, or the end of one, and the value that stand in all metadata that meets a condition, if known.

    The value is `ANYTHING` when only the key is known.
    """
    key = path.rpartition(".")[2]
    if not _has_operators(value):
        return key, value
    operators = cast("Mapping[str, object]", value)
    if operators.get("$eq") is not None:
        return key, operators["$eq"]
    return (key, ANYTHING) if operators.keys() & _NEVER_OF_NULL else None


def _has_operators(value: object) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(key, str) and key.startswith("$") for key in cast("Mapping[object, object]", value)
    )


def _found(value: object, path: str) -> object:
    """Return what lies at `path`; the longest key that fits is followed first."""
    if not isinstance(value, Mapping):
        return _MISSING
    fields = cast("Mapping[str, object]", value)
    if path in fields:
        return fields[path]
    end = path.rfind(".")
    while end >= 0:
        if path[:end] in fields and (inner := _found(fields[path[:end]], path[end + 1 :])) is not _MISSING:
            return inner
        end = path.rfind(".", 0, end)
    return _MISSING


def _meets(found: object, wanted: object) -> bool:
    if not _has_operators(wanted):
        return found is not _MISSING and _equal(found, wanted)
    here = None if found is _MISSING else found
    return all(
        _OPERATORS[operator](here, operand) for operator, operand in cast("Mapping[str, object]", wanted).items()
    )


def _equal(one: object, other: object) -> bool:
    """Whether two JSON values are equal; true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        left, right = cast("Mapping[str, object]", one), cast("Mapping[str, object]", other)
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        here, there = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(here) == len(there) and all(map(_equal, here, there))
    return one == other


def _is_in(one: object, others: object) -> bool:
    if isinstance(one, str | int | float) and one not in cast("Sequence[object]", others):
        return False  # a quick look: what is in it may still be another kind, as 1 and true
    return any(_equal(one, other) for other in cast("Sequence[object]", others))


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool]:
    def holds(one: object, other: object) -> bool:
        return _kind(one) is not None and _kind(one) is _kind(other) and compare(one, other)

    return holds


def _kind(value: object) -> type | None:
    if isinstance(value, str):
        return str
    return float if isinstance(value, int | float) and not isinstance(value, bool) else None


_OPERATORS: Final[Mapping[str, Callable[[object, object], bool]]] = {
    "$eq": _equal,
    "$ne": lambda one, other: not _equal(one, other),
    "$gt": _ordered(lambda one, other: one > other),
    "$gte": _ordered(lambda one, other: one >= other),
    "$lt": _ordered(lambda one, other: one < other),
    "$lte": _ordered(lambda one, other: one <= other),
    "$in": _is_in,
    "$nin": lambda one, others: not _is_in(one, others),
}
