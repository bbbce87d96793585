"""The report of a folder of runs: every measure by its full name, with what it was measured on."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from statistics import median
from typing import Any, Final

import numpy as np

from retain_evals import metrics
from retain_evals.intervals import Mean, means
from retain_evals.metrics import METRICS, View
from retain_evals.published import PublishedFigure, published
from retain_evals.run import Asked
from retain_evals.run_files import Manifest, RunFolder, RunManifest

ALL: Final = "all questions"
ANSWERABLE: Final = "without abstention"
ABSTENTION: Final = "abstention"
_WARNED_KS: Final = (5, 10)
_SESSIONS_PER_K: Final = 10

Subset = str
Scores = Mapping[View, Mapping[Subset, Mapping[str, Mean]]]


@dataclass(frozen=True, slots=True)
class RunReport:
    """What one run came to.

    Attributes:
        questions: How many were asked so far.
        scores: Means by view, set of questions, and measure. A set without any evidence of a level is left out.
        chance: What a random order would reach in the mean at session level, grouped, by measure; all questions.
        latency_ms: Median and 95th percentile of a recall: "wall p50", "wall p95", "cpu p50", "cpu p95".
    """

    run: RunManifest
    questions: int
    scores: Scores
    chance: Mapping[str, float]
    latency_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Report:
    """A folder of runs, judged.

    Attributes:
        published: Figures of others that use a measure, view and set of questions of one of the runs.
        warnings: What a reader of the figures has to know.
    """

    manifest: Manifest
    runs: Mapping[str, RunReport]
    published: Sequence[PublishedFigure]
    warnings: Sequence[str]

    def as_json(self) -> str:
        """Return the report as a JSON document: all of it, values in [0, 1]."""
        manifest = asdict(self.manifest)
        del manifest["runs"]
        runs = {name: _run_json(run) for name, run in self.runs.items()}
        others = [{**asdict(figure), "view": str(figure.view)} for figure in self.published]
        document = {**manifest, "runs": runs, "published": others, "warnings": list(self.warnings)}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def report_of(folder: RunFolder, /) -> Report:
    """Judge the runs of a folder.

    Raises:
        NotFoundError: the folder holds no runs.
        InvalidInputError: a file of it is damaged.
    """
    manifest = folder.manifest()
    asked = {name: folder.read(name) for name in manifest.runs}
    runs = {name: _judge(manifest.runs[name], questions) for name, questions in asked.items() if questions}
    return Report(manifest, runs, _comparable(manifest, runs), _warnings(manifest, asked))


def subsets(asked: Sequence[Asked], /) -> dict[Subset, list[Asked]]:
    """Return the sets of questions that are reported: all, those with and without an answer, and each type."""
    sets: dict[Subset, list[Asked]] = {ALL: list(asked)}
    if any(one.is_abstention for one in asked):
        sets[ANSWERABLE] = [one for one in asked if not one.is_abstention]
        sets[ABSTENTION] = [one for one in asked if one.is_abstention]
    for kind in sorted({one.question_type for one in asked}):
        sets[kind] = [one for one in asked if one.question_type == kind]
    return sets


def _judge(run: RunManifest, asked: Sequence[Asked]) -> RunReport:
    sets = subsets(asked)
    scores = {
        view: {name: judged for name, some in sets.items() if (judged := _scores(some, view))}
        for view in metrics.views(run.mode)
    }
    return RunReport(run, len(asked), scores, _chance(asked), _latency(asked))


def _scores(asked: Sequence[Asked], view: View) -> dict[str, Mean]:
    rows = [list(values.values()) for one in asked if (values := metrics.judged(one, view)) is not None]
    return dict(zip(METRICS, means(np.array(rows)), strict=True)) if rows else {}


def _chance(asked: Sequence[Asked]) -> dict[str, float]:
    """Return the expectation of each recall when k of a haystack's sessions are drawn without looking."""
    measures: dict[str, Callable[[int, int, int], float]] = {
        "recall_any": lambda n, relevant, k: 1 - comb(n - relevant, k) / comb(n, k),
        "recall_all": lambda n, relevant, k: comb(n - relevant, k - relevant) / comb(n, k) if k >= relevant else 0.0,
        "recall_fraction": lambda n, relevant, k: k / n,
    }
    sizes = [(one.sessions, len(one.evidence_sessions)) for one in asked if one.evidence_sessions]
    return {
        f"{name}@{k}": float(np.mean([expected(n, relevant, min(k, n)) for n, relevant in sizes]))
        for name, expected in measures.items()
        for k in metrics.KS
        if sizes
    }


def _latency(asked: Sequence[Asked]) -> dict[str, float]:
    times = {"wall": [one.wall_ms for one in asked], "cpu": [one.cpu_ms for one in asked if one.cpu_ms is not None]}
    return {
        f"{clock} p{percent}": float(np.percentile(values, percent))
        for clock, values in times.items()
        for percent in (50, 95)
        if values
    }


def _comparable(manifest: Manifest, runs: Mapping[str, RunReport]) -> list[PublishedFigure]:
    return [
        figure
        for figure in published(manifest.benchmark)
        if any(figure.is_comparable_to(run.run.mode) for run in runs.values())
    ]


def _warnings(manifest: Manifest, asked: Mapping[str, Sequence[Asked]]) -> list[str]:
    total = manifest.selection["questions"] or 0
    warnings = [
        f"{name} is incomplete: {len(questions)} of {total} questions were asked; the same command goes on with it"
        for name, questions in asked.items()
        if len(questions) < total
    ]
    sessions = [one.sessions for questions in asked.values() for one in questions]
    for k in _WARNED_KS:
        if sessions and k > median(sessions) / _SESSIONS_PER_K:
            warnings.append(
                f"k = {k} is more than a tenth of the {median(sessions):.0f} sessions that a haystack has here: "
                "read the figures beside what a random order reaches"
            )
    without = max((sum(not one.evidence_sessions for one in questions) for questions in asked.values()), default=0)
    if without:
        warnings.append(f"{without} questions have no evidence in the data and count in no figure")
    return warnings


def _run_json(run: RunReport) -> dict[str, Any]:
    return {
        "system": run.run.system,
        "mode": run.run.mode,
        "settings": dict(run.run.settings),
        "seconds": run.run.seconds,
        "questions": run.questions,
        "latency_ms": {name: round(value, 3) for name, value in run.latency_ms.items()},
        "chance": {name: round(value, 6) for name, value in run.chance.items()},
        "scores": {
            str(view): {
                subset: {name: asdict(mean) for name, mean in scores.items()} for subset, scores in by_subset.items()
            }
            for view, by_subset in run.scores.items()
        },
    }
