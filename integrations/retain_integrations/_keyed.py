"""Replacing the memory under a key by what is made of it, with nobody in between."""

import unicodedata
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import retain

_ATTEMPTS: Final = 100


def replace_keyed(
    memory: retain.SyncMemory,
    namespace: str,
    key: str,
    make: Callable[[retain.Memory | None], retain.NewMemory],
    /,
) -> retain.Memory | None:
    """Store under a key what `make` makes of the memory there; return that memory, None when there was none.

    It is read and replaced as one: when somebody else was faster, both are done again. Tags that the memory has stay.

    Raises:
        StoreUnavailableError: others were always faster.
        RetainError: as of `store`.
    """
    id_ = retain.id_of(_normal(namespace), key)
    for _ in range(_ATTEMPTS):
        old = _found(memory, id_)
        try:
            memory.store(_conditional(make(old), key, old))
        except retain.ConflictError as error:
            if error.field not in ("if_updated_at", "if_absent"):
                raise
        else:
            return old
    raise retain.StoreUnavailableError(f"{key} is being changed by too many others at once; try again")


def _normal(namespace: str) -> str:
    """Return a namespace as Retain keeps it; what it refuses, it will refuse when it is stored."""
    return "/" + unicodedata.normalize("NFC", namespace).removeprefix("/").removesuffix("/")


def _found(memory: retain.SyncMemory, id_: str) -> retain.Memory | None:
    try:
        return memory.get(id_)
    except retain.NotFoundError:
        return None


def _conditional(new: retain.NewMemory, key: str, old: retain.Memory | None) -> retain.NewMemory:
    if old is None:
        return replace(new, key=key, if_absent=True)
    return replace(new, key=key, keep_tags=True, if_updated_at=old.updated_at)
