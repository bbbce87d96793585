"""The eight tools. Each reads its arguments, calls one method of the core, and renders what comes back."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel

from retain.core.api import MemoryAPI
from retain.domain.errors import InvalidInputError, RetainError
from retain.domain.json_form import JsonObject
from retain.domain.memory import MAX_K, Deleted, Filter, MemoryFields, Page
from retain.transports.json_text import presentable, whole_text
from retain.transports.mcp import answers
from retain.transports.mcp.arguments import (
    DeleteArguments,
    GetArguments,
    ListArguments,
    SearchArguments,
    StatsArguments,
    StoreArguments,
    StoreSessionArguments,
    UpdateArguments,
    input_schema,
    read,
)
from retain.transports.mcp.features import Context, MemoryOf, ToolFeature
from retain.transports.mcp.rendering import Answer

A = TypeVar("A", bound=BaseModel)


async def store(memory: MemoryAPI, arguments: StoreArguments) -> Answer:
    """Store one memory."""
    return answers.stored(
        await memory.store(arguments.to_new_memory(), idempotency_key=arguments.idempotency_key or None)
    )


async def store_session(memory: MemoryAPI, arguments: StoreSessionArguments) -> Answer:
    """Store a conversation."""
    fields: MemoryFields = arguments.to_fields()
    session = await memory.store_session(
        arguments.to_turns(), mode=arguments.mode, idempotency_key=arguments.idempotency_key or None, **fields
    )
    return answers.stored_session(session)


async def search(memory: MemoryAPI, arguments: SearchArguments) -> Answer:
    """Find memories. Going on at an offset asks for more hits and leaves out those that were shown."""
    recall = await memory.recall(
        arguments.query,
        k=arguments.k if arguments.k > MAX_K or arguments.k < 1 else min(arguments.k + arguments.offset, MAX_K),
        mode=arguments.mode,
        where=arguments.to_filter(),
        group_by=arguments.group_by or None,
        min_score=arguments.min_score,
        time_from_query=arguments.time_from_query,
    )
    return answers.found(recall, offset=arguments.offset, max_chars=arguments.max_chars)


async def get(memory: MemoryAPI, arguments: GetArguments) -> Answer:
    """Return one memory."""
    return answers.one(await memory.get(arguments.id), offset=arguments.offset, max_chars=arguments.max_chars)


async def list_memories(memory: MemoryAPI, arguments: ListArguments) -> Answer:
    """Return one page; where not all of it fits, a shorter page, so that its cursor goes on without a gap."""
    where, wanted = arguments.to_filter(), arguments.to_page()
    listing = await memory.list(where, wanted)
    while len(shown := answers.fitting(listing, arguments.max_chars)) < len(listing.memories):
        listing = await memory.list(where, Page(len(shown), wanted.cursor))
    return answers.page(listing, shown=shown)


async def update(memory: MemoryAPI, arguments: UpdateArguments) -> Answer:
    """Change a memory."""
    return answers.updated(await memory.update(arguments.id, arguments.to_patch_of()))


async def delete(memory: MemoryAPI, arguments: DeleteArguments) -> Answer:
    """Delete one memory, or all that a filter matches."""
    where = arguments.to_filter()
    if not arguments.by_id():
        return answers.deleted(
            await memory.delete_many(where, dry_run=arguments.dry_run, expected_count=arguments.expected_count)
        )
    if arguments.expected_count not in (None, 1):
        raise InvalidInputError("an id stands for one memory; leave expected_count out", field="expected_count")
    if arguments.dry_run:
        return answers.deleted(Deleted(((await memory.get(arguments.id)).id,), dry_run=True))
    await memory.delete(arguments.id)
    return answers.deleted(Deleted((arguments.id,)))


async def stats(memory: MemoryAPI, arguments: StatsArguments) -> Answer:
    """Count memories, types and tags."""
    tags = await memory.tags(Filter())
    return answers.counts(await memory.stats(), tags[: arguments.top_tags])


@dataclass(frozen=True, slots=True)
class _Kind(Generic[A]):
    """What a tool is: its name and words, its arguments and answer, what it does to the store, and what runs it."""

    name: str
    description: str
    arguments: type[A]
    answer: Mapping[str, str]
    run: Callable[[MemoryAPI, A], Awaitable[Answer]]
    reads: bool = False
    destroys: bool = False
    repeatable: bool = True

    def definition(self) -> Tool:
        """Return the tool as it is listed."""
        return Tool(
            name=self.name,
            description=self.description,
            input_schema=input_schema(self.arguments),
            output_schema=_output_schema(self.answer),
            annotations=ToolAnnotations(
                read_only_hint=self.reads,
                destructive_hint=self.destroys,
                idempotent_hint=self.repeatable,
                open_world_hint=False,
            ),
        )

    def feature(self, memory_of: MemoryOf) -> ToolFeature:
        """Return the tool on the memory of whoever calls it."""

        async def call(context: Context, arguments: Mapping[str, Any]) -> CallToolResult:
            try:
                given = read(self.arguments, arguments)
                return _result(await self.run(await memory_of(context), given))
            except RetainError as error:
                return failure(error)

        return ToolFeature(self.definition(), call)


_MEMORIES = {"memories": "array"}
_KINDS: tuple[_Kind[Any], ...] = (
    _Kind(
        "memory_store",
        "Store one memory: one fact, decision, lesson or error that will still matter later, in words that make sense "
        "alone. The same text is stored once; corrections go in with supersedes.",
        StoreArguments,
        {"memory": "object", "created": "boolean", "similar_to": "array"},
        store,
    ),
    _Kind(
        "memory_store_session",
        "Store a conversation turn by turn or as one memory. Sending it again, longer, adds the new turns.",
        StoreSessionArguments,
        {"conversation_id": "string", "stored": "array"},
        store_session,
        repeatable=False,
    ),
    _Kind(
        "memory_search",
        "Find memories by meaning and words, best first, with score, snippet and signals. Does not write.",
        SearchArguments,
        {**_MEMORIES, "query": "string", "mode": "string"},
        search,
        reads=True,
    ),
    _Kind(
        "memory_get",
        "Read one memory; a long one in parts.",
        GetArguments,
        {"id": "string", "content": "string", "type": "string", "tags": "array", "metadata": "object"},
        get,
        reads=True,
    ),
    _Kind(
        "memory_list",
        "List memories that match a filter, newest first, in pages.",
        ListArguments,
        {**_MEMORIES, "total": "integer"},
        list_memories,
        reads=True,
    ),
    _Kind(
        "memory_update",
        "Change fields of a memory in place; what is not given stays.",
        UpdateArguments,
        {"id": "string", "content": "string"},
        update,
        destroys=True,
    ),
    _Kind(
        "memory_delete",
        "Delete one memory by id, or all that match a filter: first with dry_run, then with expected_count. "
        "It can't be undone.",
        DeleteArguments,
        {"count": "integer", "ids": "array", "dry_run": "boolean"},
        delete,
        destroys=True,
    ),
    _Kind(
        "memory_stats",
        "Count memories by type and state, with the tags most used.",
        StatsArguments,
        {"total": "integer", "by_type": "array", "top_tags": "array"},
        stats,
        reads=True,
    ),
)


def tools(memory_of: MemoryOf, /) -> tuple[ToolFeature, ...]:
    """Return all tools."""
    return tuple(kind.feature(memory_of) for kind in _KINDS)


def failure(error: RetainError, /) -> CallToolResult:
    """Return an error that the model sees and can act on."""
    return CallToolResult(content=[TextContent(text=whole_text(f"{error.code}: {error}"))], is_error=True)


def _result(answer: Answer) -> CallToolResult:
    # The SDK writes answers with pydantic, which fails as a whole on one deep or odd value of one memory.
    structured = cast("JsonObject", presentable(answer.structured))
    return CallToolResult(content=[TextContent(text=whole_text(answer.text))], structured_content=structured)


def _output_schema(answer: Mapping[str, str]) -> JsonObject:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in answer.items()},
        "required": list(answer),
    }
