"""What can be read by URI: single memories, the newest ones, tags, types and counts, as far as the reader may."""

from collections.abc import Awaitable, Callable

from mcp_types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from retain.core.api import MemoryAPI
from retain.domain.json_form import memory_to_json, stats_to_json, tag_count_to_json, type_count_to_json
from retain.domain.memory import Filter, Page
from retain.transports.json_text import whole_text, write_json
from retain.transports.mcp import answers
from retain.transports.mcp.features import Context, MemoryOf, ResourceFeature
from retain.transports.mcp.rendering import DEFAULT_MAX_CHARS

MEMORY_URI = "memory://memories/"
TAGS_SHOWN = 500
_JSON = "application/json"
_TEXT = "text/plain"
_NEWEST = 20


async def _memory(memory: MemoryAPI, memory_id: str) -> str:
    return _json(memory_to_json(await memory.get(memory_id)))


async def _recent(memory: MemoryAPI) -> str:
    listing = await memory.list(Filter(), Page(_NEWEST))
    return answers.page(listing, shown=answers.fitting(listing, DEFAULT_MAX_CHARS)).text


async def _tags(memory: MemoryAPI) -> str:
    tags = await memory.tags(Filter())
    shown = [tag_count_to_json(tag) for tag in tags[:TAGS_SHOWN]]
    return _json({"tags": shown, "total": len(tags)})


async def _types(memory: MemoryAPI) -> str:
    return _json({"types": [type_count_to_json(count) for count in await memory.types()]})


async def _stats(memory: MemoryAPI) -> str:
    return _json(stats_to_json(await memory.stats()))


_FIXED: tuple[tuple[str, str, str, str, Callable[[MemoryAPI], Awaitable[str]]], ...] = (
    ("memory://recent", "recent", "The newest memories", _TEXT, _recent),
    ("memory://tags", "tags", "Tags in use, most used first", _JSON, _tags),
    ("memory://types", "types", "Known types with their use", _JSON, _types),
    ("memory://stats", "stats", "How much is stored", _JSON, _stats),
)


def resources(memory_of: MemoryOf, /) -> tuple[ResourceFeature, ...]:
    """Return all resources."""
    fixed = tuple(_fixed(memory_of, *entry) for entry in _FIXED)
    return (*fixed, _memories(memory_of))


def _fixed(
    memory_of: MemoryOf, uri: str, name: str, description: str, kind: str, text: Callable[[MemoryAPI], Awaitable[str]]
) -> ResourceFeature:
    async def read(context: Context, wanted: str) -> ReadResourceResult | None:
        if wanted != uri:
            return None
        return _contents(uri, kind, await text(await memory_of(context)))

    return ResourceFeature(Resource(uri=uri, name=name, description=description, mime_type=kind), read)


def _memories(memory_of: MemoryOf) -> ResourceFeature:
    async def read(context: Context, wanted: str) -> ReadResourceResult | None:
        if not wanted.startswith(MEMORY_URI):
            return None
        text = await _memory(await memory_of(context), wanted.removeprefix(MEMORY_URI))
        return _contents(wanted, _JSON, text)

    template = ResourceTemplate(
        uri_template=f"{MEMORY_URI}{{id}}", name="memory", description="One memory, whole", mime_type=_JSON
    )
    return ResourceFeature(template, read)


def _contents(uri: str, kind: str, text: str) -> ReadResourceResult:
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=kind, text=whole_text(text))])


def _json(value: object) -> str:
    return write_json(value)
