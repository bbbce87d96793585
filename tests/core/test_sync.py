"""The synchronous twin, closed while other threads are at work."""

import threading
from pathlib import Path

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
