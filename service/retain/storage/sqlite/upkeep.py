"""What makes reading faster and can wait: cells for the vectors, one segment for the keywords, statistics for SQLite.

It begins when nobody has written to the file for a while, runs in small steps that let any write go first, and stops
when somebody writes. Nothing depends on it: without it nearly the same is found, more slowly.
"""

import asyncio
import logging
import time

import numpy as np
from numpy.typing import NDArray

from retain.domain.errors import RetainError
from retain.storage.sqlite import cells, changes, meta
from retain.storage.sqlite.connection import Connection, Database
from retain.storage.sqlite.schema import FULL_TEXT

logger = logging.getLogger(__name__)

IDLE_S = 30.0
_CLAIM_MS = 10 * 60 * 1000
"""For so long no other process begins; longer than all of it takes at a million passages."""
_PAGES = 256
"""What one write transaction rewrites of a keyword index: about 1 MB, some 20 ms."""
_LEAST_CHANGES = 5_000
_CHANGED_SHARE = 10
"""The keyword index is put together when a tenth of its passages, and not just a few, changed since the last time."""


class Upkeep:
    """Watches the writes of one process and does what is due once the file lies still."""

    def __init__(self, database: Database, idle_s: float = IDLE_S) -> None:
        self._database = database
        self._idle_s = idle_s
        self._task: asyncio.Task[None] | None = None

    def wrote(self) -> None:
        """Take note of a write by this process."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._when_idle())

    async def stop(self) -> None:
        """Give up what has not begun; a step that runs is finished by its thread."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _when_idle(self) -> None:
        seen = -1
        try:
            while True:
                await asyncio.sleep(self._idle_s)
                last = await self._database.read(changes.last_change)
                if last == seen and await self._tend(seen):
                    return
                seen = last
        except RetainError:
            logger.warning("the upkeep of %s waits for the next write", self._database.path, exc_info=True)

    async def _tend(self, seen: int) -> bool:
        """Do all that is due; False when somebody wrote meanwhile, or another process is at it."""
        if not await self._database.write(_claimed):
            return False
        try:
            await self.group()
            finished = await self._merge_words(seen)
            if finished:
                await self._database.outside(_note_statistics)
        finally:
            await self._database.write(_release)
        return finished

    async def group(self) -> None:
        """Make the cells, or bring them up to date, if that is due."""
        due = await self._database.read(cells.plan)
        if due is None:
            return
        centroids = due.centroids
        if centroids is None:
            sample = await self._database.read(lambda db: cells.sample(db, due))
            centroids = await self._database.apart(lambda: cells.centroids(sample, due.count))
        keys, numbers = await self._assigned(due, centroids)
        await self._database.write(lambda db: cells.store(db, due, centroids, keys, numbers))

    async def _assigned(self, due: cells.Plan, centroids: cells.Vectors) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        keys, numbers = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        last = due.first
        while (block := await self._database.read(lambda db, after=last: cells.block(db, after, due.last))) is not None:
            keys.append(block[0])
            vectors = block[1]
            numbers.append(await self._database.apart(lambda vectors=vectors: cells.assigned(vectors, centroids)))
            last = int(block[0][-1])
        return np.concatenate(keys), np.concatenate(numbers)

    async def _merge_words(self, seen: int) -> bool:
        if not await self._database.read(lambda db: _words_are_due(db, seen)):
            return True
        for index in FULL_TEXT:
            pages = -_PAGES  # negative to begin with: all segments are to become one
            while await self._database.write(lambda db, index=index, pages=pages: _merged(db, index, pages)):
                pages = _PAGES
                if await self._database.read(changes.last_change) != seen:
                    return False
        await self._database.write(lambda db: meta.put(db, "words_merged", seen))
        return True


def _claimed(connection: Connection) -> bool:
    now = time.time_ns() // 1_000_000
    until = meta.get(connection, "upkeep_until")
    if isinstance(until, int) and now < until <= now + _CLAIM_MS:
        return False
    meta.put(connection, "upkeep_until", now + _CLAIM_MS)
    return True


def _release(connection: Connection) -> None:
    meta.put(connection, "upkeep_until", None)


def _words_are_due(connection: Connection, seen: int) -> bool:
    merged = meta.get(connection, "words_merged")
    changed = seen - (merged if isinstance(merged, int) else 0)
    passages = connection.count("SELECT count(*) FROM passage")
    return changed > max(_LEAST_CHANGES, passages // _CHANGED_SHARE)


def _merged(connection: Connection, index: str, pages: int) -> bool:
    """Merge some pages of a keyword index; False when nothing is left to merge."""
    before = connection.count("SELECT total_changes()")
    connection.run(f"INSERT INTO {index}({index}, rank) VALUES ('merge', ?)", (pages,))
    return connection.count("SELECT total_changes()") - before >= 2  # FTS5's own sign


def _note_statistics(connection: Connection) -> None:
    connection.run("PRAGMA analysis_limit = 1000")
    connection.run("PRAGMA optimize")
