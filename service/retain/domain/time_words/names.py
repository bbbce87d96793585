"""The words themselves: names of stretches of time, units and numbers, as data."""

from dataclasses import dataclass, replace
from datetime import timedelta

from retain.domain.time_words.spans import Standing


@dataclass(frozen=True, slots=True)
class Name:
    """A named stretch of a cycle: offset and length in months of a year, days of a week, hours of a day."""

    cycle: str
    unit: str
    offset: int
    length: int
    standing: Standing


def _names(words: str, first: Name, step: int = 1) -> dict[str, Name]:
    """Consecutive names, each `step` after the one before; "a|b" are two words for one, "_" is a blank."""
    return {
        word.replace("_", " "): replace(first, offset=first.offset + n * step)
        for n, synonyms in enumerate(words.split())
        for word in synonyms.split("|")
    }


DAY_PARTS = {  # hours; "last night" is 22:00 to 05:00
    "morning": Name("day", "", 5, 7, Standing.PART),
    "afternoon": Name("day", "", 12, 5, Standing.PART),
    "evening": Name("day", "", 17, 5, Standing.PART),
    "night": Name("day", "", 22, 7, Standing.PART),
}
_MONTHS = "january february march april may june july august september october november december"
NAMES = {
    **_names(_MONTHS, Name("year", "month", 0, 1, Standing.IN)),
    **_names("jan feb mar apr may jun jul aug sep|sept oct nov dec", Name("year", "month", 0, 1, Standing.IN)),
    **_names("q1 q2 q3 q4", Name("year", "quarter", 0, 3, Standing.IN), 3),
    **_names(
        "first_quarter second_quarter third_quarter fourth_quarter",
        Name("year", "quarter", 0, 3, Standing.NEVER),
        3,
    ),
    **_names("h1|first_half h2|second_half", Name("year", "", 0, 6, Standing.NEVER), 6),
    # Meteorological seasons of the northern half; a winter belongs to the year in which it begins.
    **_names("spring summer autumn|fall winter", Name("year", "season", 2, 3, Standing.NEVER), 3),
    **_names("monday tuesday wednesday thursday friday saturday sunday", Name("week", "day", 0, 1, Standing.ON)),
    **_names("mon tue|tues wed thu|thur|thurs fri sat sun", Name("week", "day", 0, 1, Standing.NEVER)),
    "weekend": Name("week", "", 5, 2, Standing.ON),
    **DAY_PARTS,
}
_DOUBTFUL = {"may", "march", "mar"}
NAMES.update({word: replace(NAMES[word], standing=Standing.DOUBTFUL) for word in _DOUBTFUL})
EVERYDAY = _DOUBTFUL | {"spring", "fall"}  # "this may fail", "this spring bean"
CLEAR_MONTHS = set(_MONTHS.split()) - _DOUBTFUL

# First and last day of the part; counted from the end when negative.
MONTH_PARTS = {
    **dict.fromkeys(("early", "start", "beginning"), (1, 10)),
    **dict.fromkeys(("mid", "middle"), (11, 20)),
    **dict.fromkeys(("late", "end"), (21, 31)),
    "first week": (1, 7),
    "second week": (8, 14),
    "third week": (15, 21),
    "fourth week": (22, 28),
    "last week": (-7, -1),
}
DAY_WORDS = {
    "day before yesterday": -2,
    "yesterday": -1,
    "today": 0,
    "tomorrow": 1,
    "day after tomorrow": 2,
}
UNITS = {
    word: unit
    for unit, words in {
        "second": "second seconds sec secs s",
        "minute": "minute minutes min mins",
        "hour": "hour hours hr hrs h",
        "day": "day days d",
        "week": "week weeks wk wks w",
        "month": "month months mo",
        "quarter": "quarter quarters",
        "year": "year years yr yrs y",
    }.items()
    for word in words.split()
}
CLOCK = {"second": timedelta(seconds=1), "minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
# "5 minutes ago" is said loosely: how far it reaches to either side. A spoken "3pm" reaches like hours.
SLACK = {"second": timedelta(seconds=30), "minute": timedelta(minutes=5), "hour": timedelta(minutes=30)}
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"
COUNTS = {  # the lowest and highest number that the word may stand for
    **{word: (n, n) for n, word in enumerate(_NUMBERS.split(), start=1)},
    **dict.fromkeys(("a", "an"), (1, 1)),
    **dict.fromkeys(("couple", "a couple", "couple of", "a couple of"), (2, 2)),
    **dict.fromkeys(("few", "a few", "several"), (3, 5)),
}
# A number before one of these is an amount, not a year: "between 2000 and 2048 tokens".
AMOUNTS = (
    "tokens|bytes|bits|[kmgt]i?b|px|ms|seconds|minutes|hours|days|times|requests|calls|items|rows|lines|records|"
    "users|files|messages|entries|errors|retries|tests|steps|words|chars|characters|documents|memories|vectors|"
    "dimensions|points|threads|connections|iterations|samples|jobs"
)
