"""Several processes that write and recall on one file at the same time."""

import asyncio
import json
import sys
from collections.abc import Iterator

from benchmarks.acknowledged import Acknowledged
from benchmarks.bench import Bench
from benchmarks.measures.checking import examine
from benchmarks.processes import Piped
from benchmarks.readings import Reading, Readings


def measure(bench: Bench) -> Readings:
    """Let all begin at once; afterwards every acknowledged write is read back and the file is checked."""
    database = bench.folder / "sharing.db"
    workers = [
        Piped(
            [sys.executable, "-m", "benchmarks.workers", "mixed", str(database), str(seed), str(bench.plan.sharing_s)],
            bench.folder,
        )
        for seed in range(100, 100 + bench.plan.processes)
    ]
    for worker in workers:
        assert worker.line() == "ready"
    for worker in workers:
        worker.send("go")
    acknowledged = Acknowledged()
    done = 0
    errors: list[str] = []
    for worker in workers:
        lines = _Lines(worker.rest())
        acknowledged.read(lines)
        worker.end()
        done += lines.done
        errors += lines.errors
    findings = asyncio.run(examine(database, acknowledged))
    wrong = findings.lost + findings.disagreements
    return {
        "share_ops": Reading(done / bench.plan.sharing_s, f"{done:,} operations, half of them writes, hashed vectors"),
        "share_locked": Reading(len(errors), errors[0][:100] if errors else ""),
        "share_lost": Reading(
            len(findings.lost) + findings.rows,
            wrong[0][:100] if wrong else f"{len(acknowledged.present):,} read back, check clean",
        ),
    }


class _Lines:
    """The lines of a writer up to its summary."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.done = 0
        self.errors = ["a worker ended early"]

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if line.startswith("summary "):
                summary = json.loads(line.removeprefix("summary "))
                self.done, self.errors = summary["done"], summary["errors"]
            else:
                yield line
