"""The verdict on every figure, as a table for people, as Markdown for the documentation, as JSON for programs."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

from benchmarks.figures import FIGURES, TIME_TOLERANCE, Figure
from benchmarks.plan import Plan
from benchmarks.readings import Reading, Readings

Verdict = Literal["ok", "missed", "failed", ""]
"""ok; missed, which is told; failed, which fails the run; empty where nothing is asked."""
MARKS = {name: (f"<!-- last {name} run: begin -->", f"<!-- last {name} run: end -->") for name in ("standard", "full")}
"""By plan: where the page has the table of its last run."""
_COLOURS = {"ok": "green", "missed": "yellow", "failed": "red", "": ""}


@dataclass(frozen=True, slots=True)
class Row:
    """A figure with its reading and the verdict."""

    figure: Figure
    reading: Reading
    verdict: Verdict

    @property
    def measured(self) -> str:
        """Return the value with as many digits as mean something."""
        value = self.reading.value
        if value == int(value) and self.figure.unit in ("", "bytes"):
            return f"{value:,.0f}"
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}" if abs(value) >= 10 else f"{value:.2f}"


def judge(readings: Readings, plan: Plan, /, *, strict: bool = False) -> list[Row]:
    """Return the rows of all figures that were measured, in their order.

    Raises:
        KeyError: a reading belongs to no figure.
    """
    known = {figure.key for figure in FIGURES}
    if unknown := set(readings) - known:
        raise KeyError(f"no figure is called {', '.join(sorted(unknown))}")
    return [
        Row(figure, readings[figure.key], _verdict(figure, readings[figure.key].value, plan, strict))
        for figure in FIGURES
        if figure.key in readings
    ]


def _verdict(figure: Figure, value: float, plan: Plan, strict: bool) -> Verdict:
    size, _, _ = figure.key.partition("_")
    memories = {"scale": plan.scale, "huge": plan.huge, "import": plan.imported}.get(size, plan.large)
    if not figure.asked or memories < figure.from_memories:
        return ""
    excess = figure.excess(value)
    if excess == 0:
        return "ok"
    if figure.kind == "time":
        return "failed" if strict and excess > TIME_TOLERANCE else "missed"
    return "failed"


def show(rows: Iterable[Row], plan: Plan, machine: Mapping[str, object], console: Console, /) -> None:
    """Print the table."""
    table = Table(
        title="Retain against what is asked of it",
        caption=_circumstances(plan, machine),
        title_justify="left",
        caption_justify="left",
    )
    for name in ("what", "asked", "measured", "", "beside it"):
        table.add_column(name, justify="right" if name in ("asked", "measured") else "left", overflow="fold")
    for row in rows:
        verdict = f"[{_COLOURS[row.verdict]}]{row.verdict}[/]" if row.verdict else ""
        measured = f"{row.measured} {row.figure.unit}".rstrip()
        table.add_row(_sized(row.figure.what, plan), row.figure.asked, measured, verdict, row.reading.detail)
    console.print(table)


def markdown(rows: Iterable[Row], plan: Plan, machine: Mapping[str, object], /) -> str:
    """Return the table for docs/benchmarks.md."""
    lines = [_circumstances(plan, machine), "", "| what | asked | measured | | beside it |", "|---|--:|--:|---|---|"]
    for row in rows:
        measured = f"{row.measured} {row.figure.unit}".rstrip()
        cells = (_sized(row.figure.what, plan), row.figure.asked, measured, row.verdict, row.reading.detail)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |")
    return "\n".join(lines)


def write_into(page: Path, plan: str, table: str, /) -> None:
    """Put `table` between the marks of a plan on a Markdown page.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = MARKS[plan]
    before, found_begin, rest = page.read_text("utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{page.name} has no place for the table between {begin} and {end}")
    page.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", "utf-8")


def write_json(file: Path, rows: Iterable[Row], plan: Plan, machine: Mapping[str, object], /) -> None:
    """Write everything to a file."""
    form = {
        "plan": asdict(plan),
        "machine": machine,
        "rows": [
            {
                "key": row.figure.key,
                "what": _sized(row.figure.what, plan),
                "unit": row.figure.unit,
                "kind": row.figure.kind,
                "at_most": row.figure.at_most,
                "at_least": row.figure.at_least,
                "value": row.reading.value,
                "verdict": row.verdict,
                "detail": row.reading.detail,
            }
            for row in rows
        ],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(form, indent=1) + "\n", "utf-8")


def _sized(what: str, plan: Plan) -> str:
    for word in ("small", "large", "scale", "huge"):
        what = what.replace(word, f"{getattr(plan, word):,}")
    return what


def _circumstances(plan: Plan, machine: Mapping[str, object]) -> str:
    libraries = machine.get("libraries")
    versions = ", ".join(f"{name} {value}" for name, value in libraries.items()) if isinstance(libraries, dict) else ""
    return (
        f"Plan {plan.name}, {machine.get('date')}; {machine.get('processor')}, {machine.get('cores')} cores, "
        f"{machine.get('memory_gib')} GiB, {machine.get('system')}; load average {machine.get('load_before')} before, "
        f"{machine.get('load_after')} after; took {machine.get('took_s')} s. "
        f"Yardstick: importing the MCP SDK takes {machine.get('import_cpu_s')} CPU s, a CPU second makes "
        f"{machine.get('gigaflops')} GFLOP of a float32 matrix product. "
        f"Python {machine.get('python')}, Retain {machine.get('retain')}, {versions}."
    )
