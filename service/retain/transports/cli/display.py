"""Stored text made safe for a terminal: nothing in it moves the cursor, hides or reverses what is read."""

import unicodedata
from collections.abc import Iterator

_KEPT = frozenset("\u200c\u200d\u00ad")  # joiners, which emoji and scripts need, and the soft hyphen
_ESCAPED = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINER = "\u200d"
_MODIFIERS = range(0x1F3FB, 0x1F400)
_REGIONAL = range(0x1F1E6, 0x1F200)


def visible(text: str, /) -> str:
    r"""Return `text` with control characters, direction marks and invisible ones written as escapes.

    Line feeds and tabs stay. "a\x1b[31mb" becomes "a\\x1b[31mb", U+202E becomes "\\u202e".
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_harmless(character) else _escape(character) for character in text)


def one_line(text: str, /) -> str:
    """Return `text` on one line: runs of white space become one space, the rest as in `visible`."""
    return visible(" ".join(text.split()))


def quoted_if_needed(text: str, /) -> str:
    """Return a tag or name as it is, in quotes when it holds white space."""
    shown = one_line(text)
    return f'"{shown}"' if any(character.isspace() for character in shown) else shown


def graphemes(text: str, /) -> Iterator[str]:
    """Yield what a reader sees as single characters: accents, joined emoji and flags stay whole.

    A simplification of UAX #29 that is enough for cutting a preview.
    """
    cluster = ""
    for character in text:
        if cluster and not _continues(cluster, character):
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def clipped(text: str, cells: int, /, *, ellipsis: str = "…") -> str:
    """Return the beginning of `text` that fits `cells` columns of a terminal, marked by `ellipsis` when cut."""
    from rich.cells import cell_len

    if cell_len(text) <= cells:
        return text
    room = cells - len(ellipsis)
    kept: list[str] = []
    for cluster in graphemes(text):
        room -= cell_len(cluster)
        if room < 0:
            break
        kept.append(cluster)
    return "".join(kept).rstrip() + ellipsis


def _is_harmless(character: str) -> bool:
    return character in "\n\t" or character in _KEPT or unicodedata.category(character) not in _ESCAPED


def _escape(character: str) -> str:
    return (
        character.encode("ascii", "backslashreplace").decode() if ord(character) > 127 else f"\\x{ord(character):02x}"
    )


def _continues(cluster: str, character: str) -> bool:
    if unicodedata.category(character) in ("Mn", "Me", "Mc") or character == _JOINER or cluster[-1] == _JOINER:
        return True
    if ord(character) in _MODIFIERS:
        return True
    return len(cluster) == 1 and ord(cluster) in _REGIONAL and ord(character) in _REGIONAL
