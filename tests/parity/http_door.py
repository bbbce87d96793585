"""REST, as any HTTP client uses it: requests and answers as they go over the wire."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from retain.domain import errors
from retain.domain.errors import RetainError
from tests.parity.doors import Json

BY_CODE: Mapping[str, type[RetainError]] = {
    value.code: value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, RetainError)
}


class RestDoor:
    """The service's /api."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def _call(self, method: str, path: str, **request: Any) -> Any:
        answer = await self._client.request(method, f"/api{path}", **request)
        if answer.is_error:
            problem = answer.json()
            assert answer.headers["content-type"] == "application/problem+json"
            assert problem["status"] == answer.status_code
            raise BY_CODE[problem["code"]](problem["detail"], field=problem.get("field"))
        return answer.json() if answer.content else None

    async def store(self, content: str, **fields: object) -> Json:
        return await self._call("POST", "/memories", json={"content": content, **fields})

    async def store_session(self, turns: Sequence[Mapping[str, Any]], **fields: object) -> Json:
        return await self._call("POST", "/sessions", json={"turns": turns, **fields})

    async def search(self, query: str, **fields: Any) -> Json:
        return await self._call("POST", "/memories/search", json={"query": query, **fields})

    async def get(self, memory_id: str) -> Json:
        return await self._call("GET", f"/memories/{memory_id}")

    async def list(self, **where: Any) -> Json:
        import json

        params = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in where.items()}
        return await self._call("GET", "/memories", params=params)

    async def update(self, memory_id: str, **fields: object) -> Json:
        return await self._call("PATCH", f"/memories/{memory_id}", json=fields)

    async def delete(self, memory_id: str) -> None:
        await self._call("DELETE", f"/memories/{memory_id}")

    async def delete_many(self, **where: Any) -> Json:
        return await self._call("POST", "/memories/delete", json=where)

    async def tags(self) -> Sequence[Json]:
        return (await self._call("GET", "/tags"))["tags"]

    async def stats(self) -> Json:
        return await self._call("GET", "/stats")
