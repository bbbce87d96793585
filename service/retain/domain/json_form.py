"""The one JSON form of each value: in REST and MCP answers, in `--json`, in exports, and in the HTTP client."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from retain.domain.errors import InvalidInputError
from retain.domain.ids import parse_id, shortened
from retain.domain.memory import (
    Deleted,
    Event,
    Hit,
    Imported,
    Listing,
    Memory,
    Model,
    NamespaceCount,
    Recall,
    Similar,
    Stats,
    Stored,
    StoredSession,
    TagCount,
    Tombstone,
    TurnSpan,
    TypeCount,
)
from retain.domain.time_range import TimeRange, parse_instant

JsonObject = dict[str, Any]


def time_to_json(value: datetime) -> str:
    """Return RFC 3339 in UTC with milliseconds: "2026-11-30T10:30:00.000Z"."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _optional_time(value: datetime | None) -> str | None:
    return None if value is None else time_to_json(value)


def memory_to_json(memory: Memory) -> JsonObject:
    """Return all fields of a memory; `searchable` and `turns` only where they say something."""
    form: JsonObject = {
        "id": memory.id,
        "content": memory.content,
        "content_hash": memory.content_hash,
        "type": memory.type,
        "tags": list(memory.tags),
        "metadata": dict(memory.metadata),
        "namespace": memory.namespace,
        "agent_id": memory.agent_id,
        "conversation_id": memory.conversation_id,
        "sequence": memory.sequence,
        "key": memory.key,
        "created_at": time_to_json(memory.created_at),
        "updated_at": time_to_json(memory.updated_at),
        "occurred_at": time_to_json(memory.occurred_at),
        "superseded_by": memory.superseded_by,
        "archived_at": _optional_time(memory.archived_at),
    }
    if memory.searchable is not None:
        form["searchable"] = [list(span) for span in memory.searchable]
    if memory.turns:
        form["turns"] = [
            {
                "role": turn.role,
                "start": turn.start,
                "end": turn.end,
                "occurred_at": _optional_time(turn.occurred_at),
            }
            for turn in memory.turns
        ]
    return form


def memory_from_json(form: Mapping[str, Any]) -> Memory:
    """Return the memory that `memory_to_json` wrote.

    Raises:
        InvalidInputError: a field is missing or impossible; the message names it.
    """
    return Memory(
        id=parse_id(form.get("id")),
        content=_text(form, "content"),
        content_hash=_text(form, "content_hash"),
        type=_text(form, "type"),
        tags=tuple(_list(form, "tags")),
        metadata=_object(form, "metadata"),
        namespace=_text(form, "namespace"),
        agent_id=_optional_text(form, "agent_id"),
        conversation_id=_optional_text(form, "conversation_id"),
        sequence=_optional_int(form, "sequence"),
        key=_optional_text(form, "key"),
        searchable=None if form.get("searchable") is None else tuple(map(_span, _list(form, "searchable"))),
        created_at=_time(form, "created_at"),
        updated_at=_time(form, "updated_at"),
        occurred_at=_time(form, "occurred_at"),
        superseded_by=_optional_text(form, "superseded_by"),
        archived_at=None if form.get("archived_at") is None else _time(form, "archived_at"),
        turns=tuple(_turn_from_json(turn) for turn in _list(form, "turns")),
    )


def _span(form: Any) -> tuple[int, int]:
    match form:
        case [int(start), int(end)]:
            return start, end
        case _:
            raise InvalidInputError("searchable must hold pairs [start, end)", field="searchable")


def _turn_from_json(form: Any) -> TurnSpan:
    form = _object({"turns": form}, "turns")
    start, end = _optional_int(form, "start"), _optional_int(form, "end")
    if start is None or end is None:
        raise InvalidInputError("turns must have start and end", field="turns")
    occurred_at = None if form.get("occurred_at") is None else _time(form, "occurred_at")
    return TurnSpan(_text(form, "role"), start, end, occurred_at)


def hit_to_json(hit: Hit) -> JsonObject:
    """Return the memory's fields with `score`, `snippet` and `signals` beside them."""
    signals = {name: round(value, 4) for name, value in hit.signals.items()}
    return {
        **memory_to_json(hit.memory),
        "score": round(hit.score, 4),
        "snippet": hit.snippet,
        "signals": signals,
    }


def hit_from_json(form: Mapping[str, Any]) -> Hit:
    """Return the hit that `hit_to_json` wrote."""
    return Hit(memory_from_json(form), float(form["score"]), _text(form, "snippet"), _object(form, "signals"))


def recall_to_json(recall: Recall) -> JsonObject:
    """Return the hits under `memories`, with what was searched."""
    span = recall.time_range
    return {
        "memories": [hit_to_json(hit) for hit in recall.hits],
        "query": recall.query,
        "mode": recall.mode,
        "time_range": None
        if span is None
        else {"since": _optional_time(span.since), "until": _optional_time(span.until)},
    }


def recall_from_json(form: Mapping[str, Any]) -> Recall:
    """Return the recall that `recall_to_json` wrote."""
    span = form.get("time_range")
    return Recall(
        hits=tuple(hit_from_json(hit) for hit in _list(form, "memories")),
        query=str(form["query"]),
        mode=form["mode"],
        time_range=None
        if span is None
        else TimeRange(*(None if span[side] is None else parse_instant(span[side]) for side in ("since", "until"))),
    )


def listing_to_json(listing: Listing) -> JsonObject:
    """Return one page."""
    return {
        "memories": [memory_to_json(memory) for memory in listing.memories],
        "total": listing.total,
        "next_cursor": listing.next_cursor,
    }


def listing_from_json(form: Mapping[str, Any]) -> Listing:
    """Return the page that `listing_to_json` wrote."""
    memories = tuple(memory_from_json(memory) for memory in _list(form, "memories"))
    return Listing(memories, int(form["total"]), _optional_text(form, "next_cursor"))


def stored_to_json(stored: Stored) -> JsonObject:
    """Return the memory, whether it is new, and what it resembles."""
    return {
        "memory": memory_to_json(stored.memory),
        "created": stored.created,
        "similar_to": [
            {"id": similar.id, "score": round(similar.score, 4), "snippet": similar.snippet}
            for similar in stored.similar_to
        ],
    }


def stored_from_json(form: Mapping[str, Any]) -> Stored:
    """Return the outcome that `stored_to_json` wrote."""
    similar = tuple(Similar(s["id"], float(s["score"]), s["snippet"]) for s in _list(form, "similar_to"))
    return Stored(memory_from_json(_object(form, "memory")), bool(form["created"]), similar)


def stored_session_to_json(session: StoredSession) -> JsonObject:
    """Return the conversation id and the outcome of each memory."""
    return {
        "conversation_id": session.conversation_id,
        "stored": [stored_to_json(stored) for stored in session.stored],
    }


def stored_session_from_json(form: Mapping[str, Any]) -> StoredSession:
    """Return the outcome that `stored_session_to_json` wrote."""
    return StoredSession(
        _text(form, "conversation_id"), tuple(stored_from_json(stored) for stored in _list(form, "stored"))
    )


def deleted_to_json(deleted: Deleted) -> JsonObject:
    """Return how many and which memories went."""
    return {"count": deleted.count, "ids": list(deleted.ids), "dry_run": deleted.dry_run}


def tag_count_to_json(count: TagCount) -> JsonObject:
    """Return a tag and its use."""
    return {"tag": count.tag, "count": count.count}


def namespace_count_to_json(count: NamespaceCount) -> JsonObject:
    """Return a namespace and its use."""
    return {"namespace": count.namespace, "count": count.count}


def type_count_to_json(count: TypeCount) -> JsonObject:
    """Return a type, its parent, its use, and where it is known."""
    return {"type": count.type, "parent": count.parent, "count": count.count, "namespace": count.namespace}


def type_count_from_json(form: Mapping[str, Any]) -> TypeCount:
    """Return the count that `type_count_to_json` wrote."""
    return TypeCount(form["type"], form["parent"], form["count"], form["namespace"])


def stats_to_json(stats: Stats) -> JsonObject:
    """Return the counts."""
    return {
        "total": stats.total,
        "superseded": stats.superseded,
        "archived": stats.archived,
        "tags": stats.tags,
        "conversations": stats.conversations,
        "by_type": [type_count_to_json(count) for count in stats.by_type],
        "model": None if stats.model is None else {"id": stats.model.id, "dimensions": stats.model.dimensions},
        "bytes": stats.bytes,
    }


def stats_from_json(form: Mapping[str, Any]) -> Stats:
    """Return the counts that `stats_to_json` wrote."""
    model = form["model"]
    return Stats(
        total=form["total"],
        superseded=form["superseded"],
        archived=form["archived"],
        tags=form["tags"],
        conversations=form["conversations"],
        by_type=tuple(
            TypeCount(c["type"], c["parent"], c["count"], c.get("namespace")) for c in _list(form, "by_type")
        ),
        model=None if model is None else Model(model["id"], model["dimensions"]),
        bytes=form["bytes"],
    )


def event_to_json(event: Event) -> JsonObject:
    """Return one change."""
    return {
        "seq": event.seq,
        "kind": event.kind,
        "memory_id": event.memory_id,
        "namespace": event.namespace,
        "at": time_to_json(event.at),
        "type": event.type,
        "tags": list(event.tags),
    }


def event_from_json(form: Mapping[str, Any]) -> Event:
    """Return the change that `event_to_json` wrote."""
    return Event(
        seq=form["seq"],
        kind=form["kind"],
        memory_id=form["memory_id"],
        namespace=form["namespace"],
        at=_time(form, "at"),
        type=form["type"],
        tags=tuple(form["tags"]),
    )


def imported_to_json(imported: Imported) -> JsonObject:
    """Return the counts of an import."""
    return {"created": imported.created, "skipped": imported.skipped, "tombstones": imported.tombstones}


def tombstone_to_json(tombstone: Tombstone) -> JsonObject:
    """Return what is left of a deleted memory."""
    return {
        "id": tombstone.id,
        "content_hash": tombstone.content_hash,
        "namespace": tombstone.namespace,
        "deleted_at": time_to_json(tombstone.deleted_at),
    }


def tombstone_from_json(form: Mapping[str, Any]) -> Tombstone:
    """Return the tombstone that `tombstone_to_json` wrote."""
    return Tombstone(
        parse_id(form.get("id")),
        _text(form, "content_hash"),
        _text(form, "namespace"),
        _time(form, "deleted_at"),
    )


def _text(form: Mapping[str, Any], name: str) -> str:
    value: object = form.get(name)
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be text, not {shortened(value)}", field=name)
    return value


def _optional_text(form: Mapping[str, Any], name: str) -> str | None:
    return None if form.get(name) is None else _text(form, name)


def _optional_int(form: Mapping[str, Any], name: str) -> int | None:
    value: object = form.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise InvalidInputError(f"{name} must be a whole number, not {shortened(value)}", field=name)
    return value


def _object(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    value: object = form.get(name)
    if not isinstance(value, dict):
        raise InvalidInputError(f"{name} must be a JSON object, not {shortened(value)}", field=name)
    return cast("dict[str, Any]", value)


def _list(form: Mapping[str, Any], name: str) -> list[Any]:
    value: object = form.get(name, [])
    if not isinstance(value, list):
        raise InvalidInputError(f"{name} must be a list, not {shortened(value)}", field=name)
    return cast("list[Any]", value)


def _time(form: Mapping[str, Any], name: str) -> datetime:
    value: object = form.get(name)
    if not isinstance(value, str | int | float):
        raise InvalidInputError(
            f"{name} must be a time such as 2026-11-30T10:30:00Z, not {shortened(value)}", field=name
        )
    return parse_instant(value, field=name)
