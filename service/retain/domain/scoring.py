"""From what each search says of a passage to one score, and from passages to ranked memories.

A score is absolute: it depends on the question and the passage (and, for keywords, on how rare the words are in the
namespace searched), never on the other hits. So one number orders the hits, is what people see, and can be compared
between questions. docs/recall.md holds the measurements behind the constants.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import RecallMode

Values = NDArray[np.float64]

KEYWORD_WEIGHT: Final = 1.2
"""What a full keyword match adds to a cosine. On LoCoMo 1.0 to 1.3 are equal within 0.8 points; below 1.0 up to one
point is lost, above it questions about something else score higher (docs/recall.md, "Fusion")."""
FULL_SHARE: Final = 1 / 2.2
"""The share of a passage of average length that holds every word: 1 / (1 + k1) with BM25's k1 = 1.2."""
WEIGHTS: Final[Mapping[str, float]] = {"semantic": 1.0, "keyword": KEYWORD_WEIGHT}
_SCALE: Final = 0.6
_STEEPNESS: Final = 2.5
"""The curve from evidence to score, 1 - exp(-(x / 0.6) ** 2.5). Among 3,000 unrelated texts the best cosine to a
nonsense question is 0.21 in the median and 0.26 at the ninth decile: 0.07 and 0.12 after the curve. An identical
text has at least 1.0: 0.97."""
SIMILAR_FROM: Final = 0.8
"""Least cosine at which a new memory is reported as similar to an old one. Sentences that differ in one number
measured 0.83 and 0.94, a paraphrase at most 0.72 (docs/recall.md, "Cosines")."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """n passages that may answer a question, as columns. Those of one memory come in reading order.

    Attributes:
        memories: (n,) a number for each memory, the same for all its passages; one stored later has a higher one.
        semantic: (n,) cosines in [-1, 1]; None when no vector was asked for.
        keyword: (n,) BM25 as a share of the most it could be, idf * (k1 + 1) over all words of the question, in
            [0, 1]; None when no text was asked for. 0 when no word matches. Words that the store lacks count as the
            rarest ones: else a question about something else would reach the top by the one word it shares.
    """

    memories: NDArray[np.int64]
    semantic: Values | None
    keyword: Values | None

    def __len__(self) -> int:
        return len(self.memories)


NO_CANDIDATES: Final = Candidates(np.empty(0, np.int64), None, None)


def evidence(candidates: Candidates, mode: RecallMode, /) -> dict[str, Values]:
    """Return what each passage's score is made of in `mode`, each (n,) in [0, 1].

    "semantic" is the cosine, 0 when negative. "keyword" is how much of the question's words the passage holds: 1 when
    it holds every one, see `FULL_SHARE`.
    """
    parts: dict[str, Values] = {}
    if mode != "keyword" and candidates.semantic is not None:
        parts["semantic"] = np.clip(candidates.semantic, 0.0, 1.0)
    if mode != "semantic" and candidates.keyword is not None:
        parts["keyword"] = np.clip(candidates.keyword / FULL_SHARE, 0.0, 1.0)
    return parts


def scores(parts: Mapping[str, Values], /) -> Values:
    """Return (n,) the score in [0, 1] of the parts that `evidence` returns; it never falls when one of them grows.

    Evidence adds up, then goes through the curve that a single part uses; so a second signal never lowers a score,
    and equal evidence has an equal score in every mode.
    """
    total = sum((WEIGHTS[name] * part for name, part in parts.items()), start=np.zeros(1))
    return 1.0 - np.exp(-((total / _SCALE) ** _STEEPNESS))


def best_passages(candidates: Candidates, scored: Values, /) -> NDArray[np.intp]:
    """Return where the best passage of each memory is, best memory first.

    A memory scores as its best passage does; signals of different passages are never mixed. Ties go to the memory
    stored later, and within a memory to the earlier passage.
    """
    order = np.lexsort((-candidates.memories, -scored))  # a stable sort: within a memory the order stays
    _, firsts = np.unique(candidates.memories[order], return_index=True)
    return order[np.sort(firsts)]
