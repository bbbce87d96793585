"""Instants, time zones and ranges of time, from numbers, stamps and English.

Everything comes out as aware UTC. The zone is an argument and the host's zone is never asked. What isn't
understood is an `InvalidInputError`, never "no filter"; docs/time.md lists what is.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from math import isfinite
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from retain.domain.errors import InvalidInputError
from retain.domain.time_words import ExpressionReader

_MILLISECONDS_FROM = 1e11  # as seconds this is the year 5138, as milliseconds 1973
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT = re.compile(r"[0-9]{9,}(?:\.[0-9]+)?")
_STAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ][0-9:.,]+(?:[Zz]|[+-][0-9:]+)?)?"
    r"|[0-9]{8}[Tt][0-9.,]+(?:[Zz]|[+-][0-9:]+)?"
)
_OFFSET = re.compile(r"([+-])([01][0-9]|2[0-3]):?([0-5][0-9])?")
_INSTANTS = '"2026-03-01", "2026-03-01T14:00:00Z", "2026-03-01T14:00:00+02:00" or seconds since 1970'
_EXAMPLES = '"yesterday", "last 3 days", "since March", "from January to March 2026" or "2026-03-01"'


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Half-open [since, until): `since` is in it, `until` is not. Aware UTC; None leaves that side open."""

    since: datetime | None
    until: datetime | None


def parse_instant(value: str | int | float | datetime, /, *, zone: tzinfo = UTC, field: str = "time") -> datetime:
    """One instant, as aware UTC.

    Args:
        value: An ISO 8601 / RFC 3339 date or date and time, a `datetime`, or seconds since 1970 as a number
            or as a text of nine digits or more. Numbers of 1e11 and above are milliseconds.
        zone: The zone of a stamp without offset; a date alone is its midnight there.
        field: The name that an error gives.

    Raises:
        InvalidInputError: not a time, no such date, or outside years 1..9999.
    """
    try:
        return _instant(value, zone)
    except OverflowError:
        problem = "is outside the years 1 to 9999; a number is seconds or milliseconds since 1970"
    except ValueError:
        problem = "is not a date or time that exists"
    except TypeError:
        problem = f"is not a time; write {_INSTANTS}"
    raise InvalidInputError(f"{field}: {_shown(value)} {problem}", field=field)


def parse_time_range(text: str, /, *, now: datetime, zone: tzinfo = UTC, field: str = "time") -> TimeRange:
    """The range that an English or ISO time expression names; the whole text must be one.

    Args:
        text: For example "last 3 days", "from January to March", "since 2026-02-01", "yesterday at 3pm".
        now: The moment it is said, aware.
        zone: Whose days, weeks and clock are meant.
        field: The name that an error gives.

    Returns:
        A range with `since` < `until`. One that runs up to now holds the present millisecond.

    Raises:
        InvalidInputError: not understood, no such date, or the end comes before the start.
    """
    found = ExpressionReader(text, now, zone, field, in_sentence=False).whole()
    if found is None:
        raise InvalidInputError(
            f"{field}: {_shown(text)} is not understood as a time; write for example {_EXAMPLES}", field=field
        )
    return TimeRange(*found)


def find_time_range(text: str, /, *, now: datetime, zone: tzinfo = UTC) -> tuple[TimeRange, str] | None:
    """The first time expression inside a sentence, and the sentence without it.

    "notes on redis from last week" gives last week and "notes on redis". Words that may mean something else
    ("may", "Friday", "2025") count only after a word like "in", "on" or "since". What leaves out nothing of
    the past ("tomorrow", "before 2030") is left alone: it says what a memory is about, not when it was made.

    Returns:
        The range and the rest, which may be empty; None when the sentence speaks of no time.

    Raises:
        InvalidInputError: it holds a date that doesn't exist, or a range that ends before it starts.
    """
    found = ExpressionReader(text, now, zone, "time", in_sentence=True).first()
    return (TimeRange(*found[0]), found[1]) if found else None


def load_zone(name: str, /, *, field: str = "timezone") -> tzinfo:
    """The time zone of an IANA name ("Europe/Berlin", "UTC") or an offset ("+02:00").

    Raises:
        InvalidInputError: there is no such zone, or it would be the host's own ("localtime").
    """
    if offset := _OFFSET.fullmatch(name):
        minutes = int(offset[2]) * 60 + int(offset[3] or 0)
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    if name.upper() in {"UTC", "Z"}:
        return UTC
    try:
        if name == "localtime":  # a file in many zone databases; what it holds depends on the host
            raise ZoneInfoNotFoundError(name)
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        message = f'there is no time zone {_shown(name)}; write one like "Europe/Berlin", "UTC" or "+02:00"'
        raise InvalidInputError(f"{field}: {message}", field=field) from None


def _instant(value: object, zone: tzinfo) -> datetime:
    """Raises `TypeError` for what has no form of a time, `ValueError` for what the calendar doesn't have."""
    match value:
        case datetime():
            return _aware(value, zone)
        case str() if _EPOCH_TEXT.fullmatch(text := value.strip()):
            return _from_epoch(float(text))
        case str() if _STAMP.fullmatch(text := value.strip()):
            return _aware(datetime.fromisoformat(text.upper()), zone)
        case int() | float() if not isinstance(value, bool) and isfinite(value):
            return _from_epoch(value)
        case _:
            raise TypeError


def _aware(moment: datetime, zone: tzinfo) -> datetime:
    return (moment if moment.utcoffset() is not None else moment.replace(tzinfo=zone)).astimezone(UTC)


def _from_epoch(number: float) -> datetime:
    unit = "milliseconds" if abs(number) >= _MILLISECONDS_FROM else "seconds"
    return _EPOCH + timedelta(**{unit: number})


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to print thousands of digits
        return "this number"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:76]}...{text[-1]}"
