"""What a ranked list is worth, each measure under its full name. Every value lies in [0, 1], higher is better.

What is just called "recall" elsewhere is one of three measures, up to twelve points apart on one ranking: `recall_any`
asks for one piece of the evidence, `recall_all` for every piece, `recall_fraction` for the share of it. A list may name
a session several times (several of its turns were found); it counts once, at its best place.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from retain_evals.run import Asked, Grouping, Mode

KS: Final = (1, 3, 5, 10, 20)
MRR: Final = f"mrr@{KS[-1]}"

Level = Literal["session", "turn"]


@dataclass(frozen=True, slots=True)
class View:
    """From which side a run is judged.

    Attributes:
        level: What has to be found: the sessions or the turns that hold the evidence.
        grouping: In which list: the first k memories, or the first memory of each of the first k conversations.
    """

    level: Level
    grouping: Grouping

    def __str__(self) -> str:
        return f"{self.level} level, {self.grouping}"


GROUPED: Final = View("session", "grouped")
RAW: Final = View("session", "raw")
TURNS: Final = View("turn", "raw")


def views(mode: Mode, /) -> tuple[View, ...]:
    """Return the views of a run; a memory that holds a whole session names no turn."""
    return (GROUPED, RAW, TURNS) if mode == "turn" else (GROUPED, RAW)


def recall_any(ranked: Sequence[str], evidence: AbstractSet[str], k: int, /) -> float:
    """Return 1 if one of the first `k` is evidence, else 0; LongMemEval's `recall_any@k`."""
    return float(not evidence.isdisjoint(ranked[:k]))


def recall_all(ranked: Sequence[str], evidence: AbstractSet[str], k: int, /) -> float:
    """Return 1 if all evidence is among the first `k`, else 0; LongMemEval's `recall_all@k`."""
    return float(evidence <= set(ranked[:k]))


def recall_fraction(ranked: Sequence[str], evidence: AbstractSet[str], k: int, /) -> float:
    """Return the share of the evidence that is among the first `k`; `evidence` is not empty."""
    return len(evidence & set(ranked[:k])) / len(evidence)


def ndcg(ranked: Sequence[str], evidence: AbstractSet[str], k: int, /) -> float:
    """Return DCG@k over that of the best order, with gains 0 and 1; LongMemEval's `ndcg_any@k`.

    DCG is r₁ + Σ rᵢ / log₂ i from i = 2 (Järvelin & Kekäläinen 2002), so that the first two places weigh the same.
    """
    found = evidence & set(ranked[:k])
    gained = sum(_discount(ranked.index(one)) for one in found)
    return gained / sum(_discount(place) for place in range(min(k, len(evidence))))


def _discount(place: int) -> float:
    return 1.0 if place == 0 else 1 / math.log2(place + 1)


def reciprocal_rank(ranked: Sequence[str], evidence: AbstractSet[str], /) -> float:
    """Return 1 over the place of the first evidence, counted from 1; 0 if the list holds none. MRR is its mean."""
    return next((1 / place for place, one in enumerate(ranked, 1) if one in evidence), 0.0)


_AT_K: Final[Mapping[str, Callable[[Sequence[str], AbstractSet[str], int], float]]] = {
    "recall_any": recall_any,
    "recall_all": recall_all,
    "recall_fraction": recall_fraction,
    "ndcg": ndcg,
}
METRICS: Final = (*(f"{name}@{k}" for name in _AT_K for k in KS), MRR)
"""The names of all measures."""


def judged(asked: Asked, view: View, /) -> dict[str, float] | None:
    """Return all `METRICS` of one question; None when the dataset names no evidence of this level for it."""
    evidence = asked.evidence_sessions if view.level == "session" else asked.evidence_turns
    if not evidence:
        return None
    places = asked.grouped if view.grouping == "grouped" else asked.raw
    ranked = [place.session if view.level == "session" else place.turn or "" for place in places]
    if view.grouping == "grouped":
        ranked = list(dict.fromkeys(ranked))  # a session that stands in its haystack twice is two conversations
    values = {f"{name}@{k}": measure(ranked, evidence, k) for name, measure in _AT_K.items() for k in KS}
    return values | {MRR: reciprocal_rank(ranked, evidence)}
