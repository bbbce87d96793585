"""From what a caller sends to a memory that may be stored: every check and normalisation, in one place."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from retain.core.policy import AGENT_TAG_PREFIX, MAX_AGENT_CHARS, Principal
from retain.core.ports import Expected
from retain.domain.errors import InvalidInputError, TooLargeError
from retain.domain.ids import id_of, new_id, parse_id, shortened
from retain.domain.memory import (
    MAX_KEY_CHARS,
    MAX_METADATA_BYTES,
    MAX_PAGE,
    Memory,
    MemoryFields,
    MemoryPatch,
    NewMemory,
    Page,
    TurnSpan,
    Unset,
)
from retain.domain.ontology import BUILT_IN, known_type, type_name
from retain.domain.text import (
    MAX_NAME_CHARS,
    clean_name,
    clean_text,
    content_hash,
    normalise_namespace,
    normalise_tags,
    require_storable,
)

T = TypeVar("T")

MAX_SEQUENCE = 2**53 - 1
"""Largest `sequence`: what JSON numbers carry exactly."""
MAX_METADATA_DEPTH = 32
"""Deepest nesting of metadata, the object itself counted."""
MAX_ROLE_CHARS = 40
MAX_MERGED_TAGS = 100_000
"""Most tags of an imported memory: each duplicate that was stored may have added its own."""


@dataclass(frozen=True, slots=True)
class Intake:
    """The checks of one call: on whose behalf, at what time, with which types and limits."""

    principal: Principal
    now: datetime
    types: Mapping[str, str | None]
    max_content_chars: int

    def memory(self, new: NewMemory, /, *, turns: tuple[TurnSpan, ...] = ()) -> Memory:
        """Return the memory that `new` describes, with a fresh id and hash.

        Raises:
            InvalidInputError, TooLargeError: a field is impossible; the message names it.
            PermissionDeniedError: the namespace or the agent is not the principal's.
        """
        content = clean_text(new.content, field="content", limit=self.max_content_chars)
        agent_id = self.principal.agent_for(optional_name(new.agent_id, "agent_id", MAX_AGENT_CHARS))
        namespace, key = self.principal.namespace_for(new.namespace), _key(new.key)
        return Memory(
            id=new_id() if key is None else id_of(namespace, key),
            content=content,
            content_hash=content_hash(content),
            created_at=self.now,
            updated_at=self.now,
            occurred_at=self.now if new.occurred_at is None else aware(new.occurred_at, "occurred_at"),
            type=known_type(new.type, self.types),
            tags=self._tags(new.tags, agent_id),
            metadata=clean_metadata(new.metadata),
            namespace=namespace,
            agent_id=agent_id,
            conversation_id=optional_name(new.conversation_id, "conversation_id"),
            sequence=_sequence(new.sequence),
            key=key,
            searchable=_searchable(new.searchable, content),
            turns=turns,
        )

    def expected(self, new: NewMemory, /) -> Expected | None:
        """Return what must be stored under the key of `new` for it to be written.

        Raises:
            InvalidInputError: there is no key, or both conditions are given.
        """
        for name in ("if_updated_at", "if_absent", "keep_tags"):
            if getattr(new, name) and not new.key:
                raise InvalidInputError(f"{name} needs a key", field=name)
        if new.if_updated_at is None and not new.if_absent:
            return None
        if new.if_updated_at is not None and new.if_absent:
            raise InvalidInputError("if_absent and if_updated_at exclude each other", field="if_absent")
        return Expected(None if new.if_updated_at is None else aware(new.if_updated_at, "if_updated_at"))

    def imported(self, memory: Memory, /) -> Memory:
        """Return a memory of an export as it is, when it could have been stored through any other way in.

        Raises:
            InvalidInputError, TooLargeError: a field is impossible or not in normal form; the message names it.
            PermissionDeniedError: the namespace or the agent is not the principal's.
        """
        clean_text(memory.content, field="content", limit=self.max_content_chars)
        _require_turns_within(memory)
        normal = replace(
            memory,
            content_hash=content_hash(memory.content),
            type=known_type(memory.type, self.types),
            tags=normalise_tags(memory.tags, limit=MAX_MERGED_TAGS),  # merges may have brought more than one store can
            metadata=clean_metadata(memory.metadata),
            namespace=self.principal.namespace_for(normalise_namespace(memory.namespace)),
            agent_id=self.principal.agent_for(optional_name(memory.agent_id, "agent_id", MAX_AGENT_CHARS)),
            conversation_id=optional_name(memory.conversation_id, "conversation_id"),
            sequence=_sequence(memory.sequence),
            key=_key(memory.key),
            searchable=_searchable(memory.searchable, memory.content),
            superseded_by=None
            if memory.superseded_by is None
            else parse_id(memory.superseded_by, field="superseded_by"),
        )
        self.principal.require_own_agent_tags(memory.tags)
        if normal.key is not None and normal.id != id_of(normal.namespace, normal.key):
            raise InvalidInputError("id does not belong to the key in this namespace", field="id")
        if normal != memory:
            name = next(
                field.name for field in fields(Memory) if getattr(normal, field.name) != getattr(memory, field.name)
            )
            raise InvalidInputError(f"{name} is not as an export writes it", field=name)
        return memory

    def patch(self, patch: MemoryPatch, memory: Memory, /) -> dict[str, object]:
        """Return the new values of plain columns by name, and the new `content` when it really changes.

        Raises:
            InvalidInputError: a field is impossible, or nothing at all was given.
            PermissionDeniedError: a tag names an agent that is not the principal's.
        """
        fields: dict[str, object] = {}
        if not isinstance(patch.content, Unset):
            content = clean_text(patch.content, field="content", limit=self.max_content_chars)
            if content != memory.content:
                fields["content"] = content
        if not isinstance(patch.type, Unset):
            fields["type"] = known_type(patch.type, self.types)
        if not isinstance(patch.tags, Unset):
            fields["tags"] = self._tags(patch.tags, memory.agent_id)
        if not isinstance(patch.metadata, Unset):
            fields["metadata"] = clean_metadata(patch.metadata)
        if not isinstance(patch.occurred_at, Unset):
            fields["occurred_at"] = aware(patch.occurred_at, "occurred_at")
        if not isinstance(patch.superseded_by, Unset):
            successor = patch.superseded_by
            fields["superseded_by"] = _optional_id(successor, "superseded_by")
        if not isinstance(patch.archived, Unset):
            fields["archived_at"] = (memory.archived_at or self.now) if patch.archived else None
        if patch == MemoryPatch(if_updated_at=patch.if_updated_at):
            raise InvalidInputError("nothing to change: give content, type, tags, metadata, occurred_at, …")
        return fields

    def _tags(self, value: object, agent_id: str | None) -> tuple[str, ...]:
        tags = normalise_tags(value)
        self.principal.require_own_agent_tags(tags)
        own = (AGENT_TAG_PREFIX + agent_id,) if agent_id is not None else ()
        return tuple(dict.fromkeys(tags + own))


def clean_page(page: Page, /) -> Page:
    """Return `page` when its limit is from 1 to 1,000.

    Raises:
        InvalidInputError: it is not.
    """
    require_count(page.limit, "limit", MAX_PAGE)
    return page


def require_count(value: object, field: str, limit: int, /) -> int:
    """Return `value` when it is a whole number from 1 to `limit`.

    Raises:
        InvalidInputError: it is not; the message names the range.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= limit:
        error = TooLargeError if isinstance(value, int) and value > limit else InvalidInputError
        raise error(f"{field} must be a whole number from 1 to {limit:,}, not {shortened(value)}", field=field)
    return value


def aware(value: object, field: str, /) -> datetime:
    """Return a datetime in UTC, cut to the millisecond; one without offset is taken as UTC.

    Raises:
        InvalidInputError: not a datetime, or outside the years 1 to 9999 in UTC.
    """
    if not isinstance(value, datetime):
        raise InvalidInputError(f"{field} must be a datetime, not {type(value).__name__}", field=field)
    try:
        instant = (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise InvalidInputError(f"{field} {value!r} is outside the years 1 to 9999", field=field) from None
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _require_turns_within(memory: Memory) -> None:
    end = 0
    for turn in memory.turns:
        clean_name(turn.role, field="turns.role", limit=MAX_ROLE_CHARS)
        if not end <= turn.start < turn.end <= len(memory.content):
            raise InvalidInputError("turns must lie in the content, one after the other", field="turns")
        end = turn.end


def own_type(name: object, parent: object, /) -> tuple[str, str | None]:
    """Return the name and the base type of an own type.

    Raises:
        InvalidInputError: the name is impossible or built in, or the parent is no built-in type.
    """
    own = type_name(name)
    if own in BUILT_IN:
        raise InvalidInputError(f"{own!r} is a built-in type already", field="type")
    return own, None if parent is None or parent == "" else known_type(parent, BUILT_IN, field="parent")


def clean_metadata(value: object, /) -> dict[str, Any]:
    """Return metadata as a JSON object that reads back the same.

    Raises:
        InvalidInputError: not a JSON object; NaN, NUL or a lone surrogate inside.
        TooLargeError: over 1,048,576 bytes as JSON, or nested more than 32 deep.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"metadata must be a JSON object, not {type(value).__name__}", field="metadata")
    if not value:
        return {}
    try:
        text = json.dumps(dict(cast("Mapping[str, Any]", value)), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"metadata must be plain JSON: {error}", field="metadata") from None
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_METADATA_BYTES:
        raise TooLargeError(
            f"metadata has {size:,} bytes as JSON, more than the {MAX_METADATA_BYTES:,} allowed",
            field="metadata",
        )
    if _is_deeper(cast("object", value), MAX_METADATA_DEPTH):
        raise TooLargeError(f"metadata is nested more than {MAX_METADATA_DEPTH} deep", field="metadata")
    for part in _strings(cast("object", value)):
        require_storable(part, field="metadata")
    return cast("dict[str, Any]", json.loads(text))


def _is_deeper(value: object, levels: int) -> bool:
    """Whether a JSON value nests more than so many levels."""
    if isinstance(value, Mapping):
        inner: Iterable[object] = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list | tuple):
        inner = cast("Iterable[object]", value)
    else:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in inner)


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast("Iterable[object]", value):
            yield from _strings(item)


def request_digest(*parts: object) -> str:
    """Return the SHA-256 of a request, for telling a repeated one from another under the same key.

    The order of JSON keys does not matter.
    """
    text = json.dumps(parts, sort_keys=True, default=_as_json)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _as_json(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)


def _optional_id(value: str | None, field: str) -> str | None:
    return None if value is None else parse_id(value, field=field)


def optional_name(value: object, field: str, limit: int = MAX_NAME_CHARS, /) -> str | None:
    """Return an identifier, or None for None and "".

    Raises:
        InvalidInputError: see `clean_name`.
    """
    return None if value is None or value == "" else clean_name(value, field=field, limit=limit)


def _sequence(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEQUENCE:
        raise InvalidInputError(f"sequence must be a whole number from 0, not {shortened(value)}", field="sequence")
    return value


def _key(value: object) -> str | None:
    return None if value is None or value == "" else clean_text(value, field="key", limit=MAX_KEY_CHARS)


def _searchable(value: object, content: str) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    spans: list[tuple[int, int]] = []
    end = 0
    for span in cast("Iterable[object]", value if isinstance(value, list | tuple) else [value]):
        match span:
            case [int(start), int(stop)] if _are_places(start, stop) and end <= start < stop <= len(content):
                spans.append((start, stop))
                end = stop
            case _:
                raise InvalidInputError(
                    f"searchable must be pairs [start, end) within the content, in order and apart, not "
                    f"{shortened(span)}",
                    field="searchable",
                )
    return tuple(spans)


def _are_places(*values: int) -> bool:
    return not any(isinstance(value, bool) for value in values)


def clean_score(value: object, field: str, /) -> float:
    """Return `value` when it is a number in [0, 1].

    Raises:
        InvalidInputError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidInputError(f"{field} must be a number from 0 to 1, not {shortened(value)}", field=field)
    return float(value)


def as_new_memory(memory: str | NewMemory, fields: MemoryFields, /) -> NewMemory:
    """Return `memory` itself, or the memory with that content and `fields`.

    Raises:
        InvalidInputError: neither text nor a `NewMemory`, or a `NewMemory` and fields beside it.
    """
    if isinstance(memory, NewMemory):
        if fields:
            raise InvalidInputError(f"give {', '.join(fields)} inside the NewMemory", field=next(iter(fields)))
        return memory
    unknown = fields.keys() - MemoryFields.__annotations__.keys()
    if unknown:
        raise InvalidInputError(f"{', '.join(sorted(unknown))} is no field of a memory", field=min(unknown))
    return NewMemory(content=memory, **fields)


def id_superseded_by(new: NewMemory, /) -> str | None:
    """Return the id of the memory that `new` replaces, if there is one."""
    return parse_id(new.supersedes, field="supersedes") if new.supersedes else None


def at_place(make: Callable[[NewMemory], T], new: NewMemory, place: int, /) -> T:
    """Return what `make` makes of `new`; its errors name the place in the batch."""
    try:
        return make(new)
    except InvalidInputError as error:
        raise type(error)(f"memories[{place}]: {error}", field=error.field) from None
