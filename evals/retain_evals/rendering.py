"""The report and the comparison as tables: Markdown for files, the same rows for a terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import rich.box
import rich.table
from rich.console import Console

from retain_evals import metrics
from retain_evals.comparison import SHOWN, Changed, Comparison
from retain_evals.intervals import Difference, Mean
from retain_evals.metrics import GROUPED, KS, MRR, RAW, TURNS, View
from retain_evals.report import ABSTENTION, ALL, ANSWERABLE, Report, RunReport

HEADLINE: Final = ("recall_any@5", "recall_fraction@5", "recall_all@5", "recall_any@10", "ndcg@5", MRR)
_CHANGED_SHOWN: Final = 20
_BY_TYPE: Final = ("recall_any@5", "recall_fraction@5", "recall_all@5")
_BENCHMARKS: Final = {"longmemeval": "LongMemEval", "locomo": "LoCoMo"}
_HOW: Final[Mapping[View, str]] = {
    GROUPED: "Sessions, one memory of each conversation",
    RAW: "Sessions, memories as they come",
    TURNS: "Turns, memories as they come",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title; the first column is text, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def percent(value: float, /) -> str:
    """Return 0.9321 as "93.2"."""
    return f"{100 * value:.1f}"


def with_interval(mean: Mean, /) -> str:
    """Return a mean and its interval, such as "93.2 (90.1 to 96.0)"."""
    return f"{percent(mean.value)} ({percent(mean.low)} to {percent(mean.high)})"


def title(report: Report, /) -> str:
    """Return what the report is about, in a line."""
    manifest = report.manifest
    benchmark = _BENCHMARKS.get(manifest.benchmark, manifest.benchmark)
    return f"{benchmark}, {manifest.selection['questions']} questions of {manifest.data['name']}"


def headline(report: Report, /, *, intervals: bool) -> list[Table]:
    """Return the main tables: for each view all questions and those with an answer, all runs below one another."""
    tables: list[Table] = []
    told: dict[View, int] = {}
    for view, questions in ((view, subset) for view in _HOW for subset in (ALL, ANSWERABLE)):
        scored = {name: scores for name, run in report.runs.items() if (scores := _scores_of(run, view, questions))}
        n = max((means[MRR].n for means in scored.values()), default=0)
        if not scored or (questions == ANSWERABLE and n == told[view]):
            continue
        told[view] = n
        rows = [
            [
                name if means[MRR].n == n else f"{name} (n = {means[MRR].n})",
                *(with_interval(means[m]) if intervals else percent(means[m].value) for m in HEADLINE),
            ]
            for name, means in scored.items()
        ]
        if view == GROUPED and questions == ALL:
            rows.append(["random order", *(_chance(report, measure) for measure in HEADLINE)])
        tables.append(Table(f"{_HOW[view]}: {questions} (n = {n})", ["run", *HEADLINE], rows))
    return tables


def _scores_of(run: RunReport, view: View, questions: str) -> Mapping[str, Mean] | None:
    return run.scores.get(view, {}).get(questions)


def _chance(report: Report, measure: str) -> str:
    values = [run.chance[measure] for run in report.runs.values() if measure in run.chance]
    return percent(values[0]) if values else ""


def latency(report: Report, /) -> Table:
    """Return how long recalls took, and how long each run."""
    columns = ("cpu p50", "cpu p95", "wall p50", "wall p95")
    rows = [
        [
            name,
            *(f"{run.latency_ms[column]:.1f}" if column in run.latency_ms else "" for column in columns),
            f"{run.run.seconds / 60:.1f}",
        ]
        for name, run in report.runs.items()
    ]
    return Table("Time", ["run", *(f"recall {column}, ms" for column in columns), "whole run, min"], rows)


def by_type(report: Report, /) -> list[Table]:
    """Return a table for each run with the questions by type."""
    tables: list[Table] = []
    for name, run in report.runs.items():
        scores = run.scores[GROUPED]
        rows = [
            [kind, str(means[MRR].n), *(with_interval(means[measure]) for measure in _BY_TYPE)]
            for kind, means in scores.items()
            if kind not in (ALL, ANSWERABLE)
        ]
        tables.append(Table(f"{name}, grouped, by type of question", ["type", "n", *_BY_TYPE], rows))
    return tables


def every_measure(report: Report, /) -> list[Table]:
    """Return all measures at all k for each run and view, all questions."""
    tables: list[Table] = []
    names = dict.fromkeys(metric.split("@")[0] for metric in metrics.METRICS if metric != MRR)
    for name, run in report.runs.items():
        for view, by_subset in run.scores.items():
            for questions in (ALL, ANSWERABLE, ABSTENTION):
                if questions in by_subset:
                    means = by_subset[questions]
                    rows = [[metric, *(percent(means[f"{metric}@{k}"].value) for k in KS)] for metric in names]
                    rows.append([MRR, percent(means[MRR].value), *[""] * (len(KS) - 1)])
                    tables.append(Table(f"{name}, {view}, {questions}", ["measure", *(f"k = {k}" for k in KS)], rows))
    return tables


def beside_published(report: Report, /) -> Table | None:
    """Return what others published, each figure beside ours of the same measure; None when there is nothing to show."""
    rows: list[list[str]] = []
    for figure in report.published:
        for name, run in report.runs.items():
            means = _scores_of(run, figure.view, figure.questions)
            if means is not None and figure.is_comparable_to(run.run.mode):
                ours = f"{percent(means[figure.metric].value)} ({name}, n = {means[figure.metric].n})"
                place = f"{figure.metric}, {figure.view}, {figure.questions}"
                rows.append([figure.system, place, percent(figure.value), ours, figure.on, figure.source])
    columns = ["system", "measure", "published", "this run", "on", "source"]
    return Table("Published by others, beside the same measure here", columns, rows) if rows else None


def summary_markdown(report: Report, /) -> str:
    """Return the warnings and the main tables as Markdown: what fits a page."""
    warnings = [f"> **Mind:** {warning}." for warning in report.warnings]
    tables = [_markdown(table) for table in (*headline(report, intervals=True), latency(report))]
    return "\n\n".join([f"**{title(report)}**, in % with 95 % bootstrap intervals", *warnings, *tables]) + "\n"


def published_markdown(report: Report, /) -> str:
    """Return what others published beside the same measure here, as Markdown."""
    table = beside_published(report)
    return "Nobody published a figure of these measures." if table is None else _markdown(table)


def comparison_markdown(comparison: Comparison, /) -> str:
    """Return the differences of two runs as Markdown."""
    head = f"**{comparison.a.run.name} → {comparison.b.run.name}**, {comparison.questions} questions"
    return "\n\n".join([head, *(_markdown(table) for table in _difference_tables(comparison))]) + "\n"


def markdown_of(report: Report, /) -> str:
    """Return the report as Markdown."""
    parts = [f"# {title(report)}", *_facts(report)]
    parts += [f"> **Mind:** {warning}." for warning in report.warnings]
    parts.append("Every figure in percent, with its 95 % bootstrap interval over questions.")
    published = beside_published(report)
    tables = [*headline(report, intervals=True), latency(report), *by_type(report)]
    tables += [published] if published else []
    parts += [_markdown(table) for table in (*tables, *every_measure(report))]
    return "\n\n".join(parts) + "\n"


def _facts(report: Report) -> Iterable[str]:
    manifest = report.manifest
    selection = {name: value for name, value in manifest.selection.items() if value is not None}
    facts = {
        "Data": f"{manifest.data['name']}, SHA-256 `{manifest.data['sha256']}`",
        "Questions": ", ".join(f"{name} {value}" for name, value in selection.items()),
        "Versions": ", ".join(f"{name} {value}" for name, value in manifest.versions.items()),
        "Machine": ", ".join(f"{name} {value}" for name, value in manifest.machine.items()),
    }
    for name, run in report.runs.items():
        settings = ", ".join(f"{setting} {value}" for setting, value in run.run.settings.items())
        facts[f"`{name}`"] = f"a memory for each {run.run.mode}; {settings}"
    yield "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _markdown(table: Table) -> str:
    lines = [_row(table.columns), _row(["---", *["--:"] * (len(table.columns) - 1)]), *map(_row, table.rows)]
    return f"## {table.title}\n\n" + "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def show_report(report: Report, console: Console, /) -> None:
    """Print the main tables, in percent."""
    console.print(f"{title(report)}, in %")
    for table in (*headline(report, intervals=False), latency(report)):
        _show(table, console)
    for warning in report.warnings:
        console.print(f"Mind: {warning}.", soft_wrap=True)


def show_comparison(comparison: Comparison, console: Console, /, *, every: bool) -> None:
    """Print the differences in points, then the questions that changed: the first 20, or `every` one."""
    console.print(f"{comparison.a} -> {comparison.b}, {comparison.questions} questions", soft_wrap=True)
    if comparison.only_a or comparison.only_b:
        told = f"{comparison.only_a} questions only of the first, {comparison.only_b} only of the second: left out"
        console.print(told)
    for table in _difference_tables(comparison):
        _show(table, console)
    rows = [
        [one.question_id, one.question_type, str(one.view), *(_step(one, metric) for metric in SHOWN)]
        for one in comparison.changed
    ]
    shown = rows if every else rows[:_CHANGED_SHOWN]
    if rows:
        _show(Table(f"Changed: {len(rows)}", ["question", "type", "view", *SHOWN], shown), console)
    else:
        console.print("No question changed in recall_any@5, recall_fraction@5 or recall_all@5.")
    if len(shown) < len(rows):
        console.print(f"… and {len(rows) - len(shown)} more; --all lists them")


def _step(changed: Changed, metric: str) -> str:
    before, after = changed.before[metric], changed.after[metric]
    return "" if before == after else f"{100 * before:.0f} -> {100 * after:.0f}"


def _difference_tables(comparison: Comparison) -> Iterable[Table]:
    columns = ["measure", "points", "95 % from", "to", "better", "worse", "sign test p", "verdict"]
    for view in dict.fromkeys(view for view, _, _ in comparison.differences):
        for questions in (ALL, ANSWERABLE):
            rows = [
                [
                    metric,
                    f"{100 * found.mean.value:+.1f}",
                    f"{100 * found.mean.low:+.1f}",
                    f"{100 * found.mean.high:+.1f}",
                    str(found.better),
                    str(found.worse),
                    f"{found.p:.3f}",
                    _verdict(found),
                ]
                for (of_view, of_questions, metric), found in comparison.differences.items()
                if (of_view, of_questions) == (view, questions)
            ]
            if rows:
                yield Table(f"{_HOW[view]}: {questions}", columns, rows)


def _verdict(found: Difference) -> str:
    if not found.better and not found.worse:
        return "the same"
    return "more than noise" if found.is_more_than_noise else "noise"


def comparison_json(comparisons: Sequence[Comparison], /) -> str:
    """Return comparisons as a JSON list, values in [-1, 1]."""
    documents = [
        {
            "a": str(each.a),
            "b": str(each.b),
            "questions": each.questions,
            "only_a": each.only_a,
            "only_b": each.only_b,
            "differences": [
                {
                    "view": str(view),
                    "questions": questions,
                    "measure": metric,
                    "verdict": _verdict(found),
                    **asdict(found),
                }
                for (view, questions, metric), found in each.differences.items()
            ],
            "changed": [asdict(one) | {"view": str(one.view)} for one in each.changed],
        }
        for each in comparisons
    ]
    return json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


def _show(table: Table, console: Console) -> None:
    drawn = rich.table.Table(
        title=table.title, title_justify="left", box=rich.box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for place, column in enumerate(table.columns):
        if place == 0:
            drawn.add_column(column, no_wrap=True)
        else:
            drawn.add_column(column.replace("_", "\n"), justify="right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*row)
    console.print(drawn)
