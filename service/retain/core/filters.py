"""Filters as callers give them become filters as stores take them; one that isn't understood is an error."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from retain.core.intake import aware, clean_metadata, optional_name
from retain.core.policy import Principal
from retain.domain.errors import InvalidInputError, TooLargeError
from retain.domain.ids import parse_id, shortened
from retain.domain.memory import STATES, Filter
from retain.domain.metadata_filter import require_known_operators
from retain.domain.ontology import known_type, with_subtypes
from retain.domain.text import normalise_tags
from retain.domain.time_range import TimeRange, load_zone, parse_time_range

MAX_FILTER_VALUES = 1_000
MAX_TIME_CHARS = 200
MAX_FILTER_KEYS = 100
"""Most metadata keys that one filter may ask for."""


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
    if len(where.metadata) > MAX_FILTER_KEYS:
        raise TooLargeError(f"metadata asks for over {MAX_FILTER_KEYS} keys", field="metadata")
    metadata = clean_metadata(where.metadata)
    require_known_operators(metadata)
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
            agent_id=optional_name(where.agent_id, "agent_id"),
            conversation_id=optional_name(where.conversation_id, "conversation_id"),
            metadata=metadata,
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
    if len(where.time) > MAX_TIME_CHARS:
        raise TooLargeError(
            f"time has over {MAX_TIME_CHARS} characters; give an expression such as last week", field="time"
        )
    return parse_time_range(where.time, now=now, zone=load_zone(where.timezone or zone))


def restricts(where: Filter, /) -> bool:
    """Whether a resolved filter says more than "everything in the namespace that I may see"."""
    return replace(where, namespace=None, states=STATES) != Filter(states=STATES, tags=(), exclude_tags=())
