"""Whether operations can be: checked before anything is read or written."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
    validate_op_namespace,
)

import retain
from retain_integrations._langgraph_filter import conditions

_LONGEST: Final = 1e12
"""Minutes; some two million years."""


def require_legal(op: object, /) -> None:
    """Check what `BaseStore` checks of its methods, for operations that come straight to `batch`, and what it doesn't.

    Raises:
        InvalidNamespaceError: a label can't be.
        InvalidInputError: anything else can't be; `field` names it.
    """
    match op:
        case GetOp():
            _require_namespace(op, op.namespace)
            _require_key(op.key)
        case PutOp():
            _require_put(op)
        case SearchOp():
            _require_search(op)
        case ListNamespacesOp():
            _require_listing(op)
        case _:
            raise retain.InvalidInputError(f"{type(op).__name__} is no operation of a store", field="ops")


def _require_put(op: PutOp) -> None:
    _require_namespace(op, op.namespace)
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if any("\0" in label for label in op.namespace):  # upstream checks it from 4.3.2 on
        raise InvalidNamespaceError(f"Namespace labels cannot contain NUL: {op.namespace!r}")
    _require_key(op.key)
    _require(op.value is None or _is_mapping(op.value), "value", "a mapping", op.value)
    _require(op.index is None or op.index is False or _are_texts(op.index), "index", "False or paths", op.index)
    if op.ttl is not None:
        require_minutes(op.ttl, "ttl")


def _require_search(op: SearchOp) -> None:
    _require_namespace(op, op.namespace_prefix)
    _require(op.query is None or _is_text(op.query), "query", "a text", op.query)
    _require(op.filter is None or _is_mapping(op.filter), "filter", "a mapping", op.filter)
    conditions(op.filter)
    _require_count(op.limit, "limit")
    _require_count(op.offset, "offset")


def _require_listing(op: ListNamespacesOp) -> None:
    wanted = op.match_conditions or ()
    _require(_is_list(wanted), "match_conditions", "a tuple of them", wanted)
    for one in wanted:
        _require(isinstance(cast("object", one), MatchCondition), "match_conditions", "of MatchCondition", one)
        _require(one.match_type in ("prefix", "suffix"), "match_type", '"prefix" or "suffix"', one.match_type)
        _require_namespace(op, one.path)
    if op.max_depth is not None:
        _require_count(op.max_depth, "max_depth")
    _require_count(op.limit, "limit")
    _require_count(op.offset, "offset")


def require_minutes(value: object, field: str, /) -> None:
    """Check a time in minutes.

    Raises:
        InvalidInputError: it is no number above 0, or has no end.
    """
    number = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LONGEST
    _require(number, field, "a number of minutes above 0", value)


def _require_namespace(op: GetOp | PutOp | SearchOp | ListNamespacesOp, labels: object) -> None:
    if not _is_list(labels):
        raise InvalidNamespaceError(f"A namespace must be a tuple of labels, not {labels!r}")
    validate_op_namespace(op)


def _require_key(key: object) -> None:
    _require(_is_text(key) and key != "", "key", "a text that is not empty", key)


def _require_count(value: object, field: str) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    _require(whole, field, "a whole number from 0", value)


def _require(holds: bool, field: str, wanted: str, value: object) -> None:
    if not holds:
        raise retain.InvalidInputError(f"{field} must be {wanted}, not {value!r}", field=field)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _are_texts(value: object) -> bool:
    return _is_list(value) and all(map(_is_text, cast("Sequence[object]", value)))
