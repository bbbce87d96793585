"""Cutting a content into passages: the parts that get a vector of their own and that a hit shows as snippet."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retain.domain.memory import Passage, TurnSpan

TARGET_TOKENS: Final = 32
"""Sentences are put together up to this many tokens: one long sentence of prose or two short ones. A fact at the end of
a long memory keeps 0.98 of the score that it has alone, against 0.80 with 64 and 0.99 with 24, which takes 1.4 times
the vectors (docs/recall.md, "Passages")."""
SENTENCE_TOKENS: Final = 64
"""A sentence or line of up to this many tokens stays whole; a longer one is cut into parts of up to as many."""
MAX_PASSAGE_CHARS: Final = 1_000
"""Most characters of a passage. 64 tokens of prose are about 280; an unbroken run of any length is one token."""

# What a border costs when a passage has to end, in window lengths that it may lie away from the ideal place.
_PARAGRAPH, _SENTENCE, _LINE, _CLAUSE, _WORD = 0.0, 0.1, 0.2, 0.6, 0.8
_LEAST_SHARE: Final = 0.25
"""A passage fills at least this share of its window: tiny ones ("Yes.") lie near everything."""
_OVERLAP: Final = 0.2
"""Share of a passage that the next one repeats when a sentence had to be cut."""

_BORDER = re.compile(r"\s+|(?<=[。！？])|(?<=[、，；：])")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]]*\Z")
_PARAGRAPH_GAP = re.compile(r"\n[^\S\n]*\n")
_CLAUSE_END: Final = frozenset(",;:)]–—、，；：")
_ZWJ: Final = "\u200d"
_LONGEST_FLAG_RUN: Final = 64
"""How far back flags are paired; without a bound a text of nothing but flags would take quadratic time."""


def split(
    text: str,
    token_offsets: NDArray[np.int32],
    /,
    *,
    limit: int,
    turns: Sequence[TurnSpan] = (),
    searchable: Sequence[tuple[int, int]] | None = None,
    target: int = TARGET_TOKENS,
) -> list[Passage]:
    """Cut `text` into passages, in reading order.

    Every character to be searched that is not white space lies in a passage, and no passage begins or ends with white
    space. Passages end between paragraphs, sentences or lines where they can; a sentence that is too long is cut
    between clauses or words, and an unbroken run between characters, with the end of one repeated at the start of
    the next. The parts of a text are of about equal length. Pure, deterministic and linear in the length of the text.

    Args:
        text: The content.
        token_offsets: (t, 2) start and end character of each token, in order, as `Embedder.token_offsets` gives
            them. Tokens without characters are ignored.
        limit: Most tokens that the model reads at once, at least 1.
        turns: Where the turns of a session lie. No passage holds parts of two turns; text between two turns
            (a role label) goes with the later one.
        searchable: The parts [start, end) to cut, each for itself, instead of all of the text.
        target: Up to how many tokens sentences are put together. A passage has at most `SENTENCE_TOKENS` (or
            `target` or `limit`, if that is larger or smaller), more only where a single character has more.

    Returns:
        The passages; none for a blank text.

    Raises:
        ValueError: `limit` or `target` is below 1.
    """
    if limit < 1 or target < 1:
        raise ValueError(f"a passage needs at least one token, not limit={limit}, target={target}")
    cutter = _Cutter(text, token_offsets, min(limit, target), min(limit, max(target, SENTENCE_TOKENS)))
    regions = _regions(text, turns) if searchable is None else searchable
    return [passage for start, end in regions for passage in cutter.cut(start, end)]


def _regions(text: str, turns: Sequence[TurnSpan]) -> Iterator[tuple[int, int]]:
    start = 0
    for turn in sorted(turns, key=lambda turn: turn.end)[:-1]:
        end = min(turn.end, len(text))
        yield start, end
        start = end
    yield start, len(text)


class _Cutter:
    """One text with its borders and tokens. Positions are characters."""

    def __init__(self, text: str, token_offsets: NDArray[np.int32], most: int, longest_sentence: int) -> None:
        self._text = text
        self._most = most
        self._longest_sentence = longest_sentence
        spans = token_offsets.reshape(-1, 2)
        spans = spans[spans[:, 1] > spans[:, 0]]
        self._token_starts: list[int] = spans[:, 0].tolist()
        self._token_ends: list[int] = spans[:, 1].tolist()
        self._borders: list[int] = []
        self._costs: list[float] = []
        for match in _BORDER.finditer(text):
            if not _joined(text, match.end()):
                self._borders.append(match.end())
                self._costs.append(_cost(text, match))
        borders = zip(self._borders, self._costs, strict=True)
        self._sentence_ends = [border for border, cost in borders if cost < _CLAUSE]

    def cut(self, start: int, end: int) -> Iterator[Passage]:
        """Yield the passages of the part [start, end)."""
        start, end = self._trimmed(start, end)
        while start < end:
            stop, whole = self._stop(start, end)
            yield Passage(*self._trimmed(start, stop))
            following = stop if whole else self._overlap_start(start, stop)
            if following < stop and self._stop(following, end)[0] <= stop:
                following = stop  # what is repeated fills the passage: nothing new would follow it
            start, _ = self._trimmed(following, end)

    def _stop(self, start: int, end: int) -> tuple[int, bool]:
        """Return where the passage from `start` ends, and whether its last sentence is whole."""
        window = self._reach(start, end, self._most)
        if window == end:
            return end, True
        border = self._best_border(start, window, end, self._most, dearest=_LINE)
        if border is not None:
            return border, True
        wide = self._reach(start, end, self._longest_sentence)
        sentence_end = self._sentence_end(window, end)
        if sentence_end <= wide:
            return sentence_end, True
        first_sentence = self._sentence_end(start, end)
        if first_sentence <= window:
            return first_sentence, True
        border = self._best_border(start, wide, end, self._longest_sentence, dearest=_WORD)
        return (self._between_characters(start, wide) if border is None else border), False

    def _best_border(self, start: int, window: int, end: int, most: int, *, dearest: float) -> int | None:
        """Return the best border in (start, window] that costs at most `dearest` and leaves no tiny passage."""
        length = window - start
        first = bisect_left(self._borders, start + max(1, int(length * _LEAST_SHARE)))
        last = bisect_right(self._borders, window)
        ideal = self._ideal(start, end, most)
        best = min(
            (i for i in range(first, last) if self._costs[i] <= dearest),
            key=lambda i: self._costs[i] + abs(self._borders[i] - ideal) / length,
            default=None,
        )
        return None if best is None else self._borders[best]

    def _ideal(self, start: int, end: int, most: int) -> int:
        """Return where the passage from `start` ends when all that is left falls into parts of one length."""
        tokens = bisect_left(self._token_starts, end) - bisect_right(self._token_ends, start)
        parts = max(-(-tokens // most), -(-(end - start) // MAX_PASSAGE_CHARS), 2)
        return self._reach(start, end, max(1, -(-tokens // parts)))

    def _sentence_end(self, position: int, end: int) -> int:
        """Return the first end of a sentence, line or paragraph after `position`, at most `end`."""
        following = bisect_right(self._sentence_ends, position)
        return min(self._sentence_ends[following], end) if following < len(self._sentence_ends) else end

    def _reach(self, start: int, end: int, tokens: int) -> int:
        """Return the last position up to which [start, position) holds at most `tokens` tokens and characters."""
        after = bisect_right(self._token_ends, start) + tokens
        by_tokens = self._token_starts[after] if after < len(self._token_starts) else end
        return max(min(by_tokens, end, start + MAX_PASSAGE_CHARS), start + 1)

    def _between_characters(self, start: int, window: int) -> int:
        """Return the last position in (start, window] that is not within a character as people see it."""
        for position in range(window, start, -1):
            if not _joined(self._text, position):
                return position
        return window

    def _overlap_start(self, start: int, stop: int) -> int:
        """Return where the passage after [start, stop) begins, so that it repeats the end of that one."""
        earliest = stop - int((stop - start) * _OVERLAP)
        border = bisect_left(self._borders, earliest)
        if border < len(self._borders) and self._borders[border] < stop:
            return self._borders[border]
        position = self._between_characters(start, earliest)
        return position if not _joined(self._text, position) else stop

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        while start < end and self._text[start].isspace():
            start += 1
        while start < end and self._text[end - 1].isspace():
            end -= 1
        return start, end


def _cost(text: str, match: re.Match[str]) -> float:
    gap = match.group()
    lines = "\n" in gap
    if lines and _PARAGRAPH_GAP.search(gap):
        return _PARAGRAPH
    before = text[max(0, match.start() - 4) : match.start()]
    if before[-1:].isalnum():
        return _LINE if lines else _WORD
    if _SENTENCE_END.search(before):
        return _SENTENCE
    if lines:
        return _LINE
    return _CLAUSE if before[-1:] in _CLAUSE_END else _WORD


def _joined(text: str, position: int) -> bool:
    """Whether `position` lies within what a reader sees as one character (the common cases of Unicode UAX #29)."""
    if not 0 < position < len(text):
        return False
    before, after = text[position - 1], text[position]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if before == _ZWJ or after == _ZWJ or unicodedata.category(after) in ("Mn", "Me", "Mc"):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff":
        return True
    return _is_flag_half(after) and _is_flag_half(before) and _flag_halves_before(text, position) % 2 == 1


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, position: int) -> int:
    start = position
    earliest = max(0, position - _LONGEST_FLAG_RUN)
    while start > earliest and _is_flag_half(text[start - 1]):
        start -= 1
    return position - start
