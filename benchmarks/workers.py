"""Processes that write to a database which others write to as well, or that are killed while they do.

`python -m benchmarks.workers mixed|crowd|shown|write DATABASE SEED SECONDS`. They embed by hashing instead of by the
model: it takes no time, so they meet each other at the file a hundred times as often. What they did is told line by
line, an acknowledgement only after the call has returned.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.corpus import Vectors, opened, settings
from benchmarks.scale import ReadyVectors
from benchmarks.texts import Author, Text
from retain.bootstrap import choose_embedder, make_service, open_store
from retain.core.ports import Embedder
from retain.core.service import MemoryService
from retain.domain.errors import RetainError
from retain.domain.memory import MemoryPatch, Stored

_CROWD_TEXTS = 5_000
"""More than one process gets through in the time."""


def hashing() -> Embedder:
    """Return the embedder of all workers."""
    return choose_embedder(settings(Path("unused.db"), embedding="hashed"))


def tell(*words: object) -> None:
    """Print one line, at once."""
    print(*words, flush=True)


class Writer:
    """Stores, changes and deletes at random, and tells what it is about to undo and what was done.

    Lines: `stored ID HASH`, `changing ID`, `changed ID HASH`, `deleting ID`, `deleted ID`.
    """

    def __init__(self, service: MemoryService, seed: int) -> None:
        self._service = service
        self._random = random.Random(seed)
        self._texts: Iterator[Text] = Author(seed).write()
        self._own: list[str] = []

    async def write(self) -> None:
        """Do one write."""
        kind = self._random.choices(("store", "batch", "change", "replace"), (5, 1, 1, 2))[0]
        if kind == "batch":
            self._stored(await self._service.store_many([next(self._texts).content for _ in range(5)]))
        elif kind == "store" or not self._own:
            self._stored([await self._service.store(next(self._texts).content)])
        elif kind == "change":
            await self._change(self._random.choice(self._own))
        else:
            await self._replace(self._random.choice(self._own))

    def _stored(self, outcomes: Sequence[Stored]) -> None:
        for stored in outcomes:
            tell("stored", stored.memory.id, stored.memory.content_hash)
            self._own.append(stored.memory.id)

    async def _change(self, id_: str) -> None:
        tell("changing", id_)
        changed = await self._service.update(id_, MemoryPatch(content=next(self._texts).content))
        tell("changed", id_, changed.content_hash)

    async def _replace(self, id_: str) -> None:
        """Delete a memory and store the same text again."""
        content = (await self._service.get(id_)).content
        tell("deleting", id_)
        await self._service.delete(id_)
        self._own.remove(id_)
        tell("deleted", id_)
        self._stored([await self._service.store(content)])


async def mixed(database: Path, seed: int, seconds: float) -> None:
    """Write and recall in turns for some seconds, then tell `summary` and the counts."""
    _, service = await opened(database, hashing())
    writer = Writer(service, seed)
    questions = Author(seed + 1_000).write()
    done, errors = 0, []
    tell("ready")
    await asyncio.to_thread(sys.stdin.readline)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            await (service.recall(next(questions).question) if done % 2 else writer.write())
            done += 1
        except RetainError as error:
            errors.append(f"{error.code}: {error}")
    tell("summary", json.dumps({"done": done, "errors": errors}))
    await service.aclose()


async def crowd(database: Path, seed: int, seconds: float) -> None:
    """Store three times and recall seven times in turns, then tell `summary` and the counts."""
    # Written and embedded beforehand: that is not what is measured.
    texts = itertools.cycle(list(itertools.islice(Author(seed).write_short(), _CROWD_TEXTS)))
    ready = {
        words: await hashing().embed_query(words)
        for text in itertools.islice(texts, _CROWD_TEXTS)
        for words in (text.content, text.question)
    }
    service = await named_like(database, ready)
    done, writes, errors = 0, 0, []
    tell("ready")
    await asyncio.to_thread(sys.stdin.readline)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        text = next(texts)
        try:
            if done % 10 in (0, 3, 6):
                await service.store(text.content)
                writes += 1
            else:
                await service.recall(text.question)
            done += 1
        except RetainError as error:
            errors.append(f"{error.code}: {error}")
    tell("summary", json.dumps({"done": done, "writes": writes, "errors": errors}))
    await service.aclose()


async def shown(database: Path, _seed: int, _seconds: float) -> None:
    """Store each line of the input, and say so."""
    service = await named_like(database)
    tell("ready")
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        await service.store(line)
        tell("stored")
    await service.aclose()


async def named_like(database: Path, ready: dict[str, Vectors] | None = None) -> MemoryService:
    """Return a service whose vectors are ready, or hashed words, under the name of the database's own model."""
    store = await open_store(settings(database))
    model = await store.model()
    assert model is not None
    return make_service(store, ReadyVectors(model.id, ready or {}), settings(database))


async def write(database: Path, seed: int, seconds: float) -> None:
    """Write until killed, or until the time is over."""
    _, service = await opened(database, hashing())
    writer = Writer(service, seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        await writer.write()
    await service.aclose()


def main() -> None:
    """Run the worker that the arguments name."""
    name, database, seed, seconds = sys.argv[1:]
    work = {"mixed": mixed, "crowd": crowd, "shown": shown, "write": write}[name]
    asyncio.run(work(Path(database), int(seed), float(seconds)))


if __name__ == "__main__":
    main()
