"""The forms: every phrase that Retain reads, one row each in `PHRASES` at the end, and what each means.

Some phrases are definite ("yesterday", "2026-03-05"). Others come round again ("March", "Friday", "3pm"):
they name the cycle they belong to, and become definite beside a mention of that unit ("March 2025", "Friday
of last week", "yesterday at 3pm") or, alone, as the latest one that has begun.
"""

import re
from calendar import monthrange
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta

from retain.domain.time_words.names import (
    AMOUNTS,
    CLEAR_MONTHS,
    CLOCK,
    COUNTS,
    DAY_PARTS,
    DAY_WORDS,
    EVERYDAY,
    MONTH_PARTS,
    NAMES,
    SLACK,
    UNITS,
)
from retain.domain.time_words.spans import MILLISECOND, Calendar, Mention, Span, Standing, floor, shift

_Match = re.Match[str]


def _definite(m: _Match, unit: str, span: Span, standing: Standing = Standing.FREE) -> Mention:
    return Mention(m[0], unit, "", lambda _: [span], standing)


def _impossible(m: _Match) -> Mention:
    return Mention(m[0], "", "", lambda _: [])


def _day_word(calendar: Calendar, m: _Match) -> Mention:
    return _definite(m, "day", calendar.period("day", calendar.today, DAY_WORDS[_squeeze(m["dayword"])]))


def _now(calendar: Calendar, m: _Match) -> Mention:
    span = Span(calendar.end_of_now - MILLISECOND, calendar.end_of_now)
    return _definite(m, "", span, Standing.NEVER)


def _tonight(calendar: Calendar, m: _Match) -> Mention:
    return _definite(m, "", Span(calendar.at(calendar.today, 17), calendar.at(calendar.today, 29)))


def _day_part(calendar: Calendar, m: _Match) -> Mention:
    part = DAY_PARTS[m["daypart"]]
    day = calendar.today - timedelta(days=m["which"] == "last")
    start = calendar.at(day, part.offset)
    return _definite(m, "", Span(start, calendar.at(day, part.offset + part.length)))


def _rolling(calendar: Calendar, m: _Match) -> Mention:
    """ "last 3 days": whole days back to midnight, hours and less to the second; up to now."""
    count = _count(m["n"])[1] if m.groupdict().get("n") else 1
    unit = UNITS[m["unit"]]
    clock = CLOCK.get(unit)
    start = calendar.now - count * clock if clock else calendar.at(shift(unit, calendar.today, -count))
    idiom = m["which"] == "last" and m["unit"] in {"minute", "day"}  # "a last minute fix", "on the last day"
    return _definite(m, "", Span(start, calendar.end_of_now), Standing.IN if idiom else Standing.FREE)


def _period(calendar: Calendar, m: _Match) -> Mention:
    """ "last week" is the one before this on the calendar; "the last week" are seven days up to now."""
    if m["which"] == "last" and (m["the"] or m["unit"] == "day"):
        return _rolling(calendar, m)
    offset = {"this": 0, "next": 1}.get(m["which"], -1)
    return _definite(m, m["unit"], calendar.period(m["unit"], calendar.today, offset))


def _before_last(calendar: Calendar, m: _Match) -> Mention:
    return _definite(m, m["unit"], calendar.period(m["unit"], calendar.today, -2))


def _ago(calendar: Calendar, m: _Match) -> Mention:
    """ "3 days ago" is that day, "a month ago" that month; hours and less are a moment and what is near."""
    low, high = _count(m["n"])
    unit = UNITS[m["unit"]]
    if unit in CLOCK:
        end = calendar.now - low * CLOCK[unit]
        after = min(SLACK[unit], calendar.end_of_now - end)
        return _definite(m, "", Span(calendar.now - high * CLOCK[unit], end, SLACK[unit], after))
    return _definite(m, unit, calendar.period(unit, calendar.today, -high, high - low + 1))


def _name(calendar: Calendar, m: _Match) -> Mention:
    name = NAMES[_squeeze(m["name"])]

    def make(first: date) -> Span:
        if name.cycle == "year":
            return calendar.period("month", first, name.offset, name.length)
        if name.cycle == "week":
            return calendar.days(first + timedelta(days=name.offset), name.length)
        return Span(calendar.at(first, name.offset), calendar.at(first, name.offset + name.length))

    return Mention(m[0], name.unit, name.cycle, calendar.every(name.cycle, make), name.standing)


def _which_name(calendar: Calendar, m: _Match) -> Mention:
    """ "last Tuesday" ended before today; "this Friday" is in this week, even if still to come."""
    named = _name(calendar, m)
    word, which = _squeeze(m["name"]), m["which"]
    spans = named.around(calendar.now)
    if which == "next":
        span = next(s for s in spans if s.start > calendar.now)
    elif which != "this":
        span = next(s for s in reversed(spans) if s.end <= calendar.at(calendar.today))
    elif word == "weekend":
        span = named.latest(calendar.now)
    else:
        running = next((s for s in spans if s.start <= calendar.now < s.end), None)
        span = running or named.first(calendar.at(floor(named.cycle, calendar.today)))
    doubtful = word == "may" or (which == "this" and word in EVERYDAY)
    standing = Standing.DOUBTFUL if doubtful else Standing.FREE
    never = named.cycle == "week" and named.standing is Standing.NEVER
    return _definite(m, named.unit, span, Standing.NEVER if never else standing)


def _month_day(calendar: Calendar, m: _Match) -> Mention:
    """ "March 5", "5 March", "March 5-7" and "the 5th to the 7th of March", each in some year."""
    month, first = NAMES[m["month"]].offset + 1, int(m["day"])
    last = int(m.groupdict().get("day2") or first)

    def make(new_year: date) -> Span | None:
        if last < first or last > monthrange(new_year.year, month)[1]:
            return None
        return calendar.days(date(new_year.year, month, first), last - first + 1)

    # "March 5th" and "June 5" are clear; "5th may fail", "march 3 steps" and "dec 10 to hex" aren't times.
    clear = m["month"] in CLEAR_MONTHS or (m["ordinal"] and m.start("day") > m.start("month"))
    around = calendar.every("year", make)
    standing = Standing.FREE if clear else Standing.DOUBTFUL
    return Mention(m[0], "day" if last == first else "", "year", around, standing)


def _month_part(calendar: Calendar, m: _Match) -> Mention:
    """ "early", "last week", "5th": of some month."""
    word = _squeeze(m["part"])
    low, high = MONTH_PARTS.get(word) or (int(word), int(word))

    def make(month: date) -> Span | None:
        length = monthrange(month.year, month.month)[1]
        first = low if low > 0 else length + 1 + low
        last = min(high, length) if low > 0 else length + 1 + high
        return calendar.days(month.replace(day=first), last - first + 1) if first <= length else None

    unit = "" if word in MONTH_PARTS else "day"
    return Mention(m[0], unit, "month", calendar.every("month", make), Standing.PART)


def _clock_time(calendar: Calendar, m: _Match) -> Mention:
    word = m.groupdict().get("clockword")
    hours, minutes = (12 if word == "noon" else 0, 0) if word else (int(m["hour"]), int(m["minute"] or 0))
    if half := m.groupdict().get("half"):
        hours = hours % 12 + (12 if half == "p" else 0)
    slack = SLACK["hour"]

    def make(day: date) -> Span:
        moment = calendar.at(day, hours, minutes)
        return Span(moment, moment, slack, slack)

    return Mention(m[0], "", "day", calendar.every("day", make), Standing.CLOCK)


def _iso_day(calendar: Calendar, m: _Match) -> Mention:
    try:
        day = date(int(m["year"]), int(m["month"]), int(m["day"]))
    except ValueError:
        return _impossible(m)
    return _definite(m, "day", calendar.days(day))


def _iso_stamp(calendar: Calendar, m: _Match) -> Mention:
    try:
        stamp = datetime.fromisoformat(_squeeze(m["stamp"].upper()))
    except ValueError:
        return _impossible(m)
    moment = (stamp if stamp.tzinfo else stamp.replace(tzinfo=calendar.zone)).astimezone(UTC)
    return _definite(m, "", Span(moment, moment, after=CLOCK["second" if m["seconds"] else "minute"]))


def _iso_month(calendar: Calendar, m: _Match) -> Mention:
    first = date(int(m["year"]), int(m["month"]), 1)
    return _definite(m, "month", calendar.period("month", first), Standing.IN)


def _iso_week(calendar: Calendar, m: _Match) -> Mention:
    try:
        monday = date.fromisocalendar(int(m["year"]), int(m["week"]), 1)
    except ValueError:
        return _impossible(m)
    return _definite(m, "week", calendar.days(monday, 7))


def _year(calendar: Calendar, m: _Match) -> Mention:
    return _definite(m, "year", calendar.period("year", date(int(m["year"]), 1, 1)), Standing.IN)


def _count(text: str) -> tuple[int, int]:
    return (int(text), int(text)) if text.isdecimal() else COUNTS[_squeeze(text)]


def _squeeze(text: str) -> str:
    return " ".join(text.split())


# The forms.


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=len, reverse=True))


_FRAGMENTS = {
    "n": rf"[0-9]{{1,6}}|{_any_of(COUNTS)}",
    "unit": _any_of(UNITS),
    "period": "day|week|month|quarter|year",
    "name": _any_of(NAMES.keys() - DAY_PARTS.keys()),
    "month": _any_of(w for w, name in NAMES.items() if name.unit == "month"),
    "daypart": _any_of(DAY_PARTS),
    "dayword": _any_of(DAY_WORDS),
    "day": "3[01]|[12][0-9]|0?[1-9]",
    "ordinal": "st|nd|rd|th",
    "hour": "[01]?[0-9]|2[0-3]",
    "hour12": "0?[1-9]|1[0-2]",
    "minute": "[0-5][0-9]",
}


def _form(pattern: str) -> re.Pattern[str]:
    """A form as it is written below: {name} is a fragment, {name:group} too, a blank any white space."""

    def fragment(m: _Match) -> str:
        return f"(?P<{m[2] or m[1]}>{_FRAGMENTS[m[1]]})"

    pattern = pattern.replace("{roughly}", "(?:(?:about|around|roughly) )?")
    pattern = pattern.replace("{to_day}", "(?: ?(?:-|to|and|until|through) ?(?:the )?{day:day2}(?:st|nd|rd|th)?)")
    pattern = re.sub(r"\{([a-z]+(?:12)?)(?::(\w+))?\}", fragment, pattern)
    pattern = pattern.replace(" ?", r"\s*").replace(" ", r"\s+")
    return re.compile(rf"(?P<the>the\s+)?(?:{pattern})(?!\w)")


PHRASES: tuple[tuple[re.Pattern[str], Callable[[Calendar, _Match], Mention]], ...] = (
    (_form("{dayword}"), _day_word),
    (_form("now|present"), _now),
    (_form("tonight"), _tonight),
    (_form("(?P<which>this) (?P<daypart>morning|afternoon|evening)"), _day_part),
    (_form("(?P<which>last) (?P<daypart>evening|night)"), _day_part),
    (_form("(?P<which>last|past|previous) {n} ?{unit}(?! of )"), _rolling),
    (_form("(?P<which>(?:this )?past) {period:unit}(?! of )"), _rolling),
    (_form("(?P<which>last|past|previous) (?P<unit>hour|minute)"), _rolling),
    (_form("(?P<which>this|last|previous|next) {period:unit}(?! of )"), _period),
    (_form("{period:unit} before last(?! [a-z])"), _before_last),
    (_form("{roughly}{n} ?{unit} ago"), _ago),
    (_form("{name}"), _name),
    (_form("(?P<name>{daypart})"), _name),
    (_form("(?P<which>this|last|(?:this )?past|previous|next) {name}"), _which_name),
    (_form(r"{month}\.? (?:the )?{day}{ordinal}?{to_day}?"), _month_day),
    (_form("{day}{ordinal}?(?:{to_day}(?: of)?)? {month}"), _month_day),
    (_form("(?P<part>early|mid|late)"), _month_part),
    (_form("(?P<part>start|beginning|middle|end)(?= of )"), _month_part),
    (_form("(?P<part>(?:first|second|third|fourth|last) week)(?= of )"), _month_part),
    (_form("{day:part}(?:st|nd|rd|th)(?= of )"), _month_part),
    (_form(r"{roughly}{hour12:hour}(?::{minute})? ?(?P<half>[ap])(?:\.m\.|m)"), _clock_time),
    (_form("{hour}:{minute}"), _clock_time),
    (_form("(?P<clockword>noon|midnight)"), _clock_time),
    (_form("(?P<year>[0-9]{4})(?P<sep>[-/])(?P<month>[0-9]{2})(?P=sep)(?P<day>[0-9]{2})"), _iso_day),
    (
        _form(
            "(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:t| )[0-9]{2}:[0-9]{2}"
            "(?P<seconds>:[0-9]{2}(?:[.][0-9]+)?)?(?:z|[+-][0-9]{2}:?[0-9]{2})?)"
        ),
        _iso_stamp,
    ),
    (_form("(?P<year>(?:19|20)[0-9]{2})-(?P<month>0[1-9]|1[0-2])"), _iso_month),
    (_form("(?P<year>[0-9]{4})-?w(?P<week>[0-9]{2})"), _iso_week),
    (_form(f"(?P<year>(?:19|20)[0-9]{{2}})(?! ?(?:{AMOUNTS})(?!\\w))"), _year),
)


def read_phrase(text: str, position: int, calendar: Calendar) -> tuple[Mention, int] | None:
    """The longest phrase at that position of a folded text, and where it ends."""
    matches = ((pattern.match(text, position), meaning) for pattern, meaning in PHRASES)
    found = [(match, meaning) for match, meaning in matches if match]
    if not found:
        return None
    match, meaning = max(found, key=lambda pair: pair[0].end())
    return meaning(calendar, match), match.end()
