"""From what each search says of a passage to one score, and from passages to ranked memories.

A score is absolute: it depends on the question and the passage (and, for keywords, on how rare the words are in the
store), never on the other hits. So one number orders the hits, is what people see, and can be compared between
questions. docs/recall.md holds the measurements behind the constants.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from retain.domain.memory import RecallMode

KEYWORD_WEIGHT: Final = 1.0
"""What a full keyword match adds to a cosine. LoCoMo is flat between 0.8 and 1.2 (docs/recall.md, "Fusion")."""
_SCALE: Final = 0.6
_STEEPNESS: Final = 2.5
"""The curve from evidence to score, 1 - exp(-(x / 0.6) ** 2.5). Among 3,000 unrelated texts the best cosine to a
nonsense question is 0.21 in the median and 0.26 at the ninth decile: 0.07 and 0.12 after the curve. An identical
text has at least 1.0: 0.97."""
SIMILAR_FROM: Final = 0.8
"""Least cosine at which a new memory is reported as similar to an old one. Sentences that differ in one number
measured 0.83 and 0.94, a paraphrase at most 0.72 (docs/recall.md, "Cosines")."""


class CandidateLike(Protocol):
    """What ranking reads of a candidate; `retain.core.ports.Candidate` has it."""

    @property
    def memory_id(self) -> str: ...
    @property
    def conversation_id(self) -> str | None: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def semantic(self) -> float | None: ...
    @property
    def keyword(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory by its best passage: characters [start, end) of the content.

    Attributes:
        score: In [0, 1], higher is better.
        signals: What the score was made of, each in [0, 1]: "semantic" the cosine (0 when negative), "keyword" the
            share of the question's weight; or "exact", 1 for a literal match.
    """

    memory_id: str
    conversation_id: str | None
    start: int
    end: int
    score: float
    signals: Mapping[str, float]


def semantic_score(cosine: float, /) -> float:
    """Return the score of a cosine in [-1, 1] alone: 0 up to 0, 0.47 at 0.5, 0.97 at 1. Never falls."""
    return _calibrated(_within_unit(cosine))


def keyword_score(share: float, /) -> float:
    """Return the score of a keyword share in [0, 1] alone: 0 at 0, 0.47 at 0.5, 0.97 at 1. Never falls."""
    return _calibrated(KEYWORD_WEIGHT * _within_unit(share))


def hybrid_score(cosine: float, share: float, /) -> float:
    """Return the score in [0, 1] of a cosine in [-1, 1] and a keyword share in [0, 1].

    Evidence adds up, then goes through the curve that the single signals use; so a second signal never lowers a
    score, and equal evidence has an equal score in every mode. Falls with neither argument; symmetric.
    """
    return _calibrated(_within_unit(cosine) + KEYWORD_WEIGHT * _within_unit(share))


def keyword_share(bm25: float, document_counts: Sequence[int], documents: int, /) -> float:
    """Return which share of the question's weight a passage carries, in [0, 1].

    1 stands for a passage of average length that holds every word of the question once. Words that the store does
    not have count fully, as the rarest ones: otherwise a question about something else would reach 1 by the one
    common word that it happens to share. 0 for a question without words.

    Args:
        bm25: BM25 of the passage, positive, k1 = 1.2, b = 0.75; FTS5's `bm25()` with its sign turned.
        document_counts: For each distinct word of the question, how many passages hold it, absent words included.
        documents: Passages in the index, at least as many as the largest count.
    """
    weight = sum(word_weight(count, documents) for count in document_counts)
    return _within_unit(bm25 / weight) if weight > 0 else 0.0


def word_weight(document_count: int, documents: int, /) -> float:
    """Return the BM25 weight (idf) of a word that `document_count` of `documents` passages hold, as FTS5 computes it.

    log((N - n + 0.5) / (n + 0.5)), Robertson and Spärck Jones 1976; at least 1e-6 for words in half of the passages.
    """
    return max(math.log((documents - document_count + 0.5) / (document_count + 0.5)), 1e-6)


def rank(candidates: Iterable[CandidateLike], mode: RecallMode, /) -> list[Ranked]:
    """Return each memory once, with its best passage, best memory first.

    A memory scores as its best passage does; signals of different passages are never mixed. Ties go to the newer
    memory (the higher id: ids are UUIDv7), and within a memory to the earlier passage. In mode "exact" every
    candidate scores 1. In mode "keyword" candidates without a matching word are left out.
    """
    best: dict[str, Ranked] = {}
    for candidate in candidates:
        signals = _signals(candidate, mode)
        if mode == "keyword" and not signals["keyword"]:
            continue
        score = 1.0 if mode == "exact" else hybrid_score(signals.get("semantic", 0.0), signals.get("keyword", 0.0))
        held = best.get(candidate.memory_id)
        if held is None or (-score, candidate.start) < (-held.score, held.start):
            best[candidate.memory_id] = Ranked(
                candidate.memory_id, candidate.conversation_id, candidate.start, candidate.end, score, signals
            )
    newest_first = sorted(best.values(), key=lambda item: item.memory_id, reverse=True)
    return sorted(newest_first, key=lambda item: -item.score)


def _signals(candidate: CandidateLike, mode: RecallMode) -> dict[str, float]:
    if mode == "exact":
        return {"exact": 1.0}
    signals: dict[str, float] = {}
    if mode != "keyword":
        signals["semantic"] = _within_unit(candidate.semantic or 0.0)
    if mode != "semantic":
        signals["keyword"] = _within_unit(candidate.keyword or 0.0)
    return signals


def _calibrated(evidence: float) -> float:
    return 1.0 - math.exp(-((evidence / _SCALE) ** _STEEPNESS))


def _within_unit(value: float) -> float:
    return min(1.0, max(0.0, value))
