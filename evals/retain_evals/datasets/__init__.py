"""Datasets: where the rows come from, what a benchmark makes of them, and samples of their questions."""

from retain_evals.datasets.benchmark import Benchmark, open_benchmark
from retain_evals.datasets.counts import DatasetCounts
from retain_evals.datasets.locomo import locomo
from retain_evals.datasets.longmemeval import longmemeval
from retain_evals.datasets.sampling import first, sample
from retain_evals.datasets.source import Source, open_source, sha256_of

__all__ = [
    "Benchmark",
    "DatasetCounts",
    "Source",
    "first",
    "locomo",
    "longmemeval",
    "open_benchmark",
    "open_source",
    "sample",
    "sha256_of",
]
