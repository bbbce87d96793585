"""Cleaning of what callers send: text, tags and namespaces. One rule each, for every way in."""

import hashlib
import json
import unicodedata
from collections.abc import Iterable
from typing import cast

from retain.domain.errors import InvalidInputError, TooLargeError
from retain.domain.ids import shortened

MAX_CONTENT_CHARS = 200_000
"""Longest content in characters. Some 45,000 tokens, which the local model embeds in about 15 seconds."""
MAX_TAGS = 100
MAX_TAG_CHARS = 100
MAX_NAMESPACE_CHARS = 500
MAX_NAME_CHARS = 200
_INVISIBLE = frozenset(("Cc", "Cf", "Zs", "Zl", "Zp"))
ROOT = "/"
"""The namespace that holds all others."""


def clean_text(value: object, /, *, field: str, limit: int) -> str:
    """Return `value` unchanged when it is text that can be stored and given back exactly.

    Raises:
        InvalidInputError: not text, blank, or holding NUL or a lone surrogate.
        TooLargeError: longer than `limit` characters.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{field} must be text, not {type(value).__name__}", field=field)
    if all(unicodedata.category(character) in _INVISIBLE for character in value):
        raise InvalidInputError(f"{field} is empty; give at least one visible character", field=field)
    if len(value) > limit:
        raise TooLargeError(
            f"{field} has {len(value):,} characters, more than the {limit:,} allowed; split it and store the parts",
            field=field,
        )
    require_storable(value, field=field)
    return value


def require_storable(value: str, /, *, field: str) -> None:
    """Refuse text that no UTF-8 database or JSON document can carry.

    Raises:
        InvalidInputError: `value` holds a NUL character or a lone surrogate.
    """
    nul = value.find("\0")
    if nul >= 0:
        raise InvalidInputError(f"{field} holds a NUL character at position {nul}; remove it", field=field)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"{field} holds a lone surrogate (half of a character) at position {error.start}; "
            "send the whole character or remove it",
            field=field,
        ) from None


def content_hash(content: str, /) -> str:
    """Return the SHA-256 (hex) of the NFC form of `content`: equal for texts that look and read the same."""
    return hashlib.sha256(unicodedata.normalize("NFC", content).encode("utf-8")).hexdigest()


def normalise_tags(value: object, /, *, field: str = "tags", limit: int = MAX_TAGS) -> tuple[str, ...]:
    """Return tags as a tuple of distinct strings, in the order given.

    Accepts a list of strings, a comma-separated string, or a JSON array as text, since clients send all three.
    A tag inside a list is opaque: it keeps its commas, case and punctuation. Surrounding spaces go.

    Raises:
        InvalidInputError: another type, an empty or unstorable tag.
        TooLargeError: a tag over 100 characters, or more than `limit` tags; the message names the tag.
    """
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        value = _tags_in_string(value)
    if not isinstance(value, Iterable) or isinstance(value, bytes | dict):
        raise InvalidInputError(
            f"{field} must be a list of strings, not {type(cast('object', value)).__name__}", field=field
        )
    tags = dict.fromkeys(_clean_tag(tag, field=field) for tag in cast("Iterable[object]", value))
    if len(tags) > limit:
        raise TooLargeError(f"{field} has {len(tags):,} tags, more than the {limit:,} allowed", field=field)
    return tuple(tags)


def _tags_in_string(text: str) -> list[object]:
    if text.lstrip().startswith("["):
        try:
            parsed: object = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            return cast("list[object]", parsed)
    return [part for part in text.split(",") if part.strip()]


def _clean_tag(tag: object, *, field: str) -> str:
    if not isinstance(tag, str):
        raise InvalidInputError(f"{field} must hold strings, not {shortened(tag)}", field=field)
    tag = unicodedata.normalize("NFC", tag).strip()
    if not tag:
        raise InvalidInputError(f"{field} holds an empty tag; remove it", field=field)
    if len(tag) > MAX_TAG_CHARS:
        raise TooLargeError(
            f"{field}: the tag {shortened(tag)} has {len(tag):,} characters, more than the {MAX_TAG_CHARS} allowed",
            field=field,
        )
    require_storable(tag, field=field)
    return tag


def normalise_namespace(value: object, /, *, field: str = "namespace") -> str:
    """Return a namespace as an absolute path: "/" is the root, "/team/a" lies below "/team".

    The leading slash may be left out. Segments are opaque and compared whole: "/a" does not hold "/ab".

    Raises:
        InvalidInputError: no text, an empty segment ("/a//b"), or a control character.
        TooLargeError: over 500 characters.
    """
    if value is None or value in ("", ROOT):
        return ROOT
    text = clean_text(value, field=field, limit=MAX_NAMESPACE_CHARS)
    segments = unicodedata.normalize("NFC", text).removeprefix("/").removesuffix("/").split("/")
    if not all(segment.strip() for segment in segments):
        raise InvalidInputError(
            f"{field} {shortened(text)} has an empty segment; write it like /team/project", field=field
        )
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInputError(f"{field} {shortened(text)} holds a control character", field=field)
    return "/" + "/".join(segments)


def is_within(namespace: str, ancestor: str, /) -> bool:
    """Whether `namespace` is `ancestor` or lies below it; both in normalised form."""
    return ancestor == ROOT or namespace == ancestor or namespace.startswith(ancestor + "/")


def clean_name(value: object, /, *, field: str, limit: int = MAX_NAME_CHARS) -> str:
    """Return an identifier such as an agent or conversation id: one line, no control characters, not blank.

    Raises:
        InvalidInputError: blank, unstorable, or holding a control character.
        TooLargeError: over `limit` characters.
    """
    text = clean_text(value, field=field, limit=limit)
    if text != text.strip() or any(unicodedata.category(character) == "Cc" for character in text):
        raise InvalidInputError(
            f"{field} {shortened(text)} must be one line without control characters or spaces around it",
            field=field,
        )
    return text
