"""What a measurement gives, and how it is taken: medians of groups, process CPU time beside wall time."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

GROUP = 20
"""Operations whose CPU time is taken together: the kernel counts a process's time in ticks of 10 ms."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A measured value in the unit of its figure, and what else is worth a remark."""

    value: float
    detail: str = ""


Readings = dict[str, Reading]
"""By the key of the figure in `benchmarks.figures`."""


@dataclass(frozen=True, slots=True)
class Timed:
    """CPU milliseconds of one operation (median over groups), wall milliseconds at the median and 95th percentile."""

    cpu_ms: float
    p50_ms: float
    p95_ms: float

    def reading(self, remark: str = "") -> Reading:
        """Return the CPU time, with the wall times and `remark` beside it."""
        walls = f"wall p50 {self.p50_ms:.1f}, p95 {self.p95_ms:.1f} ms"
        return Reading(self.cpu_ms, f"{walls}; {remark}" if remark else walls)


class Stopwatch:
    """Takes the times of single operations; `cpu` tells the CPU seconds that the measured process has used so far."""

    def __init__(self, cpu: Callable[[], float], *, group: int = GROUP) -> None:
        self._cpu = cpu
        self._group = group
        self._walls: list[float] = []
        self._cpus: list[float] = []
        self._group_began = cpu()
        self._in_group = 0

    def reset(self) -> None:
        """Begin now: what was used since the last operation does not count."""
        self._group_began = self._cpu()

    def run(self, operation: Callable[[], object], /) -> None:
        """Run and time one operation."""
        began = time.perf_counter()
        operation()
        self._note(time.perf_counter() - began)

    async def run_async(self, operation: Awaitable[object], /) -> None:
        """Await and time one operation."""
        began = time.perf_counter()
        await operation
        self._note(time.perf_counter() - began)

    def _note(self, wall: float) -> None:
        self._walls.append(wall)
        self._in_group += 1
        if self._in_group == self._group:
            self._end_group()

    def _end_group(self) -> None:
        now = self._cpu()
        self._cpus.append((now - self._group_began) / self._in_group)
        self._group_began, self._in_group = now, 0

    def timed(self) -> Timed:
        """Return the times; operations after the last whole group count only when there is no whole group."""
        if not self._cpus:
            self._end_group()
        return Timed(median(self._cpus) * 1000, median(self._walls) * 1000, percentile(self._walls, 95) * 1000)


def percentile(values: Sequence[float], percent: int, /) -> float:
    """Return a percentile, 1 to 99, of at least one value."""
    return quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def times(walls: Sequence[float], /) -> str:
    """Return the median and 95th percentile of some seconds in words."""
    return f"wall p50 {median(walls) * 1000:.0f}, p95 {percentile(walls, 95) * 1000:.0f} ms"
