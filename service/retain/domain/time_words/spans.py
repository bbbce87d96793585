"""What a time word can mean, and the calendar arithmetic behind it.

Days begin at midnight in the reader's zone, weeks on Monday. All spans are aware UTC.
"""

from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from enum import Enum

MILLISECOND = timedelta(milliseconds=1)  # what the store keeps of an instant
_DAYS = {"day": 1, "week": 7}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# Occurrences looked at on either side of a moment. Eight years: the longest gap between two leap days.
_REACH = {"year": 8, "month": 2, "week": 2, "day": 2}


class NoSuchTimeError(Exception):
    """Written like a date or time, but the calendar doesn't have it; the argument is the text."""


class Standing(Enum):
    """What a mention needs around it before a sentence is taken to speak of time."""

    FREE = "nothing: it can only be a time"
    IN = "a word like 'in' or 'since': months, years"
    ON = "a word like 'on' or 'since': weekdays"
    CLOCK = "'since', or a day: 'the job at 3pm' is every day's"
    DOUBTFUL = "any such word, as it is an everyday word too: 'may', 'march'"
    NEVER = "read only where a time is asked for: 'spring', 'sat'"
    PART = "always something to be part of: 'morning', 'early', '5th'"


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open [start, end). A clock time has start == end; alone it reaches `before` and `after`."""

    start: datetime
    end: datetime
    before: timedelta = timedelta(0)
    after: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Mention:
    """What one phrase can mean.

    `unit` is what it covers, when something smaller can be named inside it; `cycle` is the unit that would
    make it definite, empty when it is. `around(moment)` gives its occurrences near that moment, in order;
    none when there is no such date.
    """

    text: str
    unit: str
    cycle: str
    around: Callable[[datetime], list[Span]]
    standing: Standing = Standing.FREE

    def latest(self, by: datetime) -> Span:
        """The last occurrence that has begun by that moment, or the only one."""
        spans = self._occurrences(by)
        return next((span for span in reversed(spans) if span.start <= by), spans[0])

    def first(self, since: datetime) -> Span:
        """The first occurrence that begins at that moment or later, or the only one."""
        spans = self._occurrences(since)
        return next((span for span in spans if span.start >= since), spans[-1])

    def belongs_to(self, whole: "Mention") -> bool:
        """Whether `whole` is what would make this definite."""
        return bool(self.cycle) and self.cycle == whole.unit

    def inside(self, whole: "Mention") -> "Mention":
        """The occurrence within each of `whole`: "March" inside "last year"."""

        def around(moment: datetime) -> list[Span]:
            return [
                span
                for outer in whole.around(moment)
                for span in self.around(outer.start)
                if outer.start <= span.start < outer.end
            ]

        return Mention(f"{self.text} {whole.text}", self.unit, whole.cycle, around)

    def _occurrences(self, moment: datetime) -> list[Span]:
        if spans := self.around(moment):
            return spans
        raise NoSuchTimeError(self.text)


class Calendar:
    """Wall-clock arithmetic in one zone, seen from one moment; `OverflowError` beyond years 1..9999."""

    def __init__(self, now: datetime, zone: tzinfo) -> None:
        self.now = now.astimezone(UTC)
        self.zone = zone
        self.today = self.local_day(self.now)
        # Ranges that run "to now" hold what is stored in this very millisecond.
        self.end_of_now = self.now.replace(microsecond=self.now.microsecond // 1000 * 1000) + MILLISECOND

    def local_day(self, moment: datetime) -> date:
        """The day on the wall calendar at that moment."""
        return moment.astimezone(self.zone).date()

    def at(self, day: date, hours: int = 0, minutes: int = 0) -> datetime:
        """The instant at which the wall clock shows that time; hours may run past 24 into later days."""
        try:
            wall = datetime.combine(day, time()) + timedelta(hours=hours, minutes=minutes)
            return wall.replace(tzinfo=self.zone).astimezone(UTC)
        except OverflowError:  # 9999-12-31 is a common stand-in for "never": it must have an end
            return (datetime.max if day.year > MINYEAR else datetime.min).replace(tzinfo=UTC)

    def days(self, first: date, count: int = 1) -> Span:
        """That many whole days."""
        return Span(self.at(first), self.at(first, 24 * count))

    def period(self, unit: str, day: date, offset: int = 0, count: int = 1) -> Span:
        """The `unit` that holds `day`, moved by `offset` units, `count` units long."""
        start = shift(unit, floor(unit, day), offset)
        return Span(self.at(start), self.at(shift(unit, start, count)))

    def every(self, cycle: str, make: Callable[[date], Span | None]) -> Callable[[datetime], list[Span]]:
        """`Mention.around` for what comes once a `cycle`; `make` gets the first day of each."""

        def around(moment: datetime) -> list[Span]:
            first = floor(cycle, self.local_day(moment))
            starts = (shift(cycle, first, n) for n in range(-_REACH[cycle], _REACH[cycle] + 1))
            return [span for span in map(make, starts) if span is not None]

        return around

    def pair(self, first: Mention, second: Mention) -> tuple[Span, Span]:
        """The two ends of a range. An end without its year (week, day) takes it from the other end.

        With neither given it is the latest such range that has begun; one that crosses into another year
        must have reached its last part too.
        """
        if not second.cycle:
            end = second.latest(self.now)
            return first.latest(max(end.start, min(end.end - MILLISECOND, self.now))), end
        start = first.latest(self.now)
        end = second.first(start.start)
        if first.cycle and end.start > self.now and not self._same(first.cycle, start, end):
            start = first.latest(start.start - MILLISECOND)
            end = second.first(start.start)
        return start, end

    def _same(self, cycle: str, one: Span, other: Span) -> bool:
        return floor(cycle, self.local_day(one.start)) == floor(cycle, self.local_day(other.start))


def floor(unit: str, day: date) -> date:
    """The first day of the unit that holds `day`."""
    if unit in _DAYS:
        return day - timedelta(days=day.weekday() if unit == "week" else 0)
    return date(day.year, day.month - (day.month - 1) % _MONTHS[unit], 1)


def shift(unit: str, day: date, count: int) -> date:
    """`day` moved by that many units; a day that the target month lacks becomes its last."""
    if unit in _DAYS:
        return day + timedelta(days=count * _DAYS[unit])
    year, month = divmod(day.year * 12 + day.month - 1 + count * _MONTHS[unit], 12)
    if not MINYEAR <= year <= MAXYEAR:
        raise OverflowError("year out of range")
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
