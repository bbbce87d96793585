"""JSON as text: read strictly, so that nothing sent is half ignored, and written so that no value can break it."""

import json
import math
from typing import NoReturn, cast

DEEPEST = 64
"""How many levels of an answer are shown; stored metadata may have 32."""
_LARGEST_BITS = 10_000
"""Whole numbers beyond this, some 3,000 digits, Python may refuse to write in decimal."""
_BOM = b"\xef\xbb\xbf"


class UnreadableJsonError(ValueError):
    """Text that is not the JSON of one value. The message goes on from its subject: "is not JSON: …"."""


def read_json(text: bytes | str, /) -> object:
    """Return the value that UTF-8 bytes or a text hold.

    Raises:
        UnreadableJsonError: it is no JSON, holds a name twice in one object, or a number that is too long.
    """
    try:
        decoded = text if isinstance(text, str) else text.removeprefix(_BOM).decode("utf-8")
        return _STRICT.decode(decoded)
    except UnreadableJsonError:
        raise
    except UnicodeDecodeError as error:
        raise UnreadableJsonError(f"is not UTF-8 (byte {error.start:,})") from None
    except RecursionError:
        raise UnreadableJsonError("is nested too deeply") from None
    except ValueError as error:
        raise UnreadableJsonError(f"is not JSON: {error}") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise UnreadableJsonError(f"gives {ascii(twice)[:80]} twice")
    return named


def _whole(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python's guard against numbers whose reading takes quadratic time
        raise UnreadableJsonError(f"holds a number of {len(digits.lstrip('-')):,} digits, which is too long") from None


def _constant(name: str) -> NoReturn:
    raise UnreadableJsonError(f"is not JSON: {name} is no JSON value")


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_int=_whole, parse_constant=_constant)


def presentable(value: object, levels: int = DEEPEST, /) -> object:
    """Return a JSON form that every JSON writer can write: what it could not is replaced by words that say so.

    Args:
        value: What `json.loads` may return, and whatever an old database may hold in its place.
        levels: How deep it may go; what lies deeper is left out.
    """
    if isinstance(value, str):
        return whole_text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _LARGEST_BITS else "(a number too long to be shown)"
    if isinstance(value, float):
        return value if math.isfinite(value) else f"({value}, which is no JSON number)"
    if isinstance(value, dict | list | tuple):
        if levels <= 0:
            return f"(left out: nested deeper than {DEEPEST} levels)"
        if isinstance(value, dict):
            named = cast("dict[object, object]", value)
            return {presentable(str(name)): presentable(item, levels - 1) for name, item in named.items()}
        return [presentable(item, levels - 1) for item in cast("list[object]", value)]
    return presentable(str(value))


def is_whole(text: str, /) -> bool:
    """Whether `text` is UTF-8: without half of a character, which is also what a byte that is no text is read as."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def whole_text(text: str, /) -> str:
    """Return `text` with each half of a character (a lone surrogate) written as an escape, so that it is UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def write_json(value: object, /, *, ascii_only: bool = False, indent: int | None = None) -> str:
    """Return the JSON of a value, whatever it holds; compact unless indented. See `presentable`."""
    separators = (",", ":") if indent is None else None
    try:
        return json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        plain = presentable(value)
        return json.dumps(plain, ensure_ascii=ascii_only, indent=indent, separators=separators)
