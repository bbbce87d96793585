"""Upkeep: what can wait is done when nobody writes, by one process, and never costs anybody anything."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from retain.domain.memory import EVERYTHING, Filter
from retain.storage.sqlite import SqliteStore, cells, meta, upkeep
from retain.storage.sqlite.connection import Connection, Database
from retain.storage.sqlite.upkeep import Upkeep
from tests.conformance.asking import Found, candidates
from tests.conformance.making import MODEL, START, edit, entry, unit
from tests.storage.conftest import Open

ROOT = Path(__file__).parents[2]


class Nap:
    """One upkeep that waits: for ticks, not for the clock."""

    def __init__(self) -> None:
        self.ticks: asyncio.Queue[None] = asyncio.Queue()
        self.asleep = asyncio.Event()


class Idleness:
    """Stands in for the clock: each tick is a time in which upkeep waited."""

    def __init__(self) -> None:
        self._naps: defaultdict[object, Nap] = defaultdict(Nap)

    async def sleep(self, _: float) -> None:
        nap = self._naps[asyncio.current_task()]
        nap.asleep.set()
        await nap.ticks.get()

    async def tick(self, watched: "Watched") -> None:
        """Let one time of waiting pass, and return once upkeep waits again or has ended."""
        assert watched.task is not None
        nap = self._naps[watched.task]
        await nap.asleep.wait()
        nap.asleep.clear()
        nap.ticks.put_nowait(None)
        again = asyncio.ensure_future(nap.asleep.wait())
        await asyncio.wait([again, watched.task], return_when=asyncio.FIRST_COMPLETED)
        again.cancel()


class Watched(Upkeep):
    """Tells when it began, how often, and can be held up then."""

    def __init__(self, database: Database, idle_s: float = upkeep.IDLE_S) -> None:
        super().__init__(database, idle_s)
        self.begun = 0
        self.began = asyncio.Event()
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    @property
    def task(self) -> "asyncio.Task[None] | None":
        return self._task

    async def group(self) -> None:
        self.begun += 1
        self.began.set()
        await self.may_go_on.wait()
        await super().group()


@pytest.fixture(autouse=True)
def _little_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_LEAST_CHANGES", 5)
    monkeypatch.setattr(upkeep, "_PAGES", 1)
    monkeypatch.setattr(cells, "CELLS_FROM", 50)
    monkeypatch.setattr(cells, "_FEWEST_CELLS", 4)


@pytest.fixture
def idleness(monkeypatch: pytest.MonkeyPatch) -> Idleness:
    """Upkeep waits for its ticks, not for the clock."""
    made = Idleness()
    stand_in = SimpleNamespace(sleep=made.sleep, get_running_loop=asyncio.get_running_loop, wait=asyncio.wait)
    monkeypatch.setattr(upkeep, "asyncio", stand_in)
    return made


def watched(store: SqliteStore) -> Watched:
    """Return upkeep that hears of the writes of a store, in the place of its own."""
    made = Watched(store._database)
    store._upkeep = made
    store._database.on_write = made.wrote
    return made


async def write_some(store: SqliteStore, count: int = 60, name: str = "note") -> list[str]:
    """Store memories one by one, so that many small segments come to be."""
    ids: list[str] = []
    for number in range(count):
        (written,) = await store.put([entry(f"{name} {number} of the words 会议", vector=unit(number))], model=MODEL)
        ids.append(written.memory.id)
    return ids


async def segments(store: SqliteStore, index: str = "keyword") -> int:
    return await store._database.read(lambda db: db.count(f"SELECT count(DISTINCT segid) FROM {index}_idx"))


async def noted(store: SqliteStore, name: str) -> object:
    return await store._database.read(lambda db: meta.get(db, name))


async def everything_found(store: SqliteStore) -> list[Found]:
    found = await candidates(store, EVERYTHING, 1_000, vector=unit(3), text="words 会议 7", model=MODEL)
    return sorted(found, key=lambda one: (one.memory_id, one.start))


async def test_it_begins_once_nothing_was_written_for_a_while(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store)
    await idleness.tick(tending)
    assert tending.begun == 0  # it has only just seen the last change
    await idleness.tick(tending)
    assert tending.begun == 1
    assert tending.task is not None
    await tending.task
    assert await store.check() == []


async def test_a_write_in_between_puts_it_off(open_store: Open, idleness: Idleness) -> None:
    store, other = await open_store(), await open_store()
    tending = watched(store)
    await write_some(store)
    for number in range(4):
        await idleness.tick(tending)
        writer = (store, other)[number % 2]
        await writer.put([entry(f"in between {number}")], model=MODEL)
    assert tending.begun == 0
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert tending.begun == 1


async def test_reading_does_not_put_it_off(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store)
    await idleness.tick(tending)
    await everything_found(store)
    await idleness.tick(tending)
    assert tending.begun == 1


async def test_it_ends_when_all_is_done_and_begins_anew_with_the_next_write(
    store: SqliteStore, idleness: Idleness
) -> None:
    tending = watched(store)
    for times in (1, 2):
        await write_some(store, 3, f"round {times}")
        await idleness.tick(tending)
        await idleness.tick(tending)
        assert tending.begun == times
        assert tending.task is not None
        assert tending.task.done()  # its own writes did not wake it


async def test_it_makes_one_segment_of_many_and_notes_what_it_did(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store)
    before = await segments(store), await segments(store, "pair")
    assert min(before) > 1
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert (await segments(store), await segments(store, "pair")) == (1, 1)
    assert await noted(store, "words_merged") == await store.last_event()
    assert await noted(store, "upkeep_until") is None
    assert await store.check() == []


async def test_few_changes_are_not_worth_merging(
    store: SqliteStore, idleness: Idleness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_LEAST_CHANGES", 100)
    tending = watched(store)
    await write_some(store)
    before = await segments(store)
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert tending.begun == 1
    assert await segments(store) == before
    assert await noted(store, "words_merged") is None


async def test_it_groups_the_vectors(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store)
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert await store._database.read(lambda db: db.count("SELECT count(*) FROM cell")) == 4


async def test_statistics_are_noted_and_change_no_answer(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store, 200)
    before = await everything_found(store), await store.ids(Filter())
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert await store._database.read(lambda db: db.count("SELECT count(*) FROM sqlite_stat1")) > 0
    assert (await everything_found(store), await store.ids(Filter())) == before


async def test_nothing_is_lost_and_the_same_is_found_before_and_after(open_store: Open, idleness: Idleness) -> None:
    store, other = await open_store(), await open_store()
    tending = watched(store)
    ids = await write_some(store)
    await store.update(ids[3], edit("words of another kind"), model=MODEL)
    await store.delete(Filter(ids=(ids[7],)), at=START)
    before = await everything_found(store), await store.ids(EVERYTHING)
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert tending.begun == 1
    for each in (store, other, await open_store()):
        assert (await everything_found(each), await each.ids(EVERYTHING)) == before
    assert await store.check() == []


async def test_a_write_while_it_merges_goes_first_and_makes_it_start_over(
    store: SqliteStore, idleness: Idleness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tending = watched(store)
    await write_some(store)
    merge, write = upkeep._merged, store._database.write
    steps: list[str] = []
    quick: list[str] = []

    def merging(db: Connection, index: str, pages: int) -> bool:
        steps.append(index)
        return merge(db, index, pages)

    async def interrupted(work: Callable[[Connection], Any], /, *, scrub: bool = False) -> Any:
        outcome = await write(work, scrub=scrub)
        if steps and not quick:
            quick.append("begun")
            await store.put([entry("quick one")], model=MODEL)
        return outcome

    monkeypatch.setattr(upkeep, "_merged", merging)
    monkeypatch.setattr(store._database, "write", interrupted)
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert steps == ["keyword"]
    assert len(await store.ids(EVERYTHING)) == 61
    assert await noted(store, "words_merged") is None
    assert await noted(store, "upkeep_until") is None
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert await segments(store) == 1
    assert await noted(store, "words_merged") == await store.last_event()


async def test_two_processes_do_not_both_do_it(open_store: Open, idleness: Idleness) -> None:
    one, other = await open_store(), await open_store()
    first, second = watched(one), watched(other)
    first.may_go_on.clear()
    await write_some(one)
    await idleness.tick(first)
    waiting = asyncio.ensure_future(idleness.tick(first))
    await first.began.wait()
    other._database.on_write()
    await idleness.tick(second)
    await idleness.tick(second)
    assert second.task is not None
    assert not second.task.done()  # it asks again later, in case the first one dies
    assert second.begun == 0
    first.may_go_on.set()
    await waiting
    assert await segments(one) == 1


@pytest.mark.parametrize(
    ("until_ms", "begins"),
    [(60_000, 0), (-1, 1), (24 * 3_600_000, 1)],
    ids=["another does it", "another died long ago", "a clock that was wrong"],
)
async def test_a_claim_holds_for_minutes_only(
    store: SqliteStore, idleness: Idleness, until_ms: int, begins: int
) -> None:
    tending = watched(store)
    await write_some(store)
    until = time.time_ns() // 1_000_000 + until_ms
    await store._database.write(lambda db: meta.put(db, "upkeep_until", until))
    await idleness.tick(tending)
    await idleness.tick(tending)
    assert tending.begun == begins


async def test_stopping_gives_up_what_has_not_begun(store: SqliteStore, idleness: Idleness) -> None:
    tending = watched(store)
    await write_some(store)
    await idleness.tick(tending)
    await tending.stop()
    assert tending.task is not None
    assert tending.task.cancelled()
    assert tending.begun == 0
    await tending.stop()  # again does no harm


async def test_closing_the_store_in_the_middle_leaves_it_sound(open_store: Open, idleness: Idleness) -> None:
    store = await open_store()
    tending = watched(store)
    ids = await write_some(store)
    tending.may_go_on.clear()
    await idleness.tick(tending)
    waiting = asyncio.ensure_future(idleness.tick(tending))
    await tending.began.wait()
    await store.aclose()
    await waiting
    again = await open_store()
    assert await again.check() == []
    assert set(await again.ids(EVERYTHING)) == set(ids)


async def test_closing_a_store_that_never_wrote_waits_for_nothing(open_store: Open, idleness: Idleness) -> None:
    store = await open_store()
    tending = watched(store)
    await store.ids(EVERYTHING)
    assert tending.task is None
    await store.aclose()


async def test_a_short_while_by_the_clock_is_enough(store: SqliteStore) -> None:
    tending = Watched(store._database, idle_s=0.01)
    store._database.on_write = tending.wrote
    await write_some(store)
    assert tending.task is not None
    await tending.task
    assert tending.begun == 1
    assert await segments(store) == 1


TENDING = textwrap.dedent("""
    import asyncio, sys
    from retain.storage.sqlite import cells, open_sqlite, upkeep
    from tests.conformance.making import START

    upkeep._LEAST_CHANGES, upkeep._PAGES, cells.CELLS_FROM, cells._FEWEST_CELLS = 5, 1, 50, 4
    merged, stored = upkeep._merged, cells.store

    def told(step):
        def telling(*arguments):
            print(step.__name__, flush=True)
            return step(*arguments)
        return telling

    upkeep._merged, cells.store = told(merged), told(stored)

    async def main():
        store = await open_sqlite(sys.argv[1], clock=lambda: START)
        tending = upkeep.Upkeep(store._database, idle_s=0.0)
        tending.wrote()
        await tending._task

    asyncio.run(main())
""")


def killed_after(steps: int, path: Path) -> None:
    """Kill a process that does all the upkeep right after it began its n-th step."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "service"), str(ROOT)])}
    process = subprocess.Popen(
        [sys.executable, "-c", TENDING, str(path)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(steps):
        assert process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
async def test_killed_in_the_middle_it_leaves_a_sound_file(path: Path, open_store: Open, steps: int) -> None:
    store = await open_store()
    ids = await write_some(store, 200)
    before = await everything_found(store)
    killed_after(steps, path)
    for each in (store, await open_store()):
        assert await each.check() == []
        assert await everything_found(each) == before
        assert set(await each.ids(EVERYTHING)) == set(ids)
