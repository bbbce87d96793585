"""From what each search says of a passage to one score, and from passages to ranked memories.

A score is absolute: it depends on the question, the passage, what stands around it, and, a little, on how near it is to
the best answers; not on how many others there are. So one number orders the hits, is what people see, and can be
compared between questions. docs/recall.md holds the measurements behind the constants: each lies in the middle of a
range over which LongMemEval and LoCoMo change by less than a point.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import RecallMode

Values = NDArray[np.float64]

REACH: Final[tuple[float, ...]] = (0.6, 0.5, 0.4)
"""What a word of the question counts when it stands not in the passage but one, two or three passages away, in the same
conversation (or memory, without one)."""
ABSENT_SHARE: Final = 0.25
"""How much the words that no memory holds count among all words of the question. With 0 a question about something else
reaches the top by the one word it shares; with 1 LoCoMo loses up to one point."""
OWN: Final = 0.7
AROUND: Final = 0.5
"""In a conversation, the parts of a passage's own cosine and of the mean of its two neighbours' in `semantic`."""
USUAL_AROUND: Final = (1 - OWN) / AROUND
"""What a missing neighbour counts as, as a share of the own cosine: a passage that stands alone keeps its cosine."""
LEADERS: Final = 3
"""How many of the best conversations `related` looks at: questions that need several sessions find the others so."""
_SCALE: Final = 0.6
_STEEPNESS: Final = 2.5
"""The curve from evidence to score, 1 - exp(-(x / 0.6) ** 2.5). Among 3,000 unrelated texts the best cosine to a
nonsense question is 0.21 in the median and 0.26 at the ninth decile: 0.07 and 0.12 after the curve. An identical
text has at least 1.0: 0.97."""
SIMILAR_FROM: Final = 0.8
"""Least cosine at which a new memory is reported as similar to an old one. Sentences that differ in one number
measured 0.83 and 0.94, a paraphrase at most 0.72 (docs/recall.md, "Cosines")."""


@dataclass(frozen=True, slots=True)
class Weighing:
    """What counts how much in hybrid mode, beside the cosine, which counts 1. The other modes have a single signal.

    Attributes:
        keyword: Weight of the words, at least 0.
        related: Weight of the nearness to the best answers, at least 0.
        surroundings: How much of what stands around a passage counts, in [0, 1]: with 0 it stands for itself.
    """

    keyword: float = 0.7
    related: float = 0.3
    surroundings: float = 1.0


USUAL: Final = Weighing()


@dataclass(frozen=True, slots=True)
class Candidates:
    """n passages that may answer a question, as columns. Those of one memory come in reading order.

    Attributes:
        memories: (n,) a number for each memory, the same for all its passages; one stored later has a higher one.
        threads: (n,) a number for each conversation, the same for all its passages; a memory without a conversation
            has one of its own.
        semantic: (n,) cosines in [-1, 1]; None when no vector was asked for.
        before, after: (n,) cosines of the passages that stand before and after in the conversation, NaN where there is
            none; None unless both a vector and a text were asked for.
        keyword: (n,) how much of the question's words the passage holds itself, in [0, 1]; rare words count more. None
            when no text was asked for.
        keyword_around: (n,) the same with the words around it, see `REACH`; None when `keyword` is.
        vectors: (n, d) rows of any length; None when `before` is.
    """

    memories: NDArray[np.int64]
    threads: NDArray[np.int64]
    semantic: Values | None
    keyword: Values | None
    keyword_around: Values | None = None
    before: Values | None = None
    after: Values | None = None
    vectors: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.memories)


NO_CANDIDATES: Final = Candidates(np.empty(0, np.int64), np.empty(0, np.int64), None, None)


def evidence(candidates: Candidates, mode: RecallMode, weighing: Weighing = USUAL, /) -> dict[str, Values]:
    """Return what each passage's score is made of in `mode`, each (n,) in [0, 1], but "semantic" alone in [-1, 1].

    "semantic" is the cosine; in hybrid mode 0 when negative, and in a conversation mixed with that of the passages
    before and after, since a turn such as "Yes, in March!" means little alone. "keyword" is how much of the
    question's words the passage and those around it hold. "related", in hybrid mode, is the mean cosine to the best
    passages of the best three conversations, times how good the best is.
    """
    parts: dict[str, Values] = {}
    if mode != "keyword" and candidates.semantic is not None:
        parts["semantic"] = _semantic(candidates, candidates.semantic, mode, weighing)
    if mode != "semantic" and candidates.keyword is not None:
        own = candidates.keyword
        around = own if candidates.keyword_around is None else candidates.keyword_around
        parts["keyword"] = np.clip(own + weighing.surroundings * (around - own), 0.0, 1.0)
    if mode == "hybrid" and candidates.vectors is not None and len(candidates):
        parts["related"] = _related(candidates, candidates.vectors, _total(parts, mode, weighing))
    return parts


def _semantic(candidates: Candidates, own: Values, mode: RecallMode, weighing: Weighing) -> Values:
    if mode != "hybrid":
        return own
    own = np.clip(own, 0.0, 1.0)
    if candidates.before is None or candidates.after is None:
        return own
    sides = [
        np.where(np.isnan(side), USUAL_AROUND * own, np.clip(side, 0.0, 1.0))
        for side in (candidates.before, candidates.after)
    ]
    mixed = OWN * own + AROUND * (sides[0] + sides[1]) / 2
    return np.clip(own + weighing.surroundings * (mixed - own), 0.0, 1.0)


def _related(candidates: Candidates, vectors: NDArray[np.float32], total: Values) -> Values:
    leaders = best_of_threads(candidates, best_passages(candidates, total))[:LEADERS]
    nearness = cosines(vectors, vectors[leaders]).sum(axis=1) / LEADERS
    return np.clip(nearness, 0.0, 1.0) * min(1.0, float(total[leaders[0]]))


def cosines(rows: NDArray[np.float32], others: NDArray[np.float32], /) -> Values:
    """Return (n, m) the cosine in [-1, 1] of each of n `rows` to each of m `others`, of any lengths; 0 for zeros.

    Equal rows of whole numbers have equal cosines to the last bit, so that ties are ties: up to 2**24, which some
    thousand dimensions of int8 don't reach, float32 adds whole numbers up exactly.
    """
    lengths = [np.sqrt(np.einsum("nd,nd->n", side, side)).astype(np.float64) for side in (rows, others)]
    products = np.outer(*lengths)
    return np.clip((rows @ others.T).astype(np.float64) / np.where(products > 0, products, 1.0), -1.0, 1.0)


def scores(parts: Mapping[str, Values], mode: RecallMode, weighing: Weighing = USUAL, /) -> Values:
    """Return (n,) the score in [0, 1] of the parts that `evidence` returns; it never falls when one of them grows.

    Evidence adds up, then goes through the curve that a single part uses; so a second signal never lowers a score.
    """
    return 1.0 - np.exp(-((_total(parts, mode, weighing) / _SCALE) ** _STEEPNESS))


def _total(parts: Mapping[str, Values], mode: RecallMode, weighing: Weighing) -> Values:
    if mode != "hybrid":
        return np.maximum(next(iter(parts.values()), np.zeros(1)), 0.0)
    weights = {"semantic": 1.0, "keyword": weighing.keyword, "related": weighing.related}
    return sum((weights[name] * part for name, part in parts.items()), start=np.zeros(1))


def best_passages(candidates: Candidates, scored: Values, /) -> NDArray[np.intp]:
    """Return where the best passage of each memory is, best memory first.

    A memory scores as its best passage does; signals of different passages are never mixed. Ties go to the memory
    stored later, and within a memory to the earlier passage.
    """
    order = np.lexsort((-candidates.memories, -scored))  # a stable sort: within a memory the order stays
    _, firsts = np.unique(candidates.memories[order], return_index=True)
    return order[np.sort(firsts)]


def best_of_threads(candidates: Candidates, ranked: NDArray[np.intp], /) -> NDArray[np.intp]:
    """Return the first of each conversation among passages that are `ranked`, best first."""
    _, firsts = np.unique(candidates.threads[ranked], return_index=True)
    return ranked[np.sort(firsts)]
