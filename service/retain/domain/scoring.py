"""From what each search says of a passage to one score, and from passages to ranked memories.

A score is absolute: it depends on the question and the passage (and, for keywords, on how rare the words are in the
store), never on the other hits. So one number orders the hits, is what people see, and can be compared between
questions. docs/recall.md holds the measurements behind the constants.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from retain.domain.memory import RecallMode

KEYWORD_WEIGHT: Final = 1.2
"""What a full keyword match adds to a cosine. On LoCoMo 1.0 to 1.3 are equal within 0.8 points; below 1.0 up to one
point is lost, above it questions about something else score higher (docs/recall.md, "Fusion")."""
FULL_SHARE: Final = 1 / 2.2
"""The share of a passage of average length that holds every word once: 1 / (1 + k1) with BM25's k1 = 1.2. What
repeated words add beyond is not counted: it changes no result on LoCoMo."""
_SCALE: Final = 0.6
_STEEPNESS: Final = 2.5
"""The curve from evidence to score, 1 - exp(-(x / 0.6) ** 2.5). Among 3,000 unrelated texts the best cosine to a
nonsense question is 0.21 in the median and 0.26 at the ninth decile: 0.07 and 0.12 after the curve. An identical
text has at least 1.0: 0.97."""
SIMILAR_FROM: Final = 0.8
"""Least cosine at which a new memory is reported as similar to an old one. Sentences that differ in one number
measured 0.83 and 0.94, a paraphrase at most 0.72 (docs/recall.md, "Cosines")."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that may answer a question, with what each search says of it.

    Attributes:
        start, end: The passage within the content, in characters.
        semantic: Cosine in [-1, 1]; None when no vector was asked for.
        keyword: BM25 as a share of the most it could be, idf * (k1 + 1) over all words of the question, in
            [0, 1]; None when no text was asked for. 0 when no word matches. Words that the store lacks count
            as the rarest ones: else a question about something else would reach the top by the one word it shares.
    """

    memory_id: str
    conversation_id: str | None
    start: int
    end: int
    semantic: float | None
    keyword: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A memory by its best passage: characters [start, end) of the content.

    Attributes:
        score: In [0, 1], higher is better.
        signals: What the score was made of, each in [0, 1]: "semantic" the cosine (0 when negative), "keyword"
            the `keyword_signal`; or "exact", 1 for a literal match.
    """

    memory_id: str
    conversation_id: str | None
    start: int
    end: int
    score: float
    signals: Mapping[str, float]


def semantic_score(cosine: float, /) -> float:
    """Return the score of a cosine in [-1, 1] alone: 0 up to 0, 0.47 at 0.5, 0.97 at 1. Never falls."""
    return hybrid_score(cosine, 0.0)


def keyword_score(share: float, /) -> float:
    """Return the score of a keyword share in [0, 1] alone: 0 at 0, 0.63 at half of `FULL_SHARE`, then up to 0.997."""
    return hybrid_score(0.0, share)


def hybrid_score(cosine: float, share: float, /) -> float:
    """Return the score in [0, 1] of a cosine in [-1, 1] and a keyword share in [0, 1].

    Evidence adds up, then goes through the curve that the single signals use; so a second signal never lowers a
    score, and equal evidence has an equal score in every mode. Never falls in either argument.
    """
    return _score(_within_unit(cosine), keyword_signal(share))


def keyword_signal(share: float, /) -> float:
    """Return how much of a question's words a passage holds, in [0, 1]: 1 when it holds each at least once.

    `share` is BM25 over the most that BM25 could be, in [0, 1]; that most is never met, see `FULL_SHARE`.
    """
    return _within_unit(share / FULL_SHARE)


def rank(candidates: Iterable[Candidate], mode: RecallMode, /) -> list[Ranked]:
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
        score = 1.0 if mode == "exact" else _score(signals.get("semantic", 0.0), signals.get("keyword", 0.0))
        held = best.get(candidate.memory_id)
        if held is None or (-score, candidate.start) < (-held.score, held.start):
            best[candidate.memory_id] = Ranked(
                candidate.memory_id, candidate.conversation_id, candidate.start, candidate.end, score, signals
            )
    newest_first = sorted(best.values(), key=lambda item: item.memory_id, reverse=True)
    return sorted(newest_first, key=lambda item: -item.score)


def _signals(candidate: Candidate, mode: RecallMode) -> dict[str, float]:
    if mode == "exact":
        return {"exact": 1.0}
    signals: dict[str, float] = {}
    if mode != "keyword":
        signals["semantic"] = _within_unit(candidate.semantic or 0.0)
    if mode != "semantic":
        signals["keyword"] = keyword_signal(candidate.keyword or 0.0)
    return signals


def _score(semantic: float, keyword: float) -> float:
    evidence = semantic + KEYWORD_WEIGHT * keyword
    return 1.0 - math.exp(-((evidence / _SCALE) ** _STEEPNESS))


def _within_unit(value: float) -> float:
    return min(1.0, max(0.0, value))
