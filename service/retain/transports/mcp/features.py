"""What an MCP server offers, as values: tools, prompts and resources, each a definition and a function."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    Prompt,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    Tool,
)

from retain.core.api import MemoryAPI

Context = ServerRequestContext[Any, Any]
MemoryOf = Callable[[Context], Awaitable[MemoryAPI]]
"""Returns the memory as the one who sent the request may use it."""


@dataclass(frozen=True, slots=True)
class ToolFeature:
    """A tool and what runs it."""

    definition: Tool
    call: Callable[[Context, Mapping[str, Any]], Awaitable[CallToolResult | InputRequiredResult]]


@dataclass(frozen=True, slots=True)
class PromptFeature:
    """A prompt and what fills it."""

    definition: Prompt
    get: Callable[[Context, Mapping[str, str]], Awaitable[GetPromptResult | InputRequiredResult]]


@dataclass(frozen=True, slots=True)
class ResourceFeature:
    """A resource, or a family of them, and what reads it; `read` returns None for a URI that is not its own."""

    definition: Resource | ResourceTemplate
    read: Callable[[Context, str], Awaitable[ReadResourceResult | None]]


@dataclass(frozen=True, slots=True)
class Features:
    """All that a server offers."""

    tools: Sequence[ToolFeature] = ()
    prompts: Sequence[PromptFeature] = ()
    resources: Sequence[ResourceFeature] = ()

    def __add__(self, other: "Features") -> "Features":
        return Features(
            (*self.tools, *other.tools), (*self.prompts, *other.prompts), (*self.resources, *other.resources)
        )
