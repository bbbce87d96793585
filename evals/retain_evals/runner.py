"""Running an evaluation: haystacks go to worker processes, results come back in their order."""

import asyncio
import itertools
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context

from retain import StoreUnavailableError
from retain_evals.haystack import Haystack, Question
from retain_evals.run import Asked, Mode, Ranked
from retain_evals.systems.system import Searcher, System

K = 20
"""How many memories each recall returns: the largest k that is judged."""
_WARM_UP = "What did we talk about last?"
"""Asked before the clock runs: a service that is up has its index loaded."""
_AHEAD = 2
"""Haystacks under way for each worker, the one it works on included; the rest of the dataset stays on disk."""


def ask_all(
    system: System, mode: Mode, haystacks: Iterable[Haystack], /, *, workers: int
) -> Iterator[tuple[Haystack, list[Asked]]]:
    """Store each haystack, ask its questions, and yield both, in the order of `haystacks`.

    Args:
        system: What is evaluated; each worker has its own copy.
        mode: How sessions are stored.
        haystacks: Read as they are needed.
        workers: Number of processes, at least 1.

    Raises:
        RetainError: the system failed; haystacks that were yielded before are complete.
    """
    remaining = iter(haystacks)
    with (
        tempfile.TemporaryDirectory(prefix="retain-eval-") as folder,
        ProcessPoolExecutor(workers, get_context("spawn"), initializer=_start, initargs=(system, mode, folder)) as pool,
    ):
        under_way: deque[tuple[Haystack, Future[list[Asked]]]] = deque()
        try:
            for haystack in itertools.islice(remaining, workers * _AHEAD):
                under_way.append((haystack, pool.submit(_ask, haystack)))
            while under_way:
                haystack, future = under_way.popleft()
                asked = future.result()
                for following in itertools.islice(remaining, 1):
                    under_way.append((following, pool.submit(_ask, following)))
                yield haystack, asked
        except BrokenProcessPool:
            raise StoreUnavailableError(
                "a worker process ended before its work: killed, or out of memory; the same command goes on where it "
                "stopped, with fewer --workers if memory is short"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Worker:
    """What a worker process keeps between haystacks: a loop, since a loaded model belongs to one."""

    runner: asyncio.Runner
    system: System
    mode: Mode


_workers: list[_Worker] = []


def _start(system: System, mode: Mode, folder: str) -> None:
    tempfile.tempdir = folder  # what a worker that is stopped or killed leaves goes with the run
    _workers.append(_Worker(asyncio.Runner(), system, mode))


def _ask(haystack: Haystack) -> list[Asked]:
    if not _workers:
        raise KeyboardInterrupt
    worker = _workers[0]
    try:
        return worker.runner.run(ask(worker.system, worker.mode, haystack))
    except KeyboardInterrupt:
        _workers.clear()  # what already waits for this process is not begun
        raise


async def ask(system: System, mode: Mode, haystack: Haystack, /) -> list[Asked]:
    """Store one haystack and ask its questions, in order."""
    async with system.stored(haystack, mode) as searcher:
        await searcher.search(_WARM_UP, K, "raw")
        return [await _asked(system, searcher, haystack, question) for question in haystack.questions]


async def _asked(system: System, searcher: Searcher, haystack: Haystack, question: Question) -> Asked:
    wall, cpu = time.perf_counter(), time.process_time()
    raw = await searcher.search(question.text, K, "raw")
    cpu_ms, wall_ms = 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)
    grouped: Sequence[Ranked] = await searcher.search(question.text, K, "grouped")
    return Asked(
        question_id=question.id,
        question_type=question.type,
        is_abstention=question.is_abstention,
        evidence_sessions=question.evidence_sessions,
        evidence_turns=question.evidence_turns,
        sessions=len(haystack.sessions),
        raw=tuple(raw),
        grouped=tuple(grouped),
        wall_ms=wall_ms,
        cpu_ms=None if system.is_remote else cpu_ms,
    )
