"""Writers that are killed in the middle of their work."""

import asyncio
import random
import sys
import time
from collections import deque
from pathlib import Path

from benchmarks.acknowledged import Acknowledged
from benchmarks.bench import Bench
from benchmarks.measures.checking import Findings, examine
from benchmarks.processes import Piped
from benchmarks.readings import Reading, Readings

_LONGEST_S = 0.4
_CHECK_EVERY = 5
_SIDE_BY_SIDE = 2


def measure(bench: Bench) -> Readings:
    """Kill -9 one of two writers on the same file, look, start another; so many rounds."""
    database = bench.folder / "killing.db"
    acknowledged, random_ = Acknowledged(), random.Random(9)
    seeds = iter(range(200, 100_000))
    alive = deque(_writer(database, next(seeds), bench.folder) for _ in range(_SIDE_BY_SIDE))
    findings: list[Findings] = []
    for round_ in range(1, bench.plan.kill_rounds + 1):
        _kill(alive.popleft(), random_.uniform(0, _LONGEST_S), acknowledged)
        alive.append(_writer(database, next(seeds), bench.folder))
        check = round_ % _CHECK_EVERY == 0
        findings.append(asyncio.run(examine(database, acknowledged, check=check)))
    while alive:
        _kill(alive.popleft(), 0, acknowledged)
    findings.append(asyncio.run(examine(database, acknowledged)))
    return _summed(findings, bench.plan.kill_rounds)


def _writer(database: Path, seed: int, folder: Path) -> Piped:
    return Piped([sys.executable, "-m", "benchmarks.workers", "write", str(database), str(seed), "600"], folder)


def _kill(writer: Piped, after_s: float, acknowledged: Acknowledged) -> None:
    """Wait until a writer is at work, let it work on for a while, kill it, and take in what it was told."""
    first = writer.line()
    time.sleep(after_s)
    writer.kill()
    acknowledged.read([first, *writer.rest()])
    writer.end()


def _summed(findings: list[Findings], rounds: int) -> Readings:
    disagreements = [text for one in findings for text in one.disagreements]
    lost = [text for one in findings for text in one.lost]
    remark = f"{rounds} rounds, {findings[-1].memories:,} memories; checked every {_CHECK_EVERY} rounds"
    return {
        "kill_disagree": Reading(max(one.rows for one in findings), disagreements[0] if disagreements else remark),
        "kill_lost": Reading(len(lost), lost[0] if lost else "read back after each round"),
    }
