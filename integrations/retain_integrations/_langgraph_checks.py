"""Whether operations can be: checked before anything is read or written."""

from collections.abc import Mapping

from langgraph.store.base import GetOp, InvalidNamespaceError, Op, PutOp, validate_op_namespace

import retain


def require_legal(op: Op, /) -> None:
    """Check what `BaseStore` checks of its methods, for operations that come straight to `batch`.

    Raises:
        InvalidNamespaceError: a label can't be.
        InvalidInputError: a key or a value can't be.
    """
    validate_op_namespace(op)
    if isinstance(op, GetOp | PutOp):
        _require_key(op.key)
    if not isinstance(op, PutOp):
        return
    if not op.namespace:
        raise InvalidNamespaceError("Namespace cannot be empty.")
    if any("\0" in label for label in op.namespace):  # upstream checks it from 4.3.2 on
        raise InvalidNamespaceError(f"Namespace labels cannot contain NUL: {op.namespace!r}")
    _require_value(op.value)


def _require_key(key: object) -> None:
    if not isinstance(key, str) or not key:
        raise retain.InvalidInputError(f"key must be a text that is not empty, not {key!r}", field="key")


def _require_value(value: object) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise retain.InvalidInputError(f"value must be a mapping, not {type(value).__name__}", field="value")
