"""From domain values to the JSON that REST takes. Conditions and fields that say nothing are left out."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, cast

from retain.core.intake import aware
from retain.domain.errors import InvalidInputError
from retain.domain.json_form import JsonObject, time_to_json
from retain.domain.memory import ACTIVE, Filter, MemoryFields, MemoryPatch, NewMemory, Turn, Unset
from retain.domain.text import require_storable


def filter_to_wire(where: Filter, /, *, all_states: bool = False) -> JsonObject:
    """Return the fields of a filter.

    Args:
        where: The filter.
        all_states: Whether the route takes in all states when none are given.
    """
    form: JsonObject = {
        "ids": where.ids,
        "namespace": where.namespace,
        "tags": where.tags,
        "exclude_tags": where.exclude_tags,
        "types": where.types,
        "since": _time(where.since, "since"),
        "until": _time(where.until, "until"),
        "time": where.time,
        "timezone": where.timezone,
        "agent_id": where.agent_id,
        "conversation_id": where.conversation_id,
        "metadata": where.metadata,
    }
    form = {name: _plain(value) for name, value in form.items() if value or (name == "ids" and value is not None)}
    if where.tag_match != "any":
        form["tag_match"] = where.tag_match
    if all_states or where.states != ACTIVE:
        if not where.states:
            raise InvalidInputError("states is empty; name at least one", field="states")
        form["states"] = sorted(where.states)
    return form


def new_memory_to_wire(new: NewMemory, /) -> JsonObject:
    """Return the body of a store."""
    fields: MemoryFields = {
        "type": new.type,
        "tags": new.tags,
        "metadata": new.metadata,
        "namespace": new.namespace,
        "agent_id": new.agent_id,
        "conversation_id": new.conversation_id,
        "sequence": new.sequence,
        "occurred_at": new.occurred_at,
        "supersedes": new.supersedes,
        "key": new.key,
        "searchable": new.searchable,
        "if_updated_at": new.if_updated_at,
        "if_absent": new.if_absent,
        "keep_tags": new.keep_tags,
    }
    return {"content": new.content, **fields_to_wire(fields)}


def fields_to_wire(fields: MemoryFields, /) -> JsonObject:
    """Return what is said of a memory, or of all memories of a session."""
    form: JsonObject = {}
    for name, value in fields.items():
        if name in ("occurred_at", "if_updated_at"):
            value = _time(cast("datetime | None", value), name)
        if name == "searchable" and value is not None:
            form[name] = [list(span) for span in cast("Sequence[Sequence[int]]", value)]  # none at all says something
        elif value is not None and value is not False and value not in ("", (), [], {}):
            form[name] = _plain(value)
    return form


def turn_to_wire(turn: Turn, /) -> JsonObject:
    """Return one message of a session."""
    form: JsonObject = {"role": turn.role, "content": turn.content}
    if turn.occurred_at is not None:
        form["occurred_at"] = _time(turn.occurred_at, "occurred_at")
    return form


def patch_to_wire(patch: MemoryPatch, /) -> JsonObject:
    """Return the body of a partial update."""
    form: JsonObject = {}
    for name in MemoryPatch.__dataclass_fields__:
        value: Any = getattr(patch, name)
        if isinstance(value, Unset) or (name == "if_updated_at" and value is None):
            continue
        if value == "":
            # On the wire "" is "not given", which is not what it means here.
            if name != "tags":
                raise InvalidInputError(f"{name} is empty; leave it out to keep it as it is", field=name)
            value = ()
        form[name] = _time(value, name) if name in ("occurred_at", "if_updated_at") else _plain(value)
    return form


def flat_query(form: Mapping[str, Any], /) -> dict[str, str]:
    """Return fields as query parameters: lists and objects as JSON text.

    Raises:
        InvalidInputError: a text holds half of a character, which no URL can carry.
    """
    query: dict[str, str] = {}
    for name, value in form.items():
        if isinstance(value, str):
            require_storable(value, field=name)
        query[name] = value if isinstance(value, str) else json.dumps(value)
    return query


def to_bytes(form: object, /, *, field: str = "body") -> bytes:
    """Return JSON bytes; half characters are sent as such, so that the service can refuse them.

    Raises:
        InvalidInputError: a value can't be JSON.
    """
    try:
        text = json.dumps(form, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the request can't be sent as JSON: {error}", field=field) from None
    # What UTF-8 can't carry, JSON writes just as `backslashreplace` does.
    return text.encode("utf-8", "backslashreplace")


def _time(value: datetime | None, field: str) -> str | None:
    return None if value is None else time_to_json(aware(value, field))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        return list(cast("Iterable[object]", value))
    return value
