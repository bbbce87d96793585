"""In process: `MemoryService` itself, with the values of the Python interface."""

from collections.abc import Mapping, Sequence
from typing import Any

from retain import Filter, MemoryPatch, Page, Turn
from retain.core.service import MemoryService
from retain.domain import json_form
from retain.domain.time_range import parse_instant
from tests.parity.doors import Json

TIMES = ("occurred_at", "since", "until")
TUPLES = ("tags", "exclude_tags", "types", "ids")


def to_filter(where: Mapping[str, Any]) -> Filter:
    values = {name: parse_instant(value, field=name) if name in TIMES else value for name, value in where.items()}
    values |= {name: tuple(values[name]) for name in TUPLES if name in values}
    if "states" in values:
        values["states"] = frozenset(values["states"])
    return Filter(**values)


def typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse_instant(value, field=name) if name in TIMES else value for name, value in fields.items()}


class PythonDoor:
    """The library, as an agent in the same process uses it."""

    def __init__(self, service: MemoryService) -> None:
        self._service = service

    async def store(self, content: str, **fields: object) -> Json:
        return json_form.stored_to_json(await self._service.store(content, **typed(fields)))  # type: ignore[arg-type]

    async def store_session(self, turns: Sequence[Mapping[str, Any]], **fields: object) -> Json:
        given = [Turn(**turn) for turn in turns]
        stored = await self._service.store_session(given, **typed(fields))  # type: ignore[arg-type]
        return json_form.stored_session_to_json(stored)

    async def search(self, query: str, **fields: Any) -> Json:
        own = {
            name: fields.pop(name)
            for name in ("k", "mode", "group_by", "min_score", "time_from_query")
            if name in fields
        }
        return json_form.recall_to_json(await self._service.recall(query, where=to_filter(fields), **own))

    async def get(self, memory_id: str) -> Json:
        return json_form.memory_to_json(await self._service.get(memory_id))

    async def list(self, **where: Any) -> Json:
        page = Page(where.pop("limit", 50), where.pop("cursor", None) or None)
        return json_form.listing_to_json(await self._service.list(to_filter(where), page))

    async def update(self, memory_id: str, **fields: object) -> Json:
        return json_form.memory_to_json(await self._service.update(memory_id, MemoryPatch(**typed(fields))))

    async def delete(self, memory_id: str) -> None:
        await self._service.delete(memory_id)

    async def delete_many(self, **where: Any) -> Json:
        own = {name: where.pop(name) for name in ("dry_run", "expected_count") if name in where}
        return json_form.deleted_to_json(await self._service.delete_many(to_filter(where), **own))

    async def tags(self) -> Sequence[Json]:
        return [json_form.tag_count_to_json(count) for count in await self._service.tags()]

    async def stats(self) -> Json:
        return json_form.stats_to_json(await self._service.stats())
