"""From what a caller sends to a memory that may be stored: every check and normalisation, in one place."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, cast

from retain.core.policy import AGENT_TAG_PREFIX, Principal
from retain.domain.errors import InvalidInputError, TooLargeError
from retain.domain.ids import new_id, parse_id, shortened
from retain.domain.memory import (
    MAX_METADATA_BYTES,
    MAX_PAGE,
    STATES,
    Filter,
    Memory,
    MemoryFields,
    MemoryPatch,
    NewMemory,
    Page,
    TurnSpan,
    Unset,
)
from retain.domain.ontology import known_type, with_subtypes
from retain.domain.text import (
    MAX_TAG_CHARS,
    clean_name,
    clean_text,
    content_hash,
    normalise_tags,
    require_storable,
)
from retain.domain.time_range import TimeRange, load_zone, parse_time_range

MAX_SEQUENCE = 2**53 - 1
"""Largest `sequence`: what JSON numbers carry exactly."""
MAX_FILTER_VALUES = 1_000
_MAX_AGENT_CHARS = MAX_TAG_CHARS - len(AGENT_TAG_PREFIX)


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
        agent_id = self.principal.agent_for(_optional_name(new.agent_id, "agent_id", _MAX_AGENT_CHARS))
        return Memory(
            id=new_id(),
            content=content,
            content_hash=content_hash(content),
            created_at=self.now,
            updated_at=self.now,
            occurred_at=self.now if new.occurred_at is None else aware(new.occurred_at, "occurred_at"),
            type=known_type(new.type, self.types),
            tags=self._tags(new.tags, agent_id),
            metadata=clean_metadata(new.metadata),
            namespace=self.principal.namespace_for(new.namespace),
            agent_id=agent_id,
            conversation_id=_optional_name(new.conversation_id, "conversation_id"),
            sequence=_sequence(new.sequence),
            turns=turns,
        )

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
            fields["superseded_by"] = None if successor is None else parse_id(successor, field="superseded_by")
        if not isinstance(patch.archived, Unset):
            fields["archived_at"] = (memory.archived_at or self.now) if patch.archived else None
        if patch == MemoryPatch():
            raise InvalidInputError("nothing to change: give content, type, tags, metadata, occurred_at, …")
        return fields

    def _tags(self, value: object, agent_id: str | None) -> tuple[str, ...]:
        tags = normalise_tags(value)
        self.principal.require_own_agent_tags(tags)
        own = (AGENT_TAG_PREFIX + agent_id,) if agent_id is not None else ()
        return tuple(dict.fromkeys(tags + own))


def resolve_filter(
    where: Filter, /, *, principal: Principal, now: datetime, zone: str, types: Mapping[str, str | None]
) -> Filter:
    """Return `where` as stores take it: checked, normalised, time words as instants, narrowed to the principal.

    Raises:
        InvalidInputError: a condition is impossible or not understood; it is never ignored.
        PermissionDeniedError: the namespace is not the principal's.
    """
    if where.tag_match not in ("any", "all"):
        raise InvalidInputError(f"tag_match must be any or all, not {shortened(where.tag_match)}", field="tag_match")
    if not where.states or not where.states <= STATES:
        raise InvalidInputError(f"states must be some of {', '.join(sorted(STATES))}", field="states")
    span = _time_range(where, now=now, zone=zone)
    chosen = [known_type(name, types, field="types") for name in where.types if name != ""]
    if len(where.types) > MAX_FILTER_VALUES:
        raise TooLargeError(f"types has over {MAX_FILTER_VALUES:,} values", field="types")
    return principal.narrow(
        replace(
            where,
            ids=None if where.ids is None else tuple(parse_id(i, field="ids") for i in where.ids),
            namespace=where.namespace or None,
            tags=normalise_tags(where.tags),
            exclude_tags=normalise_tags(where.exclude_tags, field="exclude_tags"),
            types=tuple(sorted(with_subtypes(chosen, types))) if chosen else (),
            since=span.since,
            until=span.until,
            time=None,
            timezone=None,
            agent_id=_optional_name(where.agent_id, "agent_id"),
            conversation_id=_optional_name(where.conversation_id, "conversation_id"),
            metadata=clean_metadata(where.metadata),
        )
    )


def _time_range(where: Filter, *, now: datetime, zone: str) -> TimeRange:
    since = None if where.since is None else aware(where.since, "since")
    until = None if where.until is None else aware(where.until, "until")
    if since and until and since >= until:
        raise InvalidInputError(
            f"since ({since.isoformat()}) must be before until ({until.isoformat()})", field="since"
        )
    if not where.time:
        return TimeRange(since, until)
    if since or until:
        raise InvalidInputError("give either time or since and until, not both", field="time")
    return parse_time_range(where.time, now=now, zone=load_zone(where.timezone or zone))


def restricts(where: Filter, /) -> bool:
    """Whether a resolved filter says more than "everything in the namespace that I may see"."""
    return replace(where, namespace=None, states=STATES) != Filter(states=STATES, tags=(), exclude_tags=())


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


def clean_metadata(value: object, /) -> dict[str, Any]:
    """Return metadata as a JSON object that reads back the same.

    Raises:
        InvalidInputError: not a JSON object; NaN, NUL or a lone surrogate inside.
        TooLargeError: over 65,536 bytes as JSON.
    """
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"metadata must be a JSON object, not {type(value).__name__}", field="metadata")
    try:
        text = json.dumps(dict(cast("Mapping[str, Any]", value)), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"metadata must be plain JSON: {error}", field="metadata") from None
    for part in _strings(cast("object", value)):
        require_storable(part, field="metadata")
    size = len(text.encode("utf-8"))
    if size > MAX_METADATA_BYTES:
        raise TooLargeError(
            f"metadata has {size:,} bytes as JSON, more than the {MAX_METADATA_BYTES:,} allowed",
            field="metadata",
        )
    return cast("dict[str, Any]", json.loads(text))


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
    """Return the SHA-256 of a request, for telling a repeated one from another under the same key."""
    text = json.dumps(parts, ensure_ascii=True, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _optional_name(value: object, field: str, limit: int = 200) -> str | None:
    return None if value is None or value == "" else clean_name(value, field=field, limit=limit)


def _sequence(value: object) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_SEQUENCE:
        raise InvalidInputError(f"sequence must be a whole number from 0, not {shortened(value)}", field="sequence")
    return value


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


def at_place(make: Callable[[NewMemory], Memory], new: NewMemory, place: int, /) -> Memory:
    """Return what `make` makes of `new`; its errors name the place in the batch."""
    try:
        return make(new)
    except InvalidInputError as error:
        raise type(error)(f"memories[{place}]: {error}", field=error.field) from None
