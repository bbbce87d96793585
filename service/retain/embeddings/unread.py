"""Text that a model can't read, and what stands for it in a vector.

An English WordPiece vocabulary knows other scripts by their letters only, or not at all ([UNK]). Such tokens have
no meaning, yet the model gives every text of them nearly the same vector: an emoji and a Thai sentence would be
identical. So they are left out of what the model sees, and a hashed vector of the characters themselves stands for
them: the same text is at 1, text that shares parts lies between, text that shares none is at 0.
"""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import shake_128
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]

# A vocabulary reads a script of which it holds this many tokens of several letters, or this many single ones
# (ideographs are words). The bundled one: 8 and 488 at most; a Chinese or multilingual one: thousands.
TOKENS_OF_A_READ_SCRIPT, IDEOGRAPHS_OF_A_READ_SCRIPT = 100, 2_000
# A run of ASCII that is unknown for its length, such as a key of 200 characters, counts as one word.
LETTERS_OF_AN_OVERLONG_WORD = 8
# Latin, with what is written above and below it, ends here.
_FIRST_OTHER_LETTER = "\u0370"
_WITHOUT_SPACES = frozenset(("CJK", "HIRAGANA", "KATAKANA"))


@dataclass(frozen=True, slots=True)
class Reading:
    """The tokens of one text that have a meaning, and the rest.

    `count` is the number of all tokens. `share`, in [0, 1], says how much of the vector `pieces` decide.
    """

    ids: list[int]
    count: int
    share: float = 0.0
    pieces: frozenset[str] = frozenset()

    def blended(self, vector: Vectors) -> Vectors:
        """`vector`, that of `ids`, with the unread pieces in it. Both are (d,) unit rows."""
        if not self.pieces:
            return vector
        total = np.sqrt(1 - self.share) * vector + np.sqrt(self.share) * hashed(self.pieces, len(vector))
        return (total / np.linalg.norm(total)).astype(np.float32)


class Vocabulary:
    """Tells which tokens of a text a model can read."""

    def __init__(self, tokenizer_json: bytes, unknown: int | None) -> None:
        """`unknown` is the id of the token for what is not in the vocabulary."""
        self._unknown = unknown
        # Only a WordPiece vocabulary shows its scripts; others fall back to bytes, which may well have a meaning.
        model: dict[str, Any] = json.loads(tokenizer_json)["model"] if b'"WordPiece"' in tokenizer_json else {}
        self._by_word = model.get("type") == "WordPiece"
        self._read = _read_scripts(cast("Iterable[str]", model["vocab"])) if self._by_word else frozenset[str]()

    def read(self, text: str, ids: list[int], offsets: Sequence[tuple[int, int]], start: int = 0) -> Reading:
        """Part the tokens of `text`; what is before the character `start` is read whatever it is."""
        if self._unknown not in ids and (not self._by_word or text.isascii()):
            return Reading(ids, len(ids))
        foreign = self._foreign_letters(text)
        unread, kept, last = set[int](), list[int](), False
        for token, (first, end) in zip(ids, offsets, strict=True):
            if not (last and _is_mark(text[first:end])):  # a mark belongs to the letter before it
                last = first >= start and (token == self._unknown or not foreign.isdisjoint(text[first:end]))
            if last:
                unread.update(range(first, end))
            else:
                kept.append(token)
        if not unread:
            return Reading(ids, len(ids))
        return Reading(kept, len(ids), *_weighed(text, unread, start))

    def _foreign_letters(self, text: str) -> set[str]:
        """Letters of scripts that are not read; a single one, as in "5 μm" or "α", is a sign that may be known."""
        if not self._by_word:
            return set()
        found = {char for char in set(text) if char >= _FIRST_OTHER_LETTER and char.isalpha()}
        found = {char for char in found if (name := script(char)) != "LATIN" and name not in self._read}
        neighbours = bool(found) and any(a in found and b in found for a, b in pairwise(text))
        return found if neighbours else set()


@lru_cache(4096)
def script(char: str) -> str:
    """The writing system of a letter, as the first word of its Unicode name, such as CYRILLIC or CJK."""
    return unicodedata.name(char, "?").partition(" ")[0]


def hashed(pieces: Iterable[str], dimensions: int) -> Vectors:
    """(d,) float32 unit row: the sum of a direction for each piece; different pieces are nearly orthogonal.

    Feature hashing with random signs (Weinberger et al. 2009), the signs from SHAKE-128.
    """
    size = -(-dimensions // 8)
    digests = b"".join(shake_128(piece.encode()).digest(size) for piece in sorted(pieces))
    bits = np.unpackbits(np.frombuffer(digests, np.uint8).reshape(-1, size), axis=1)[:, :dimensions]
    total = (bits.astype(np.float32) * 2 - 1).sum(axis=0)
    return total / np.linalg.norm(total)


def _read_scripts(vocabulary: Iterable[str]) -> frozenset[str]:
    single, several = Counter[str](), Counter[str]()
    for token in vocabulary:
        letters = token.removeprefix("##")
        if letters and letters[0] >= _FIRST_OTHER_LETTER and letters[0].isalpha():
            (single if len(letters) == 1 else several)[script(letters[0])] += 1
    return frozenset(
        name
        for name in single.keys() | several.keys()
        if several[name] >= TOKENS_OF_A_READ_SCRIPT or single[name] >= IDEOGRAPHS_OF_A_READ_SCRIPT
    )


def _is_mark(text: str) -> bool:
    return bool(text) and all(unicodedata.category(char)[0] == "M" for char in text)


def _weighed(text: str, unread: set[int], start: int) -> tuple[float, frozenset[str]]:
    """The share of the unread part, by letters and digits, and its pieces. Signs count where nothing else is."""
    runs = _runs(text, unread)
    weight = sum(map(_letters, runs))
    read = sum(text[i].isalnum() for i in range(start, len(text)) if i not in unread)
    if weight == 0 and read > 0:
        return 0.0, frozenset()
    pieces = frozenset(piece for run in runs for piece in _pieces(run))
    return weight / (weight + read) if weight else 1.0, pieces


def _runs(text: str, unread: set[int]) -> list[str]:
    shown: list[str] = []
    for i, char in enumerate(text):
        # A mark that the tokenizer drops belongs to the letter before it.
        shown.append(char if i in unread or (shown and shown[-1] != " " and _is_mark(char)) else " ")
    return "".join(shown).split()


def _letters(run: str) -> int:
    count = sum(map(str.isalnum, run))
    return min(count, LETTERS_OF_AN_OVERLONG_WORD) if run.isascii() else count


def _pieces(run: str) -> Iterable[str]:
    """Signs one by one; pairs of characters where words have no spaces; else threes, the word's ends included."""
    word = unicodedata.normalize("NFKC", run).casefold()
    first = next((char for char in word if char.isalnum()), None)
    if first is None:
        return iter(word)
    size, padded = (2, word) if script(first) in _WITHOUT_SPACES else (3, f" {word} ")
    return (padded[i : i + size] for i in range(max(1, len(padded) - size + 1)))
