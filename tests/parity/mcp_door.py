"""MCP, as an agent uses it: tool calls through the SDK's client over Streamable HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.client import Client

from tests.parity.doors import Json
from tests.parity.http_door import BY_CODE


class McpDoor:
    """The service's tools, each call on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def _call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        async with Client(self._url) as client:
            result = await client.call_tool(tool, dict(arguments))
        if result.is_error:
            code, _, message = result.content[0].text.partition(": ")  # type: ignore[union-attr]
            raise BY_CODE[code](message)
        return result.structured_content

    async def store(self, content: str, **fields: object) -> Json:
        return await self._call("memory_store", {"content": content, **fields})

    async def store_session(self, turns: Sequence[Mapping[str, Any]], **fields: object) -> Json:
        return await self._call("memory_store_session", {"turns": list(turns), **fields})

    async def search(self, query: str, **fields: Any) -> Json:
        return await self._call("memory_search", {"query": query, **fields})

    async def get(self, memory_id: str) -> Json:
        return await self._call("memory_get", {"id": memory_id})

    async def list(self, **where: Any) -> Json:
        return await self._call("memory_list", where)

    async def update(self, memory_id: str, **fields: object) -> Json:
        return await self._call("memory_update", {"id": memory_id, **fields})

    async def delete(self, memory_id: str) -> None:
        await self._call("memory_delete", {"id": memory_id})

    async def delete_many(self, **where: Any) -> Json:
        return await self._call("memory_delete", where)

    async def tags(self) -> Sequence[Json]:
        return (await self.stats())["top_tags"]

    async def stats(self) -> Json:
        return await self._call("memory_stats", {})
