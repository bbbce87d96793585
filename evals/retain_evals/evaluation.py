"""One evaluation: systems and modes over the questions of a benchmark, into a folder of runs."""

import asyncio
import hashlib
import json
import os
import platform
import time
from collections.abc import Iterable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from retain import InvalidInputError
from retain_evals.datasets import Benchmark, DatasetCounts, Source, first, sample, sha256_of
from retain_evals.haystack import Haystack
from retain_evals.progress import Progress
from retain_evals.run import Mode
from retain_evals.run_files import Manifest, RunFolder, RunManifest, names_of
from retain_evals.runner import ask_all
from retain_evals.systems.system import System

_VERSIONS_OF: Final = ("retain", "numpy", "onnxruntime", "apsw", "datasets")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which questions of a benchmark are asked; all of them by default.

    Attributes:
        sample: Number of questions drawn by type, see `retain_evals.datasets.sample`.
        seed: Of the sample.
        limit: Number of questions taken from the front, after sampling.
    """

    sample: int | None = None
    seed: int = 0
    limit: int | None = None

    def haystacks(self, benchmark: Iterable[Haystack], /) -> Iterable[Haystack]:
        """Return the haystacks with the chosen questions.

        Raises:
            InvalidInputError: `sample` or `limit` is below 1.
        """
        chosen = benchmark if self.sample is None else sample(benchmark, self.sample, seed=self.seed)
        return chosen if self.limit is None else first(chosen, self.limit)

    def count(self, questions: int, /) -> int:
        """Return how many of `questions` are asked."""
        return min(questions, *(n for n in (self.sample, self.limit) if n is not None), questions)


ALL: Final = Selection()


def evaluate(
    benchmark: Benchmark,
    systems: Sequence[System],
    modes: Sequence[Mode],
    out: Path,
    /,
    *,
    selection: Selection = ALL,
    workers: int = 1,
    fresh: bool = False,
    shown: bool = False,
) -> RunFolder:
    """Run each system in each mode, and return the folder that holds the runs.

    A run that is there and complete is not run again; one that was interrupted goes on where it stopped.

    Args:
        out: The folder. It may hold runs of the same questions already.
        workers: Number of processes, at least 1.
        fresh: Replace runs of the same name.
        shown: Show progress on stderr.

    Raises:
        ConflictError: the folder holds runs of something else, or another process writes to it.
        InvalidInputError: the data is malformed, holds no questions, or an argument is out of range.
        RetainError: a system failed; what was asked before is kept.
    """
    if workers < 1:
        raise InvalidInputError(f"{workers} workers can't run anything; give at least 1", field="workers")
    for _ in selection.haystacks(()):  # an impossible selection shows before the data is read
        pass
    counts = benchmark.survey()
    if not counts.questions:
        raise InvalidInputError("the data holds no questions", field="data")
    planned: list[tuple[System, Mode]] = [(system, mode) for mode in modes for system in systems]
    runs = names_of([_manifest_of(system, mode) for system, mode in planned])
    folder = RunFolder(out)
    with folder.locked():
        _prepare(folder, _manifest(benchmark, counts, selection, list(runs.values())), fresh=fresh)
        total = selection.count(counts.questions)
        for name, (system, mode) in zip(runs, planned, strict=True):
            _run(folder, name, system, mode, selection.haystacks(benchmark), total, workers, shown)
    return folder


def _prepare(folder: RunFolder, manifest: Manifest, *, fresh: bool) -> None:
    if fresh and not folder.is_new:
        for name in manifest.runs:
            folder.discard(name)
        if not folder.manifest().runs:
            folder.write_manifest(manifest)
    folder.prepare(manifest)


def _run(
    folder: RunFolder,
    name: str,
    system: System,
    mode: Mode,
    haystacks: Iterable[Haystack],
    total: int,
    workers: int,
    shown: bool,
) -> None:
    with folder.writer(name) as writer:
        known = {asked.question_id for asked in folder.read(name)}
        if len(known) >= total:
            return
        missing = (one for one in haystacks if any(question.id not in known for question in one.questions))
        started = time.monotonic()
        try:
            with Progress(name, total, len(known), shown=shown) as progress:
                for _, answers in ask_all(system, mode, missing, workers=min(workers, total - len(known))):
                    new = [asked for asked in answers if asked.question_id not in known]
                    for asked in new:
                        writer.add(asked)
                    progress.advance(len(new))
        finally:
            folder.add_seconds(name, time.monotonic() - started)


def _manifest_of(system: System, mode: Mode) -> RunManifest:
    async def settings() -> dict[str, str]:
        try:
            return dict(await system.settings())
        finally:
            await system.aclose()

    with ThreadPoolExecutor(1) as thread:  # a notebook has a loop of its own, beside which none can run
        return RunManifest(system.name, mode, thread.submit(asyncio.run, settings()).result())


def _manifest(
    benchmark: Benchmark, counts: DatasetCounts, selection: Selection, runs: Sequence[RunManifest]
) -> Manifest:
    return Manifest(
        benchmark=benchmark.name,
        data=_data_of(benchmark),
        selection={
            "questions": selection.count(counts.questions),
            "sample": selection.sample,
            "seed": None if selection.sample is None else selection.seed,
            "limit": selection.limit,
        },
        dataset={**asdict(counts), "questions_by_type": dict(sorted(counts.questions_by_type.items()))},
        versions={"python": platform.python_version(), **{name: version(name) for name in _VERSIONS_OF}},
        machine={
            "system": f"{platform.system()} {platform.machine()}",
            "processors": str(os.cpu_count()),
        },
        runs={run.name: run for run in runs},
    )


def _data_of(benchmark: Benchmark) -> dict[str, str | None]:
    rows = benchmark.rows
    if isinstance(rows, Source):
        return {"name": Path(rows.name).name, "sha256": sha256_of(rows.path), "revision": rows.revision}
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row, sort_keys=True, default=_plain).encode())
    return {"name": "rows in memory", "sha256": digest.hexdigest(), "revision": None}


def _plain(value: Any) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return sorted(cast("Set[str]", value)) if isinstance(value, Set) else str(value)
