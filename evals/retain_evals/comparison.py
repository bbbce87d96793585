"""Two runs on the same questions: what changed, and whether it is more than noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retain import ConflictError, InvalidInputError, NotFoundError
from retain_evals.intervals import Difference, difference
from retain_evals.metrics import MRR, View, judged, views
from retain_evals.report import subsets
from retain_evals.run import Asked
from retain_evals.run_files import Manifest, RunFolder, RunManifest

SHOWN: Final = ("recall_any@5", "recall_fraction@5", "recall_all@5")
COMPARED: Final = (*SHOWN, "recall_any@10", "ndcg@5", MRR)


@dataclass(frozen=True, slots=True)
class NamedRun:
    """A run with what is known of it."""

    folder: Path
    manifest: Manifest
    run: RunManifest
    asked: Sequence[Asked]

    def __str__(self) -> str:
        return f"{self.folder / self.run.name}"


@dataclass(frozen=True, slots=True)
class Changed:
    """A question of which one of the measures `SHOWN` differs.

    Attributes:
        before, after: Those measures in run A and in run B.
    """

    question_id: str
    question_type: str
    view: View
    before: Mapping[str, float]
    after: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run B against run A, on the questions that both were asked.

    Attributes:
        questions: How many those are.
        only_a, only_b: How many questions only one of them was asked.
        differences: By view, set of questions, and measure.
        changed: Questions that changed, by id, then by view.
    """

    a: NamedRun
    b: NamedRun
    questions: int
    only_a: int
    only_b: int
    differences: dict[tuple[View, str, str], Difference]
    changed: list[Changed]


def paired(a: Path, b: Path, /) -> list[tuple[NamedRun, NamedRun]]:
    """Return the runs to compare: those of the same name in two folders, or the ones that the paths name.

    Each path is a folder of runs or one of its files, such as "retain.turn.jsonl". A folder with a single run stands
    for it.

    Raises:
        NotFoundError: there is no run.
        InvalidInputError: the paths leave open which runs are meant.
    """
    runs_a, runs_b = runs_at(a), runs_at(b)
    if len(runs_a) == len(runs_b) == 1:
        return list(zip(runs_a.values(), runs_b.values(), strict=True))
    common = [name for name in runs_a if name in runs_b]
    if not common:
        raise InvalidInputError(
            f"{a} and {b} have no run of the same name; name one of each, such as {next(iter(runs_a.values()))}.jsonl",
            field="run",
        )
    return [(runs_a[name], runs_b[name]) for name in common]


def runs_at(path: Path, /) -> dict[str, NamedRun]:
    """Return the runs of a folder by name, or the one whose file `path` is.

    Raises:
        NotFoundError: there is no run.
    """
    if not path.exists():
        raise NotFoundError(f"there is no run {path}")
    folder = RunFolder(path if path.is_dir() else path.parent)
    manifest = folder.manifest()
    names = list(manifest.runs) if path.is_dir() else [path.name.removesuffix(".jsonl").removesuffix(".latency")]
    if unknown := [name for name in names if name not in manifest.runs]:
        raise NotFoundError(f"{folder.path} holds no run {unknown[0]}; it has {', '.join(manifest.runs)}")
    return {name: NamedRun(folder.path, manifest, manifest.runs[name], folder.read(name)) for name in names}


def compare(a: NamedRun, b: NamedRun, /) -> Comparison:
    """Compare two runs, question by question.

    Raises:
        ConflictError: they are of different data.
        InvalidInputError: they have no question in common.
    """
    if a.manifest.benchmark != b.manifest.benchmark or a.manifest.data["sha256"] != b.manifest.data["sha256"]:
        raise ConflictError(
            f"{a} is of {a.manifest.data['name']}, {b} of {b.manifest.data['name']} with other contents: "
            "only runs of the same data can be compared"
        )
    of_a, of_b = ({one.question_id: one for one in run.asked} for run in (a, b))
    common = [question for question in of_a if question in of_b]
    if not common:
        raise InvalidInputError(f"{a} and {b} have no question in common", field="run")
    pairs = {question: (of_a[question], of_b[question]) for question in common}
    shared = [view for view in views(a.run.mode) if view in views(b.run.mode)]
    return Comparison(
        a=a,
        b=b,
        questions=len(common),
        only_a=len(of_a) - len(common),
        only_b=len(of_b) - len(common),
        differences=_differences(pairs, shared),
        changed=_changed(pairs, shared),
    )


Pairs = dict[str, tuple[Asked, Asked]]


def _differences(pairs: Pairs, shared: Sequence[View]) -> dict[tuple[View, str, str], Difference]:
    found: dict[tuple[View, str, str], Difference] = {}
    for questions, asked in subsets([a for a, _ in pairs.values()]).items():
        for view in shared:
            values = [(judged(a, view), judged(b, view)) for a, b in (pairs[one.question_id] for one in asked)]
            both = [(a, b) for a, b in values if a is not None and b is not None]
            for metric in COMPARED if both else ():
                found[view, questions, metric] = difference([a[metric] for a, _ in both], [b[metric] for _, b in both])
    return found


def _changed(pairs: Pairs, shared: Sequence[View]) -> list[Changed]:
    changed: list[Changed] = []
    for question, (a, b) in sorted(pairs.items()):
        for view in shared:
            before, after = _shown(a, view), _shown(b, view)
            if before != after:
                changed.append(Changed(question, a.question_type, view, before, after))
    return changed


def _shown(asked: Asked, view: View) -> dict[str, float]:
    values = judged(asked, view)
    return {} if values is None else {metric: values[metric] for metric in SHOWN}
