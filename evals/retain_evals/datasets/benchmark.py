"""A benchmark over a data file: its haystacks, as often as they are asked for."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from retain_evals.datasets.counts import DatasetCounts
from retain_evals.datasets.locomo import locomo
from retain_evals.datasets.longmemeval import longmemeval
from retain_evals.datasets.source import open_source
from retain_evals.haystack import Haystack

BenchmarkName = Literal["longmemeval", "locomo"]
Reader = Callable[[Iterable[Any], DatasetCounts | None], Iterator[Haystack]]

_READERS: dict[BenchmarkName, Reader] = {"longmemeval": longmemeval, "locomo": locomo}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The haystacks of a benchmark. Each iteration reads the rows anew and holds one haystack at a time.

    Attributes:
        rows: A `Source`, a dataset of Hugging Face, or a list of rows; it must be possible to iterate it repeatedly.
        read: Makes haystacks of rows, and adds to totals when given some.
    """

    name: str
    rows: Iterable[Any]
    read: Reader

    def __iter__(self) -> Iterator[Haystack]:
        """Yield the haystacks.

        Raises:
            InvalidInputError: a row is malformed.
        """
        return self.read(self.rows, None)

    def survey(self) -> DatasetCounts:
        """Read everything once and return the totals, so that a bad row shows before a long run and not in it.

        Takes about two seconds for 100 MB of JSON.

        Raises:
            InvalidInputError: a row is malformed.
        """
        counts = DatasetCounts()
        for _ in self.read(self.rows, counts):
            pass
        return counts


def open_benchmark(name: BenchmarkName, data: str, /, *, offline: bool = False) -> Benchmark:
    """Return a benchmark over a data file or a dataset of the hub; see `open_source` for what `data` may be.

    Raises:
        InvalidInputError: there is no such data, or it can't be had.
    """
    return Benchmark(name, open_source(data, offline=offline), _READERS[name])
