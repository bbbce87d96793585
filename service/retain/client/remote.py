"""`RemoteMemory`: every method of `MemoryAPI` over REST, with the same values and the same errors."""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self, Unpack, cast

import httpx

from retain.client.connection import ATTEMPTS, Connection
from retain.client.events import lines_of, parsed_events
from retain.client.wire import (
    fields_to_wire,
    filter_to_wire,
    flat_query,
    new_memory_to_wire,
    patch_to_wire,
    to_bytes,
    turn_to_wire,
)
from retain.core.api import GroupBy, Record
from retain.core.intake import as_new_memory
from retain.domain.errors import InvalidInputError, StoreError, StoreUnavailableError
from retain.domain.ids import parse_id
from retain.domain.json_form import (
    JsonObject,
    event_from_json,
    listing_from_json,
    memory_from_json,
    recall_from_json,
    stats_from_json,
    stored_from_json,
    stored_session_from_json,
    type_count_from_json,
)
from retain.domain.memory import (
    EVERYTHING,
    Deleted,
    Event,
    Filter,
    Imported,
    Listing,
    Memory,
    MemoryFields,
    MemoryPatch,
    NamespaceCount,
    NewMemory,
    Page,
    Recall,
    RecallMode,
    SessionMode,
    Stats,
    Stored,
    StoredSession,
    TagCount,
    Turn,
    TypeCount,
)

EVENT_SILENCE_S = 45.0
"""Three heartbeats of the service: a stream that is silent for longer is dead."""


class RemoteMemory:
    """Implements `MemoryAPI` against a service started with `retain serve`.

    Requests that are safe to repeat are sent again when the connection fails; every store carries an idempotency
    key, so that a repeated one never stores twice.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        agent_id: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            base_url: Where the service listens, with the path prefix of a proxy if there is one.
            api_key: A key made by `retain keys create`.
            agent_id: The agent that all calls speak for.
            transport: How requests travel; for tests.

        Raises:
            InvalidInputError: `base_url` is no http or https URL.
        """
        self._connection = Connection(base_url, api_key=api_key, agent_id=agent_id, transport=transport)

    async def store(
        self,
        memory: str | NewMemory,
        /,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Stored:
        """See `MemoryAPI.store`."""
        body = new_memory_to_wire(as_new_memory(memory, fields))
        return stored_from_json(await self._post("memories", body, key=idempotency_key or _new_key()))

    async def store_many(
        self,
        memories: Iterable[str | NewMemory],
        /,
        *,
        delete: Sequence[str] = (),
        idempotency_key: str | None = None,
    ) -> Sequence[Stored]:
        """See `MemoryAPI.store_many`."""
        body: JsonObject = {"memories": [new_memory_to_wire(as_new_memory(memory, {})) for memory in memories]}
        if delete:
            body["delete"] = list(delete)
        form = await self._post("memories/batch", body, key=idempotency_key or _new_key())
        return [stored_from_json(stored) for stored in form["stored"]]

    async def store_session(
        self,
        turns: Sequence[Turn],
        /,
        *,
        mode: SessionMode = "turn",
        idempotency_key: str | None = None,
        **fields: Unpack[MemoryFields],
    ) -> StoredSession:
        """See `MemoryAPI.store_session`."""
        body = {"turns": [turn_to_wire(turn) for turn in turns], "mode": mode, **fields_to_wire(fields)}
        return stored_session_from_json(await self._post("sessions", body, key=idempotency_key or _new_key()))

    async def recall(
        self,
        query: str,
        /,
        *,
        k: int = 10,
        mode: RecallMode = "hybrid",
        where: Filter = Filter(),  # noqa: B008 - immutable
        group_by: GroupBy | None = None,
        min_score: float = 0.0,
        time_from_query: bool = False,
    ) -> Recall:
        """See `MemoryAPI.recall`."""
        body = filter_to_wire(where) | {"query": query, "k": k, "mode": mode, "min_score": min_score}
        if group_by is not None:
            body["group_by"] = group_by
        if time_from_query:
            body["time_from_query"] = True
        return recall_from_json(await self._post("memories/search", body))

    async def get(self, memory_id: str, /) -> Memory:
        """See `MemoryAPI.get`."""
        return memory_from_json(await self._get(f"memories/{parse_id(memory_id)}"))

    async def list(self, where: Filter = Filter(), page: Page = Page(), /) -> Listing:  # noqa: B008 - immutable
        """See `MemoryAPI.list`."""
        form = filter_to_wire(where) | {"limit": page.limit}
        if page.cursor:
            form["cursor"] = page.cursor
        return listing_from_json(await self._get("memories", form))

    async def update(self, memory_id: str, patch: MemoryPatch, /) -> Memory:
        """See `MemoryAPI.update`."""
        path, content = f"api/memories/{parse_id(memory_id)}", to_bytes(patch_to_wire(patch))
        return memory_from_json(_form(await self._connection.request("PATCH", path, content=content)))

    async def delete(self, memory_id: str, /) -> None:
        """See `MemoryAPI.delete`."""
        await self._connection.request("DELETE", f"api/memories/{parse_id(memory_id)}")

    async def delete_many(
        self, where: Filter, /, *, dry_run: bool = False, expected_count: int | None = None
    ) -> Deleted:
        """See `MemoryAPI.delete_many`."""
        body = filter_to_wire(where) | {"dry_run": dry_run}
        if expected_count is not None:
            body["expected_count"] = expected_count
        form = await self._post("memories/delete", body, repeatable=dry_run)
        return Deleted(tuple(form["ids"]), form["dry_run"])

    async def tags(self, where: Filter = Filter(), /, *, minimum_use: int = 1) -> Sequence[TagCount]:  # noqa: B008
        """See `MemoryAPI.tags`."""
        form = await self._get("tags", filter_to_wire(where) | {"minimum_use": minimum_use})
        return [TagCount(item["tag"], item["count"]) for item in form["tags"]]

    async def merge_tags(self, sources: Sequence[str], target: str, /) -> int:
        """See `MemoryAPI.merge_tags`."""
        body = {"sources": sources if isinstance(sources, str) else list(sources), "target": target}
        return int((await self._post("tags/merge", body, repeatable=False))["changed"])

    async def namespaces(self, where: Filter = Filter(), /) -> Sequence[NamespaceCount]:  # noqa: B008 - immutable
        """See `MemoryAPI.namespaces`."""
        form = await self._get("namespaces", filter_to_wire(where))
        return [NamespaceCount(item["namespace"], item["count"]) for item in form["namespaces"]]

    async def types(self) -> Sequence[TypeCount]:
        """See `MemoryAPI.types`."""
        form = await self._get("types")
        return [type_count_from_json(item) for item in form["types"]]

    async def register_type(self, name: str, /, *, parent: str | None = None) -> None:
        """See `MemoryAPI.register_type`."""
        await self._post("types", {"type": name} | ({"parent": parent} if parent else {}))

    async def stats(self) -> Stats:
        """See `MemoryAPI.stats`."""
        return stats_from_json(await self._get("stats"))

    async def export(self, where: Filter = EVERYTHING, /) -> AsyncIterator[Record]:
        """See `MemoryAPI.export`."""
        query = flat_query(filter_to_wire(where, all_states=True))
        async with (
            self._connection.stream("api/export", query=query) as answer,
            aclosing(lines_of(answer.aiter_bytes())) as lines,
        ):
            async for line in lines:
                yield json.loads(line)

    async def import_records(self, records: AsyncIterator[Record], /) -> Imported:
        """See `MemoryAPI.import_records`. Sent once; when it breaks off, importing again goes on where it stopped."""
        answer = await self._connection.request("POST", "api/import", content=_ndjson(records))
        form = _form(answer)
        return Imported(form["created"], form["skipped"], form["tombstones"])

    async def events(self, *, after: int | None = None) -> AsyncIterator[Event]:
        """See `MemoryAPI.events`. A broken stream is resumed after the last event that came."""
        failures = 0
        while True:
            headers = {} if after is None else {"last-event-id": str(after)}
            try:
                async with (
                    self._connection.stream("api/events", headers=headers, read_s=EVENT_SILENCE_S) as answer,
                    aclosing(parsed_events(answer.aiter_bytes())) as messages,
                ):
                    async for message in messages:
                        failures = 0
                        after = after if message.id is None else message.id
                        if message.data:
                            yield event_from_json(json.loads(message.data))
            except StoreUnavailableError:
                failures += 1
                if failures >= 2 * ATTEMPTS:
                    raise
            await self._connection.pause(max(failures, 1))

    async def aclose(self) -> None:
        """See `MemoryAPI.aclose`."""
        await self._connection.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def _get(self, path: str, form: Mapping[str, Any] | None = None) -> JsonObject:
        query = flat_query(form) if form else None
        return _form(await self._connection.request("GET", f"api/{path}", query=query))

    async def _post(
        self, path: str, body: JsonObject, *, key: str | None = None, repeatable: bool = True
    ) -> JsonObject:
        headers = {} if key is None else {"idempotency-key": _header(key)}
        answer = await self._connection.request(
            "POST", f"api/{path}", content=to_bytes(body), headers=headers, repeatable=repeatable
        )
        return _form(answer)


def _new_key() -> str:
    return str(uuid.uuid4())


def _header(key: str) -> str:
    if not key.isascii() or not key.isprintable() or not key.strip():
        raise InvalidInputError("idempotency_key must be printable ASCII, and not empty", field="idempotency_key")
    return key


def _form(answer: httpx.Response) -> JsonObject:
    try:
        form: object = json.loads(answer.content)
    except ValueError:
        form = None
    if not isinstance(form, dict):
        raise _foreign(answer)
    return _Form(answer, cast("JsonObject", form))


def _foreign(answer: httpx.Response) -> StoreError:
    return StoreError(f"{answer.url.copy_with(query=None)} does not answer like Retain; check the URL")


class _Form(dict[str, Any]):
    """An answer that says so when it lacks what every service of ours sends."""

    def __init__(self, answer: httpx.Response, form: JsonObject) -> None:
        super().__init__(form)
        self._answer = answer

    def __missing__(self, name: str) -> Any:
        raise _foreign(self._answer)


async def _ndjson(records: AsyncIterator[Record]) -> AsyncIterator[bytes]:
    async for record in records:
        yield to_bytes(record, field="record") + b"\n"
