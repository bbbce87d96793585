"""Runs on disk: a folder with a manifest, and for each system and mode what it returned, one question a line.

    manifest.json              what was asked of what: data and its hash, selection, settings, versions, machine
    retain.turn.jsonl          per question: its evidence and the ranked memories with scores and signals
    retain.turn.latency.jsonl  per question: how long the recall took; apart, so that equal runs have equal files

A run that was interrupted goes on where it stopped: a line that was not finished is dropped and asked again.
"""

import json
import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import filelock

from retain import ConflictError, InvalidInputError, NotFoundError
from retain_evals.run import Asked, Mode, Ranked

MANIFEST: Final = "manifest.json"
_SCORE_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class RunManifest:
    """One system in one mode.

    Attributes:
        settings: What its figures depend on: versions, model, options.
        seconds: How long it ran, all stretches together.
    """

    system: str
    mode: Mode
    settings: Mapping[str, str]
    seconds: float = 0.0

    @property
    def name(self) -> str:
        """Name of its files, such as "retain.turn"."""
        return f"{re.sub(r'[^A-Za-z0-9_-]+', '-', self.system)}.{self.mode}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a folder of runs is about. All its runs have the questions of one selection of one data file.

    Attributes:
        data: Name, SHA-256 and, from the hub, revision of the data.
        selection: Number of questions, and how they were chosen: sample and seed, limit.
        dataset: Totals of the data file.
        versions, machine: Of the first stretch.
    """

    benchmark: str
    data: Mapping[str, str | None]
    selection: Mapping[str, int | None]
    dataset: Mapping[str, Any] = field(default_factory=dict[str, Any])
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    machine: Mapping[str, str] = field(default_factory=dict[str, str])
    runs: Mapping[str, RunManifest] = field(default_factory=dict[str, RunManifest])


class RunFolder:
    """A folder of runs. `locked` guards it while it is written to."""

    def __init__(self, path: Path, /) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Generator[None]:
        """Keep other processes from writing here.

        Raises:
            ConflictError: another process does.
            InvalidInputError: the folder can't be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidInputError(f"{self.path} can't be made: {error.strerror}", field="out") from None
        try:
            with filelock.FileLock(self.path / ".lock", timeout=0):
                yield
        except filelock.Timeout:
            raise ConflictError(
                f"another evaluation writes to {self.path}; wait for it, or give another --out"
            ) from None

    @property
    def is_new(self) -> bool:
        """Whether nothing was run here yet."""
        return not (self.path / MANIFEST).exists()

    def manifest(self) -> Manifest:
        """Read what the folder is about.

        Raises:
            NotFoundError: it holds no runs.
            InvalidInputError: the manifest is damaged.
        """
        path = self.path / MANIFEST
        try:
            read = json.loads(path.read_bytes())
            runs = {name: RunManifest(**run) for name, run in read.pop("runs").items()}
            return Manifest(**read, runs=runs)
        except FileNotFoundError:
            raise NotFoundError(f"{self.path} holds no runs: it has no {MANIFEST}") from None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidInputError(f"{path} is no manifest of runs: {error!r}", field="run") from None

    def write_manifest(self, manifest: Manifest, /) -> None:
        """Replace the manifest, all or nothing."""
        self.write_text(MANIFEST, json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str, /) -> None:
        """Write or replace a file beside the runs, all or nothing."""
        unfinished = self.path / f".{name}.tmp"
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(self.path / name)

    def prepare(self, wanted: Manifest, /) -> None:
        """Make the folder ready for the runs of `wanted`: they are added to those that are there.

        Raises:
            ConflictError: what is there has other data, another selection, or other settings of the same run, so that
                going on would mix two things.
        """
        if self.is_new:
            self.write_manifest(wanted)
            return
        here = self.manifest()
        _require_the_same(self.path, "benchmark", {"name": here.benchmark}, {"name": wanted.benchmark})
        _require_the_same(self.path, "data", here.data, wanted.data)
        _require_the_same(self.path, "selection", here.selection, wanted.selection)
        for name, run in wanted.runs.items():
            if name in here.runs:
                _require_the_same(self.path, f"setting of {name}", here.runs[name].settings, run.settings)
        new = {name: run for name, run in wanted.runs.items() if name not in here.runs}
        self.write_manifest(replace(here, runs={**here.runs, **new}))

    def add_seconds(self, name: str, seconds: float, /) -> None:
        """Add to the time that a run took."""
        manifest = self.manifest()
        run = manifest.runs[name]
        runs = {**manifest.runs, name: replace(run, seconds=round(run.seconds + seconds, 1))}
        self.write_manifest(replace(manifest, runs=runs))

    def discard(self, name: str, /) -> None:
        """Remove a run, so that it is run anew."""
        for path in self._files(name):
            path.unlink(missing_ok=True)
        if not self.is_new:
            manifest = self.manifest()
            self.write_manifest(replace(manifest, runs={n: run for n, run in manifest.runs.items() if n != name}))

    def read(self, name: str, /) -> list[Asked]:
        """Return the questions of a run, in the order in which they were asked; an unfinished last line is left out.

        Raises:
            NotFoundError: there is no such run.
            InvalidInputError: a line is damaged.
        """
        answers, latencies = self._files(name)
        if not answers.exists():
            raise NotFoundError(f"{self.path} holds no run {name}")
        took = {line["question"]: line for line in _lines(latencies)}
        # One whose time was lost, with the power, is asked again and then stands here twice.
        asked = {line["question"]: line for line in _lines(answers) if line["question"] in took}
        return [_asked(line, took[question]) for question, line in asked.items()]

    @contextmanager
    def writer(self, name: str, /) -> Generator["RunWriter"]:
        """Append to a run; what was left unfinished is cut off first."""
        with ExitStack() as files:
            opened: list[BinaryIO] = []
            for path in self._files(name):
                _cut_unfinished(path)
                opened.append(files.enter_context(path.open("ab", buffering=0)))
            yield RunWriter(*opened)

    def _files(self, name: str) -> tuple[Path, Path]:
        return self.path / f"{name}.jsonl", self.path / f"{name}.latency.jsonl"


class RunWriter:
    """Appends questions to the files of a run."""

    def __init__(self, answers: BinaryIO, latencies: BinaryIO, /) -> None:
        self._answers = answers
        self._latencies = latencies

    def add(self, asked: Asked, /) -> None:
        """Append a question. Its time goes first: a question counts as asked once it is in the run itself."""
        cpu_ms = None if asked.cpu_ms is None else round(asked.cpu_ms, 3)
        _write(self._latencies, {"question": asked.question_id, "wall_ms": round(asked.wall_ms, 3), "cpu_ms": cpu_ms})
        _write(
            self._answers,
            {
                "question": asked.question_id,
                "type": asked.question_type,
                "abstention": asked.is_abstention,
                "sessions": asked.sessions,
                "evidence_sessions": sorted(asked.evidence_sessions),
                "evidence_turns": sorted(asked.evidence_turns),
                "raw": [_ranked(place) for place in asked.raw],
                "grouped": [_ranked(place) for place in asked.grouped],
            },
        )


def _write(file: BinaryIO, line: Mapping[str, Any]) -> None:
    left = memoryview(json.dumps(line, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n")
    while left:  # unbuffered files may take a part only
        left = left[file.write(left) :]


def _ranked(place: Ranked) -> Mapping[str, Any]:
    signals = {name: round(value, _SCORE_DIGITS) for name, value in place.signals.items()}
    return {
        "session": place.session,
        "turn": place.turn,
        "score": round(place.score, _SCORE_DIGITS),
        "signals": signals,
    }


def _asked(line: Mapping[str, Any], latency: Mapping[str, Any]) -> Asked:
    return Asked(
        question_id=line["question"],
        question_type=line["type"],
        is_abstention=line["abstention"],
        evidence_sessions=frozenset(line["evidence_sessions"]),
        evidence_turns=frozenset(line["evidence_turns"]),
        sessions=line["sessions"],
        raw=tuple(Ranked(**place) for place in line["raw"]),
        grouped=tuple(Ranked(**place) for place in line["grouped"]),
        wall_ms=latency["wall_ms"],
        cpu_ms=latency["cpu_ms"],
    )


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                read: object = json.loads(line.decode("utf-8", "surrogatepass"))
            except ValueError:
                read = None
            if not isinstance(read, dict) or "question" not in read:
                raise InvalidInputError(f"{path}, line {number} is no question of a run; remove the file", field="run")
            yield cast("Mapping[str, Any]", read)


def _cut_unfinished(path: Path) -> None:
    if path.exists():
        with path.open("rb+") as file:
            finished = sum(len(line) for line in file if line.endswith(b"\n"))
            file.truncate(finished)
            os.fsync(file.fileno())


def _require_the_same(folder: Path, what: str, here: Mapping[str, object], wanted: Mapping[str, object]) -> None:
    changed = [name for name in sorted({*here, *wanted}) if here.get(name) != wanted.get(name)]
    if changed:
        told = "; ".join(f"{name}: {here.get(name)} there, {wanted.get(name)} now" for name in changed)
        raise ConflictError(
            f"{folder} holds runs with another {what} ({told}); give another --out, or --fresh to replace runs of the "
            "same name"
        )


def names_of(runs: Sequence[RunManifest], /) -> dict[str, RunManifest]:
    """Return runs by the names of their files.

    Raises:
        InvalidInputError: two of them would share their files.
    """
    named: dict[str, RunManifest] = {}
    for run in runs:
        if run.name in named:
            raise InvalidInputError(
                f"two systems are called {run.name}; label one: --system LABEL={run.system}", field="system"
            )
        named[run.name] = run
    return named
