"""Storing one memory after another over REST."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.processes import Server
from benchmarks.readings import Readings, Stopwatch
from benchmarks.texts import Text


def measure(bench: Bench) -> Readings:
    """Store fresh memories of 60 words, into an empty database and into the large one."""
    readings: Readings = {}
    databases = {"empty": bench.folder / "empty.db", "large": bench.copy(bench.large, "storing")}
    for size, database in databases.items():
        texts = bench.fresh(bench.plan.operations + bench.plan.warm_up)
        readings |= over_rest(database, texts, bench.plan.warm_up, size)
    return readings


def over_rest(database: Path, texts: Sequence[Text], warm_up: int, size: str) -> Readings:
    """Store in a server of its own."""
    with Server(database) as server:
        client = server.client()
        for text in texts[:warm_up]:
            client.store(text.content, text.tags)
        server.settle()
        stopwatch = Stopwatch(server.cpu_seconds)
        for text in texts[warm_up:]:
            stopwatch.run(lambda text=text: client.store(text.content, text.tags))
        client.close()
        return {f"store_rest_{size}": stopwatch.timed().reading()}
