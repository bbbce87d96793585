"""`python -m benchmarks`: measure, compare, print the table; the exit code is 1 when a figure failed."""

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks import machine
from benchmarks.bench import Bench
from benchmarks.measures import (
    embedding,
    filling,
    importing,
    installing,
    killing,
    load,
    recalling,
    scaling,
    sharing,
    starting,
    storing,
)
from benchmarks.plan import PLANS
from benchmarks.processes import ROOT
from benchmarks.ratios import ratios
from benchmarks.readings import Readings
from benchmarks.report import MARKS, judge, markdown, show, write_into, write_json

Measure = Callable[[Bench], Readings]
MEASURES: dict[str, Measure] = {
    "embedding": embedding.measure,
    "starting": starting.measure,
    "filling": filling.measure,
    "importing": importing.measure,
    "recalling": recalling.measure,
    "scaling": scaling.measure,
    "storing": storing.measure,
    "load": load.measure,
    "sharing": sharing.measure,
    "killing": killing.measure,
    "installing": installing.measure,
}
"""In the order in which they run."""
SLOW = ("installing",)
VAR = ROOT / "var"
PAGE = ROOT / "docs" / "benchmarks.md"


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what the command line, and BENCH and STRICT in the environment, ask for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--plan", choices=PLANS, default=os.environ.get("BENCH") or "standard")
    parser.add_argument("--only", metavar="NAMES", help=f"some of {','.join(MEASURES)}; writes no documentation")
    parser.add_argument("--packages", action="store_true", help="also build the wheel and weigh what it installs")
    parser.add_argument("--fresh", action="store_true", help="let the model embed the texts anew")
    parser.add_argument(
        "--strict", action="store_true", default=bool(os.environ.get("STRICT")), help="a missed time fails the run too"
    )
    asked = parser.parse_args(words)
    if asked.plan not in PLANS:
        parser.error(f"BENCH is {asked.plan}; there are {', '.join(PLANS)}")
    if unknown := set(asked.only.split(",") if asked.only else ()) - set(MEASURES):
        parser.error(f"--only names {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    return asked


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, write; return the exit code."""
    asked = arguments(words)
    plan = PLANS[asked.plan]
    chosen = asked.only.split(",") if asked.only else [n for n in MEASURES if asked.packages or n not in SLOW]
    names = [name for name in MEASURES if name in chosen]
    console = Console(width=None if sys.stdout.isatty() else 150)
    cache = VAR / "benchmarks"
    if asked.fresh:
        shutil.rmtree(cache, ignore_errors=True)
    about = machine.described() | {"load_before": machine.load()}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="retain-bench-") as folder:
        readings, broken = measured(Bench(plan, Path(folder), cache), names, console)
    about |= {"load_after": machine.load(), "took_s": round(time.perf_counter() - began)}
    rows = judge(readings | ratios(readings), plan, strict=asked.strict)
    show(rows, plan, about, console)
    suffix = "" if plan.name == "standard" else f"-{plan.name}"
    write_json(VAR / f"benchmarks{suffix}.json", rows, plan, about)
    if plan.name in MARKS and not asked.only and not broken:
        write_into(PAGE, plan.name, markdown(rows, plan, about))
    failed = [row.figure.what for row in rows if row.verdict == "failed"]
    for what in failed + broken:
        console.print(f"[red]failed:[/] {what}")
    return 1 if failed or broken else 0


def measured(bench: Bench, names: Sequence[str], console: Console) -> tuple[Readings, list[str]]:
    """Run the measures of those names; return the readings, and the measures that could not be taken."""
    readings: Readings = {}
    broken: list[str] = []
    for name in names:
        began = time.perf_counter()
        with console.status(f"{name} ..."):
            try:
                readings |= MEASURES[name](bench)
            except Exception as error:  # noqa: BLE001 - the other measures still say something
                traceback.print_exc()
                broken.append(f"{name}: {error}")
        console.print(f"{name}: {time.perf_counter() - began:.0f} s", style="dim")
    return readings, broken


if __name__ == "__main__":
    sys.exit(main())
