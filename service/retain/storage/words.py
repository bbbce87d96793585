"""What counts as a word, and what a word weighs: the rules that every keyword search here shares."""

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from retain.domain.scoring import ABSENT_SHARE

MOST_TERMS = 64
"""The first so many distinct words of a question are looked up: a pasted page asks no better."""
SMALLEST_CORPUS = 100
"""A store with fewer passages weighs words as if it had this many, so that scores mean the same from the start."""

# fmt: off
STOP_WORDS = frozenset((
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "but", "by", "can", "could", "d", "did", "do", "does", "doing", "down",
    "for", "from", "further", "had", "has", "have", "having", "he", "her", "here", "hers", "him", "his",
    "how", "i", "if", "in", "into", "is", "it", "its", "itself", "just", "let", "ll", "m", "me", "more",
    "most", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our",
    "ours", "out", "over", "own", "re", "s", "same", "she", "should", "so", "some", "such", "t", "than",
    "that", "the", "their", "theirs", "them", "then", "there", "these", "they", "this", "those", "through",
    "to", "too", "under", "until", "up", "us", "ve", "very", "was", "we", "were", "what", "when", "where",
    "which", "while", "who", "whom", "why", "will", "with", "would", "you", "your", "yours",
))
# fmt: on
"""English words that carry no meaning of their own. A question made of nothing else is searched all the same."""

# Scripts written without spaces between words (Han, kana, Hangul, Thai, Lao, Burmese, Khmer); letters, marks and
# digits only, so that every pair cut from a run is one token of FTS5's unicode61.
_UNSPACED = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4db5"
    "\u4e00-\u9fcc\uac00-\ud7a3\uf900-\ufad9\uff66-\uff9f\U00020000-\U0002b81d"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e50-\u0e59\u0e81-\u0ede\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17e0-\u17e9]+"
)


def spaced(text: str, /) -> str:
    """Return `text` with its unspaced runs blanked: what the index of ordinary words sees."""
    return text if text.isascii() else _UNSPACED.sub(" ", text)


def pairs(text: str, /) -> list[str]:
    """Return overlapping pairs of characters of each unspaced run, and each run's last character.

    So "abc" gives ab, bc, c: any two neighbours are found by a whole token, any one by the start of a token.
    """
    return [run[place : place + 2] for run in runs(text) for place in range(len(run))]


def runs(text: str, /) -> list[str]:
    """Return the runs of unspaced scripts in `text`, in NFKC form (half-width kana become ordinary ones)."""
    if text.isascii():
        return []
    return [unicodedata.normalize("NFKC", run) for run in _UNSPACED.findall(text)]


@dataclass(frozen=True, slots=True)
class Terms:
    """What to look up for a question: word stems, whole pairs of unspaced runs, and starts of such pairs."""

    stems: tuple[str, ...]
    pairs: tuple[str, ...]
    starts: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.stems or self.pairs or self.starts)


def terms(text: str, stems: list[str], stop_stems: frozenset[str], /) -> Terms:
    """Return the terms of a question whose ordinary words have the given `stems`."""
    found = runs(text)
    whole = {run[place : place + 2]: None for run in found for place in range(len(run) - 1)}
    starts = dict.fromkeys(run for run in found if len(run) == 1)
    distinct = {spellings(stem)[0]: None for stem in stems}
    telling = [stem for stem in distinct if stem not in stop_stems]
    words = telling if telling or whole or starts else distinct
    rest = MOST_TERMS - min(len(words), MOST_TERMS)
    return Terms(tuple(words)[:MOST_TERMS], tuple(whole)[:rest], tuple(starts)[: max(0, rest - len(whole))])


def spellings(stem: str, /) -> tuple[str, ...]:
    """Return the forms under which a stem may be indexed: Porter makes "deploi" of deploy, "deploy" of deployment."""
    if len(stem) > 3 and stem[-2] in "aeou" and stem[-1] in "iy":
        return stem[:-1] + "i", stem[:-1] + "y"
    return (stem,)


def weight(passages: int, matching: int, /) -> float:
    """Return the inverse document frequency of a term, in (0, ∞): BM25's, kept positive as Lucene does."""
    passages = max(passages, SMALLEST_CORPUS, matching)
    return math.log1p((passages - matching + 0.5) / (matching + 0.5))


def total_weight(weights: Sequence[float], matching: Sequence[int], /) -> float:
    """Return what all words of a question weigh together, above 0; those that nothing matches count in part."""
    return sum(value if count else ABSENT_SHARE * value for value, count in zip(weights, matching, strict=True))


def canonical_json(value: object, /) -> str:
    """Return compact JSON: the form in which metadata is kept."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
