"""Evaluate memory systems with LongMemEval and LoCoMo, on the product that people install.

The command is `retain-eval`; the same in Python:

    benchmark = open_benchmark("longmemeval", "longmemeval_s.json")
    folder = evaluate(benchmark, [RetainMemory(), Bm25()], ["turn"], Path("run"), shown=True)
    report = report_of(folder)
"""

from retain_evals.compare import compare, paired
from retain_evals.datasets import open_benchmark
from retain_evals.evaluate import Selection, evaluate
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
