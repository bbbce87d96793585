"""What no store can keep: refused before anything is written, in the words of the caller."""

import re
from collections.abc import Iterable
from datetime import datetime

from retain.core.policy import AGENT_TAG_PREFIX
from retain.core.ports import Change, Entry
from retain.domain.errors import ConflictError, InvalidInputError
from retain.domain.memory import Memory, Tombstone

LARGEST = 2**63 - 1
_HASH = re.compile("[0-9a-f]{64}")


def require_storable(memory: Memory, /) -> None:
    """Raise InvalidInputError when a field of `memory` has no form on disk."""
    for name in ("id", "content", "namespace", "type", "agent_id", "conversation_id", "key", "superseded_by"):
        require_text(getattr(memory, name), name)
    require_texts(memory.tags, "tags")
    require_texts((turn.role for turn in memory.turns), "turns")
    require_hash(memory.content_hash)
    if memory.sequence is not None and not 0 <= memory.sequence <= LARGEST:
        raise InvalidInputError("sequence must be in 0 to 2^63 - 1", field="sequence")
    require_json(memory.metadata, "metadata")


def require_storable_change(change: Change, /) -> None:
    """Raise InvalidInputError when a new value has no form on disk."""
    for name, value in change.fields.items():
        require_json(value, name)
    require_text(change.content, "content")


def require_unchanged(expected: datetime, updated_at: datetime, /) -> None:
    """Raise ConflictError when a write is meant for a memory as it was before."""
    if expected != updated_at:
        raise ConflictError(
            f"it was updated at {updated_at.isoformat()}, not {expected.isoformat()}; read it again",
            field="if_updated_at",
        )


def require_expected(entry: Entry, updated_at: datetime | None, /) -> None:
    """Raise ConflictError when something else is stored under the key of `entry` than is expected."""
    if entry.expected is None:
        return
    match entry.expected.updated_at, updated_at:
        case None, None:
            pass
        case None, _:
            raise ConflictError(f"there is a memory with the key {entry.memory.key!r} already", field="if_absent")
        case _, None:
            raise ConflictError(f"there is no memory with the key {entry.memory.key!r} any more", field="if_updated_at")
        case expected, _:
            require_unchanged(expected, updated_at)


def tags_after(entry: Entry, replaced: Memory, /) -> tuple[str, ...]:
    """Return the tags of `entry` once it has taken the place of a memory of the same key."""
    if not entry.keep_tags:
        return tuple(entry.memory.tags)
    own = f"{AGENT_TAG_PREFIX}{replaced.agent_id}"
    return tuple(dict.fromkeys((*entry.memory.tags, *(tag for tag in replaced.tags if tag != own))))


def require_buriable(stone: Tombstone, /) -> None:
    """Raise InvalidInputError when a field of `stone` has no form on disk."""
    require_text(stone.id, "id")
    require_text(stone.namespace, "namespace")
    require_hash(stone.content_hash)


def require_hash(value: str, /) -> None:
    """Refuse what is no SHA-256 in hexadecimal digits."""
    if not _HASH.fullmatch(value):
        raise InvalidInputError("content_hash must be 64 hexadecimal digits", field="content_hash")


def require_texts(values: Iterable[str], field: str, /) -> None:
    """Refuse a lone surrogate in any of `values`."""
    for value in values:
        require_text(value, field)


def require_text(value: str | None, field: str, /) -> None:
    """Refuse half of a character (a lone surrogate), which UTF-8 can't hold."""
    if value is None or value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{field} holds half of a character (a lone surrogate)", field=field) from None


def require_json(value: object, field: str, /) -> None:
    """Refuse a lone surrogate anywhere in a JSON value."""
    match value:
        case str():
            require_text(value, field)
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
                require_json(key, field)  # pyright: ignore[reportUnknownArgumentType]
                require_json(inner, field)  # pyright: ignore[reportUnknownArgumentType]
        case list() | tuple():
            for inner in value:  # pyright: ignore[reportUnknownVariableType]
                require_json(inner, field)  # pyright: ignore[reportUnknownArgumentType]
        case _:
            pass
