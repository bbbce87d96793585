"""Evaluate memory systems with LongMemEval and LoCoMo, on the product that people install.

The command is `retain-eval`; the same in Python:

    benchmark = open_benchmark("longmemeval", "longmemeval_s.json")
    folder = evaluate(benchmark, [RetainMemory(), Bm25()], ["turn"], Path("run"), shown=True)
    report = report_of(folder)
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retain_evals.comparison import compare, paired
    from retain_evals.datasets import open_benchmark
    from retain_evals.evaluation import Selection, evaluate
    from retain_evals.metrics import GROUPED, RAW, TURNS, View
    from retain_evals.own_data import labelled
    from retain_evals.report import ALL, ANSWERABLE, Report, report_of
    from retain_evals.run_files import RunFolder
    from retain_evals.systems.bm25 import Bm25
    from retain_evals.systems.external import External
    from retain_evals.systems.retain_memory import RetainMemory

__all__ = [
    "ALL",
    "ANSWERABLE",
    "GROUPED",
    "RAW",
    "TURNS",
    "Bm25",
    "External",
    "Report",
    "RetainMemory",
    "RunFolder",
    "Selection",
    "View",
    "compare",
    "evaluate",
    "labelled",
    "open_benchmark",
    "paired",
    "report_of",
]

_HOMES = {
    "retain_evals.comparison": ("compare", "paired"),
    "retain_evals.datasets": ("open_benchmark",),
    "retain_evals.evaluation": ("Selection", "evaluate"),
    "retain_evals.metrics": ("GROUPED", "RAW", "TURNS", "View"),
    "retain_evals.own_data": ("labelled",),
    "retain_evals.report": ("ALL", "ANSWERABLE", "Report", "report_of"),
    "retain_evals.run_files": ("RunFolder",),
    "retain_evals.systems.bm25": ("Bm25",),
    "retain_evals.systems.external": ("External",),
    "retain_evals.systems.retain_memory": ("RetainMemory",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that the command can tell what is not installed."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'retain_evals' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
