"""What an adapter asks for an agent: a message as a query, and the line by which it knows its own block again."""

import hashlib
import json
from collections.abc import Sequence
from typing import Final

import retain

QUERY_CHARS: Final = 10_000
"""Longest query that Retain takes."""


def is_blank(text: str, /) -> bool:
    """Whether there is nothing to see in `text`: Retain neither stores nor searches such."""
    return not any(character.isprintable() and character != " " for character in text)


def question_of(text: str, /) -> str:
    """Return a message as a query that Retain takes; "" when it is blank.

    Of a very long message, beginning and end are kept: that is where people ask.
    """
    if is_blank(text):
        return ""
    text = text.encode("utf-8", "replace").decode().replace("\0", " ")
    half = (QUERY_CHARS - 1) // 2
    return text if len(text) <= QUERY_CHARS else f"{text[:half]}\n{text[-half:]}"


def require_visible(**names: str | None) -> None:
    """Refuse a blank name, which would stand for everybody.

    Raises:
        InvalidInputError: a name is blank; None is none.
    """
    for field, name in names.items():
        if name is not None and is_blank(name):
            raise retain.InvalidInputError(f"{field} is empty; give a name, or leave it out for all", field=field)


def tags_of(tags: Sequence[str], /) -> tuple[str, ...]:
    """Return tags as a tuple.

    Raises:
        InvalidInputError: a single text, whose letters would be tags.
    """
    if isinstance(tags, str):
        raise retain.InvalidInputError("tags must be a list of texts", field="tags")
    return tuple(tags)


def digest_of(*parts: object) -> str:
    """Return 32 hexadecimal characters that stand for `parts`, the same in every process."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def own_mark(*place: object) -> str:
    """Return a line that tells blocks from one place from those of others."""
    return f"(memory {digest_of(*place)[:8]})"
