"""The kinds of memory. A type is a base type or one of its subtypes; own types can be registered beside them."""

import re
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from retain.domain.errors import InvalidInputError
from retain.domain.ids import shortened

DEFAULT_TYPE = "observation"
MAX_TYPE_CHARS = 40

SUBTYPES: Mapping[str, tuple[str, ...]] = {
    "observation": ("fact", "event", "conversation", "document", "command", "preference", "note"),
    "decision": ("architecture", "design", "trade-off", "convention", "policy"),
    "learning": ("insight", "best-practice", "how-to", "discovery"),
    "error": ("bug", "incident", "failure", "fix"),
    "pattern": ("recurring-issue", "workflow", "habit", "anti-pattern"),
}
BUILT_IN: Mapping[str, str | None] = {
    **dict.fromkeys(SUBTYPES),
    **{subtype: base for base, subtypes in SUBTYPES.items() for subtype in subtypes},
}
"""Each built-in type with the base type it belongs to (None for a base type)."""

_NAME = re.compile(rf"[a-z0-9][a-z0-9_-]{{0,{MAX_TYPE_CHARS - 1}}}")


def type_name(value: object, /, *, field: str = "type") -> str:
    """Return `value` as a type name: lower case, letters, digits, hyphens and underscores.

    Raises:
        InvalidInputError: the name has other characters, or over 40 of them.
    """
    name = value.strip().lower() if isinstance(value, str) else ""
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"{field} {shortened(value)} is no type name; use 1 to {MAX_TYPE_CHARS} letters, digits, '-' or '_'",
            field=field,
        )
    return name


def known_type(value: object, known: Iterable[str], /, *, field: str = "type") -> str:
    """Return `value` as the name of a known type; "" and None mean the default, "observation".

    Raises:
        InvalidInputError: no such type; the message lists those that exist and says how to register one.
    """
    if value is None or value == "":
        return DEFAULT_TYPE
    name = type_name(value, field=field)
    known = sorted(known)
    if name not in known:
        raise InvalidInputError(
            f"{field} {name!r} is not known; use one of {', '.join(known)}, or register it first "
            f"(POST /api/types, or: retain types --add {name})",
            field=field,
        )
    return name


def with_subtypes(types: Iterable[str], parents: Mapping[str, str | None], /) -> frozenset[str]:
    """Return `types` and every type whose parent is among them."""
    chosen = frozenset(types)
    return chosen | {name for name, parent in parents.items() if parent in chosen}


OwnType: TypeAlias = tuple[str, str | None, str]
"""An own type: its name, the base type it belongs to, and the namespace where it was registered."""


def parents_of(own: Iterable[OwnType], /) -> dict[str, str | None]:
    """Return built-in and own types, each with its parent; of the same name the last one counts, a built-in always."""
    return {**{name: parent for name, parent, _ in own}, **BUILT_IN}
