"""The second process of the brute-force test: `python -m tests.storage.brute_force_writer PATH`.

Each line on stdin is a JSON list of changes, done one after the other; the line that answers holds an outcome
for each, false for one that was refused.
"""

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

from retain.core.service import MemoryService
from retain.domain.errors import ConflictError, NotFoundError
from retain.domain.memory import EVERYTHING, MemoryPatch, NewMemory
from retain.storage.sqlite import SqliteStore, open_sqlite
from tests.conftest import SetClock
from tests.storage.brute_force import DenseEmbedder, moment


async def outcome(service: MemoryService, store: SqliteStore, change: dict[str, Any]) -> object:
    """Make one change and return what is to be told of it."""
    match change["do"]:
        case "store":
            stored = await service.store_many([NewMemory(**timed(new)) for new in change["memories"]])
            return [[one.memory.id, one.created] for one in stored]
        case "update":
            await service.update(change["id"], MemoryPatch(**timed(change["patch"])))
            return True
        case "delete":
            return list((await service.delete_many(replace(EVERYTHING, ids=tuple(change["ids"])))).ids)
        case "merge_tags":
            return await service.merge_tags(change["sources"], change["target"])
        case "register_type":
            return await service.register_type(change["name"], parent=change["parent"])
        case "repair":
            return [problem.name for problem in await store.repair()]
        case unknown:
            raise ValueError(unknown)


def timed(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields with `occurred_at` as a time."""
    return fields | ({"occurred_at": moment(fields["occurred_at"])} if "occurred_at" in fields else {})


async def main() -> None:
    """Do what is asked until stdin ends."""
    clock = SetClock(moment(0))
    store = await open_sqlite(sys.argv[1], clock=clock)
    service = MemoryService(store, DenseEmbedder(), clock=clock)
    for line in sys.stdin:
        outcomes: list[object] = []
        for change in json.loads(line):
            clock.now = moment(change["at"])
            try:
                outcomes.append(await outcome(service, store, change))
            except (ConflictError, NotFoundError):
                outcomes.append(False)
        print(json.dumps(outcomes), flush=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
