"""The synchronous twin, closed while other threads are at work."""

import multiprocessing
import threading
from pathlib import Path

import pytest

import retain


def test_closing_ends_the_calls_of_other_threads(tmp_path: Path) -> None:
    stored, refused = [0], list[Exception]()
    database = str(tmp_path / "memories.db")
    memory = retain.open(database).__enter__()

    def work(name: int) -> None:
        try:
            for turn in range(10_000):
                memory.store(f"text {turn} of {name}")
                stored[0] += 1
        except retain.RetainError as error:
            refused.append(error)

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in range(4)]
    for thread in threads:
        thread.start()
    while stored[0] < 5:
        threads[0].join(0.01)
    memory.close()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert len(refused) == len(threads)
    with retain.open(database) as again:
        assert again.stats().total >= stored[0]


def test_a_forked_process_is_told_to_open_its_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    with retain.open(str(tmp_path / "memories.db")) as memory:
        memory.store("one")

        def ask() -> None:
            try:
                memory.stats()
            except retain.StoreUnavailableError as error:
                told.put(str(error))
            memory.close()

        child = context.Process(target=ask)
        child.start()
        assert "after a fork" in told.get(timeout=30)
        child.join(30)
        assert child.exitcode == 0
        assert memory.stats().total == 1
    with pytest.raises(retain.StoreUnavailableError, match="closed"):
        memory.stats()
