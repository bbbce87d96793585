"""Several processes on one file: the normal case."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from retain.domain.memory import EVERYTHING, Filter
from retain.storage.sqlite import SqliteStore
from tests.conformance.asking import candidates
from tests.conformance.making import MODEL, START, edit, entry, unit
from tests.storage.conftest import Open

ROOT = Path(__file__).parents[2]
ROUNDS = int(os.environ.get("RETAIN_TEST_KILLS", "5"))


def started(verb: str, path: Path, argument: str = "") -> "subprocess.Popen[str]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "service"), str(ROOT)])}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.storage.workers", verb, str(path), argument],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def outputs(processes: "list[subprocess.Popen[str]]") -> list[str]:
    """Wait for all; none may fail."""
    finished = [(*process.communicate(timeout=100), process.returncode) for process in processes]
    assert [(code, errors) for _, errors, code in finished] == [(0, "")] * len(processes)
    return [text.strip() for text, _, _ in finished]


def test_five_processes_opening_an_empty_path_at_once_all_succeed(path: Path) -> None:
    # C181
    assert outputs([started("open", path) for _ in range(5)]) == ["opened 0"] * 5


async def test_processes_storing_one_text_at_once_get_one_memory(path: Path, open_store: Open) -> None:
    # C187; twenty tasks do the same in the store contract
    ids = outputs([started("same", path, "one text for all") for _ in range(8)])
    store = await open_store()
    assert set(ids) == set(await store.ids(Filter()))
    assert len(set(ids)) == 1


async def test_four_processes_mixing_reads_and_writes_lose_nothing(path: Path, open_store: Open) -> None:
    # C181, C184
    kept = outputs([started("mix", path, f"p{number}") for number in range(4)])
    store = await open_store()
    assert (await store.stats(Filter())).total == sum(map(int, kept)) == 4 * 30
    assert await store.check() == []


async def test_a_killed_writer_leaves_nothing_half_written(path: Path, open_store: Open) -> None:
    confirmed: set[str] = set()
    for round_ in range(ROUNDS):
        writers = [started("for-ever", path, f"r{round_}w{number}") for number in range(2)]
        for writer in writers:
            assert writer.stdout is not None
            for _ in range(2 + round_ % 3):
                confirmed |= set(writer.stdout.readline().split())
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            assert writer.stdout is not None
            confirmed |= set(writer.stdout.read().rpartition("\n")[0].split())
            writer.communicate()
    store = await open_store()
    assert await store.check() == []
    assert confirmed <= set(await store.ids(EVERYTHING))


async def test_what_one_stores_the_next_query_of_another_finds(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    for number in range(30):
        vector = unit(number)
        (written,) = await one.put([entry(f"quokka{number} here", vector=vector)], model=MODEL)
        assert await best(other, number) == written.memory.id
        if number % 3 == 1:
            await one.update(written.memory.id, edit(f"quokka{number} there", vector=vector), model=MODEL)
            assert await best(other, number) == written.memory.id
        if number % 3 == 2:
            await one.delete(Filter(ids=(written.memory.id,)), at=START)
            found = await candidates(other, EVERYTHING, 50, vector=vector, text=f"quokka{number}", model=MODEL)
            assert written.memory.id not in {candidate.memory_id for candidate in found}


async def best(store: SqliteStore, number: int) -> str:
    """Return the best by both signals, which must be the same memory."""
    found = await candidates(store, Filter(), 3, vector=unit(number), text=f"quokka{number}", model=MODEL)
    top = max(found, key=lambda candidate: candidate.semantic or 0)
    assert top.semantic == pytest.approx(1, abs=1e-4)
    assert top == max(found, key=lambda candidate: candidate.keyword or 0)
    return top.memory_id


async def test_an_index_that_missed_pruned_changes_loads_anew(path: Path, open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    await one.put([entry("first", vector=unit(1))], model=MODEL)
    assert len(await candidates(other, Filter(), 5, vector=unit(1), model=MODEL)) == 1
    await one.put([entry("second", vector=unit(2))], model=MODEL)
    await one.put([entry("third", vector=unit(3))], model=MODEL)
    await one._database.write(lambda db: db.run("DELETE FROM change WHERE seq < 3"))
    found = await candidates(other, Filter(), 5, vector=unit(2), model=MODEL)
    assert len(found) == 3
    assert max(candidate.semantic or 0 for candidate in found) == pytest.approx(1, abs=1e-4)


async def test_state_changes_of_another_process_are_followed_in_place(open_store: Open) -> None:
    one, other = await open_store(), await open_store()
    written = await one.put([entry(f"note {number}", vector=unit(number)) for number in range(50)], model=MODEL)
    ids = [each.memory.id for each in written]
    rng = np.random.default_rng(4)
    hidden: set[str] = set()
    for number in rng.integers(0, 50, size=60):
        id_ = ids[int(number)]
        await one.update(id_, edit(archived_at=None if id_ in hidden else START))
        hidden ^= {id_}
        found = await candidates(other, Filter(), 50, vector=unit(1), text="note", model=MODEL)
        assert {candidate.memory_id for candidate in found} == set(ids) - hidden
