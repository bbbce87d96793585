"""The command line, as a script uses it: arguments in, JSON out, a process of its own for each call."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.parity.doors import Json
from tests.parity.http_door import BY_CODE

OPTIONS = {
    "tags": "--tag",
    "tag_match": "--tag-match",
    "exclude_tags": "--exclude-tag",
    "types": "--type",
    "type": "--type",
    "states": "--state",
    "agent_id": "--agent",
    "conversation_id": "--conversation",
    "expected_count": "--expect",
    "k": "-k",
}
FLAGS = {"archived": ("--archive", "--unarchive")}


def options(fields: Mapping[str, Any]) -> list[str]:
    """Return command-line options for fields of the wire models."""
    made: list[str] = []
    for name, value in fields.items():
        option = OPTIONS.get(name, f"--{name.replace('_', '-')}")
        if isinstance(value, bool):
            made += [FLAGS[name][not value]] if name in FLAGS else [option] * value
        elif isinstance(value, dict):
            made += [option, json.dumps(value)]
        elif isinstance(value, list):
            made += [part for item in value for part in (option, item)]
        elif value != "":
            made += [option, str(value)]
    return made


class CliDoor:
    """`retain … --json` on a database file."""

    def __init__(self, database: Path) -> None:
        self._environment = {**os.environ, "RETAIN_DATABASE_URL": str(database)}

    async def _call(self, *arguments: str, stdin: str | None = None) -> Any:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "retain.transports.cli.main",
            "--json",
            *arguments,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(None if stdin is None else stdin.encode())
        if process.returncode:
            problem = json.loads(err)
            raise BY_CODE[problem["code"]](problem["detail"], field=problem.get("field"))
        return json.loads(out) if out.strip() else None

    async def store(self, content: str, **fields: object) -> Json:
        return await self._call("store", *options(fields), "--", content)

    async def store_session(self, turns: Sequence[Mapping[str, Any]], **fields: object) -> Json:
        return await self._call("session", "-", *options(fields), stdin=json.dumps(turns))

    async def search(self, query: str, **fields: Any) -> Json:
        return await self._call("recall", *options(fields), "--", query)

    async def get(self, memory_id: str) -> Json:
        return await self._call("get", memory_id)

    async def list(self, **where: Any) -> Json:
        return await self._call("list", *options(where))

    async def update(self, memory_id: str, **fields: object) -> Json:
        return await self._call("update", memory_id, *options(fields))

    async def delete(self, memory_id: str) -> None:
        await self._call("delete", memory_id, "--yes")

    async def delete_many(self, **where: Any) -> Json:
        return await self._call("delete", *options(where), "--yes")

    async def tags(self) -> Sequence[Json]:
        return (await self._call("tags", "list"))["tags"]

    async def stats(self) -> Json:
        return await self._call("stats")
