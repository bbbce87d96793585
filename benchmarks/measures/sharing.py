"""Several processes that write and recall on one file at the same time."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.acknowledged import Acknowledged
from benchmarks.bench import Bench
from benchmarks.measures.checking import examine
from benchmarks.processes import Piped
from benchmarks.readings import Reading, Readings
from benchmarks.workers import named_like

_SHOWN = 50


def measure(bench: Bench) -> Readings:
    """Share an empty database, then a large one; look for another process's writes at once."""
    large = bench.copy(bench.scaled.path, "crowd")
    return _mixed(bench) | _crowd(bench, large) | asyncio.run(_shown(bench, large))


def _mixed(bench: Bench) -> Readings:
    """Let all begin at once; afterwards every acknowledged write is read back and the file is checked."""
    database = bench.folder / "sharing.db"
    workers = [_worker(bench, "mixed", database, seed) for seed in range(100, 100 + bench.plan.processes)]
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


def _crowd(bench: Bench, database: Path) -> Readings:
    seeds = range(200, 200 + bench.plan.processes)
    workers = [_worker(bench, "crowd", database, seed) for seed in seeds]
    for worker in workers:
        worker.send("go")
    summaries = [json.loads(worker.line().removeprefix("summary ")) for worker in workers]
    for worker in workers:
        worker.end()
    writes, done = (sum(summary[name] for summary in summaries) for name in ("writes", "done"))
    errors = [error for summary in summaries for error in summary["errors"]]
    return {
        "crowd_writes": Reading(
            writes / bench.plan.sharing_s, f"and {(done - writes) / bench.plan.sharing_s:,.0f} recalls/s"
        ),
        "crowd_locked": Reading(len(errors), errors[0][:100] if errors else ""),
    }


async def _shown(bench: Bench, database: Path) -> Readings:
    worker = _worker(bench, "shown", database, 0)
    service = await named_like(database)
    missed = 0
    for number in range(_SHOWN):
        content = f"The quokkaflux {number} has been seen."
        worker.send(content)
        assert worker.line() == "stored"
        found = await service.recall(content, k=1)
        missed += [hit.memory.content for hit in found.hits] != [content]
    worker.end()
    await service.aclose()
    return {"crowd_unseen": Reading(missed)}


def _worker(bench: Bench, name: str, database: Path, seed: int) -> Piped:
    words = [sys.executable, "-m", "benchmarks.workers", name, str(database), str(seed), str(bench.plan.sharing_s)]
    worker = Piped(words, bench.folder)
    assert worker.line() == "ready"
    return worker


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
