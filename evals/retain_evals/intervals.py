"""How sure a mean is, and whether two runs differ by more than chance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 2_000
CONFIDENCE: Final = 0.95
_SEED: Final = 20_000
"""Fixed, so that a run reports the same interval each time."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over `n` questions with its 95 % bootstrap interval from `low` to `high`."""

    value: float
    low: float
    high: float
    n: int


def means(values: NDArray[np.float64], /) -> list[Mean]:
    """Return the mean of each column of (n, m) `values`, with a percentile bootstrap interval over the n questions.

    Efron & Tibshirani 1993, chapter 13. n is at least 1. Questions count as independent, also those about one
    conversation.
    """
    n = len(values)
    draws = np.random.default_rng(_SEED).integers(0, n, (RESAMPLES, n))
    weights = np.stack([np.bincount(draw, minlength=n) for draw in draws])
    edge = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(weights @ values / n, [edge, 100 - edge], axis=0)
    edges = zip(values.mean(axis=0), low, high, strict=True)
    return [Mean(float(value), float(lowest), float(highest), n) for value, lowest, highest in edges]


@dataclass(frozen=True, slots=True)
class Difference:
    """How run B differs from run A on the same questions.

    Attributes:
        mean: Of B's values minus A's.
        better, worse: In how many questions B's value is higher, lower.
        p: Two-sided p of the exact sign test over the questions that changed.
    """

    mean: Mean
    better: int
    worse: int
    p: float

    @property
    def is_more_than_noise(self) -> bool:
        """Whether the interval leaves out 0 and the sign test rejects at 5 %."""
        return (self.mean.low > 0 or self.mean.high < 0) and self.p < 1 - CONFIDENCE


def difference(a: Sequence[float], b: Sequence[float], /) -> Difference:
    """Compare the values of two runs, question by question; both lists have the same order and are not empty."""
    changes = np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64)
    better, worse = int((changes > 0).sum()), int((changes < 0).sum())
    return Difference(means(changes[:, np.newaxis])[0], better, worse, sign_test(better, worse))


def sign_test(better: int, worse: int, /) -> float:
    """Return the two-sided p of so uneven a split if both directions were equally likely; 1 when nothing changed."""
    n = better + worse
    tail = sum(math.comb(n, i) for i in range(min(better, worse) + 1))
    return min(1.0, 2 * tail / 2**n)
