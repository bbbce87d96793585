"""Time words: the reported cases with their exact instants, then what people write in English."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from retain.domain.errors import InvalidInputError
from retain.domain.time_range import TimeRange, find_time_range, load_zone, parse_instant, parse_time_range

NOW = datetime(2026, 11, 30, 10, 30, tzinfo=UTC)  # a Monday
UP_TO_NOW = NOW + timedelta(milliseconds=1)


def at(text: str) -> datetime:
    """ "2026-03-01" or "2026-03-01 07:30", in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def between(since: str, until: str) -> TimeRange:
    return TimeRange(at(since), at(until))


def day(text: str) -> TimeRange:
    return TimeRange(at(text), at(text) + timedelta(days=1))


def parse(text: str, now: datetime = NOW) -> TimeRange:
    return parse_time_range(text, now=now)


def seconds(times: TimeRange) -> list[float]:
    assert times.since is not None and times.until is not None
    return [times.since.timestamp(), times.until.timestamp()]


# The reported cases. ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["from January to March", "between January and March", "January - March", "Jan to Mar 2026", "jan–MAR 2026"],
)
def test_from_january_to_march_keeps_both_ends(text: str):
    assert seconds(parse(text)) == [1767225600, 1775001600]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("last 3 days", TimeRange(at("2026-11-27"), UP_TO_NOW)),
        ("3 days ago", day("2026-11-27")),
        ("last week", between("2026-11-23", "2026-11-30")),
        ("last month", between("2026-10-01", "2026-11-01")),
    ],
)
def test_an_expression_means_the_same_alone_and_inside_a_sentence(text: str, expected: TimeRange):
    assert parse(text) == expected
    assert find_time_range(f"notes on redis from {text}", now=NOW) == (expected, "notes on redis")


@pytest.mark.parametrize("host_zone", ["Asia/Tokyo", "Europe/Berlin", "America/Los_Angeles"])
def test_the_hosts_zone_changes_nothing(host_zone: str):
    program = (
        "from datetime import UTC, datetime\n"
        "from retain.domain.time_range import parse_instant, parse_time_range\n"
        "now = datetime(2026, 11, 30, 10, 30, tzinfo=UTC)\n"
        "for text in ('yesterday', 'since March', 'last night', 'on Friday', '2026-03-01T12:00', '3 hours ago'):\n"
        "    print(parse_time_range(text, now=now))\n"
        "print(parse_instant('2026-05-10T12:00:00'), parse_instant(1778414400))\n"
    )
    source = Path(__file__).parents[2] / "service"

    def printed(zone: str) -> str:
        environment = {**os.environ, "TZ": zone, "PYTHONPATH": str(source)}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return run.stdout

    assert printed(host_zone) == printed("UTC")


def test_yesterday_is_the_callers_yesterday_when_a_zone_is_given():
    now = datetime(2026, 3, 17, 16, 0, tzinfo=UTC)  # the 18th in Tokyo
    assert seconds(parse_time_range("yesterday", now=now, zone=ZoneInfo("Asia/Tokyo"))) == [1773673200, 1773759600]


@pytest.mark.parametrize("text", ["2026-05-10T12:00:00", "2026-05-10T12:00:00Z", "2026-05-10T14:00:00+02:00"])
def test_a_stamp_without_offset_means_utc(text: str):
    instant = parse_instant(text)
    assert instant.timestamp() == 1778414400
    assert instant.tzinfo is UTC


def test_naive_and_aware_datetimes_become_comparable():
    naive, aware = datetime(2026, 5, 10, 12), datetime(2026, 5, 10, 14, tzinfo=timezone(timedelta(hours=2)))
    assert parse_instant(naive) == parse_instant(aware) == at("2026-05-10 12:00")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("since March", TimeRange(at("2026-03-01"), UP_TO_NOW)),
        ("before 2026-02-01", TimeRange(None, datetime.fromtimestamp(1769904000, UTC))),
        ("after 2026-02-01", TimeRange(at("2026-02-02"), UP_TO_NOW)),
        ("in 2025", between("2025-01-01", "2026-01-01")),
        ("Q1 2026", between("2026-01-01", "2026-04-01")),
        ("in 2019", between("2019-01-01", "2020-01-01")),  # C078: an old chat that was filed later
    ],
)
def test_open_ended_ranges_years_and_quarters_are_read(text: str, expected: TimeRange):
    assert parse(text) == expected


def test_a_range_up_to_now_holds_the_present_millisecond_and_not_the_next():
    now = datetime(2026, 11, 30, 10, 30, 0, 123_456, tzinfo=UTC)
    until = parse("since March", now).until
    assert until == datetime(2026, 11, 30, 10, 30, 0, 124_000, tzinfo=UTC)


def test_last_tuesday_is_strictly_before_today():
    assert parse("last Tuesday") == day("2026-11-24")
    assert parse("last Tuesday", at("2026-11-24 09:00")) == day("2026-11-17")


def test_on_friday_is_the_latest_friday_that_has_begun():
    assert parse("on Friday") == day("2026-11-27")
    assert parse("on Friday", at("2026-11-27 09:00")) == day("2026-11-27")


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-29",
        "February 30",
        "31 April 2026",
        "Feb 29, 2026",
        "2026-13-01",
        "2026-W54",
        "March 7-5",
        "2026-03-01T25:00",
    ],
)
def test_an_impossible_date_is_an_error_that_says_so(text: str):
    with pytest.raises(InvalidInputError, match=r"no such date or time as ") as caught:
        parse_time_range(text, now=NOW, field="occurred_at")
    assert caught.value.field == "occurred_at"
    assert "occurred_at" in str(caught.value)
    with pytest.raises(InvalidInputError):
        find_time_range(f"what broke on {text}?", now=NOW)


def test_leap_days_and_month_ends():
    assert parse("2024-02-29") == day("2024-02-29")
    assert parse("Feb 29") == day("2024-02-29")
    assert parse("1 month ago", at("2026-03-31 12:00")) == between("2026-02-01", "2026-03-01")
    assert parse("1 year ago", at("2028-02-29 12:00")) == between("2027-01-01", "2028-01-01")
    assert parse("last 1 month", at("2026-03-31 12:00")).since == at("2026-02-28")


def test_hours_ago_is_a_window_around_that_moment():
    times = parse("3 hours ago")
    assert times == between("2026-11-30 07:00", "2026-11-30 08:00")
    assert parse("an hour ago") == between("2026-11-30 09:00", "2026-11-30 10:00")
    assert parse("5 minutes ago") == TimeRange(at("2026-11-30 10:20"), at("2026-11-30 10:30"))
    assert parse("2 minutes ago") == TimeRange(at("2026-11-30 10:23"), UP_TO_NOW)


def test_last_night_is_ten_in_the_evening_to_five():
    assert parse("last night") == between("2026-11-29 22:00", "2026-11-30 05:00")


@pytest.mark.parametrize("text", ["2026-13-01", "2026-03-01T25:00", "whenever", "", "   ", "\x00", "recently", "all"])
def test_what_is_not_understood_names_the_field_and_the_text(text: str):
    with pytest.raises(InvalidInputError) as caught:
        parse_time_range(text, now=NOW, field="as_of")
    assert caught.value.field == "as_of"
    assert repr(text) in str(caught.value)


def test_the_error_shows_what_would_work():
    with pytest.raises(InvalidInputError, match="last 3 days") as caught:
        parse("03/04/2026")
    assert "2026-03-01" in str(caught.value)


@pytest.mark.parametrize(
    "value", [1778414400, 1778414400000, 1778414400.0, "1778414400", "1778414400000", " 1778414400 "]
)
def test_seconds_and_milliseconds_are_told_apart(value: str | float):
    assert parse_instant(value) == datetime.fromtimestamp(1778414400, UTC)


# Instants and zones. ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01", "2026-03-01"),
        ("2026-03-01 14:30", "2026-03-01 14:30"),
        ("2026-03-01t14:30:00z", "2026-03-01 14:30"),
        ("20260301T143000Z", "2026-03-01 14:30"),
        ("2026-03-01T14:30:00.250+00:00", "2026-03-01 14:30:00.250"),
        ("2026-03-01T00:30:00+05:30", "2026-02-28 19:00"),
    ],
)
def test_iso_stamps_are_read(text: str, expected: str):
    assert parse_instant(text) == at(expected)


def test_a_date_is_midnight_in_the_given_zone():
    assert parse_instant("2026-03-01", zone=ZoneInfo("Asia/Tokyo")) == at("2026-02-28 15:00")


@pytest.mark.parametrize(
    "value",
    [
        True, False, None, [],
        float("nan"), float("inf"), 1e30, -1e30, 10**400, pytest.param(10**5000, id="huge"), 1778414400000000,
        "9" * 400, "2026", "20260301", "202603", "yesterday", "", "2026-02-30", "2026-13-01", "2026-03-01T25:00",
        "2026-03-01x12:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-05:00", "0000-01-01", "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_instant_is_refused_with_its_field(value: object):
    with pytest.raises(InvalidInputError) as caught:
        parse_instant(value, field="created_at")  # pyright: ignore[reportArgumentType]
    assert caught.value.field == "created_at"
    assert str(caught.value).startswith("created_at: ")


def test_microseconds_since_1970_are_refused_and_never_the_year_58326():
    with pytest.raises(InvalidInputError, match="seconds or milliseconds since 1970"):
        parse_instant(1778414400000000)


@pytest.mark.parametrize("name", ["Europe/Berlin", "UTC", "America/Argentina/Buenos_Aires", "z"])
def test_zones_are_loaded_by_name(name: str):
    assert NOW.astimezone(load_zone(name)) == NOW


@pytest.mark.parametrize(("name", "hours"), [("+02:00", 2), ("-0530", -5.5), ("+14", 14)])
def test_zones_are_loaded_by_offset(name: str, hours: float):
    assert load_zone(name).utcoffset(NOW) == timedelta(hours=hours)


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "../etc/passwd", "Europe", "localtime", "\x00", "+25:00", "a" * 300]
)
def test_an_unknown_zone_is_an_error(name: str):
    with pytest.raises(InvalidInputError, match="no time zone") as caught:
        load_zone(name)
    assert caught.value.field == "timezone"


def test_a_naive_now_is_refused():
    with pytest.raises(InvalidInputError):
        parse("today", datetime(2026, 11, 30))


# What people write. -------------------------------------------------------------------------------------------

ENGLISH = {
    "today": day("2026-11-30"),
    "yesterday": day("2026-11-29"),
    "the day before yesterday": day("2026-11-28"),
    "this morning": between("2026-11-30 05:00", "2026-11-30 12:00"),
    "yesterday evening": between("2026-11-29 17:00", "2026-11-29 22:00"),
    "last Friday night": between("2026-11-27 22:00", "2026-11-28 05:00"),
    "this week": between("2026-11-30", "2026-12-07"),
    "previous week": between("2026-11-23", "2026-11-30"),
    "past week": TimeRange(at("2026-11-23"), UP_TO_NOW),
    "in the last week": TimeRange(at("2026-11-23"), UP_TO_NOW),
    "the week before last": between("2026-11-16", "2026-11-23"),
    "this month": between("2026-11-01", "2026-12-01"),
    "last quarter": between("2026-07-01", "2026-10-01"),
    "last year": between("2025-01-01", "2026-01-01"),
    "last weekend": between("2026-11-28", "2026-11-30"),
    "this weekend": between("2026-11-28", "2026-11-30"),
    "past 2 weeks": TimeRange(at("2026-11-16"), UP_TO_NOW),
    "the last two months": TimeRange(at("2026-09-30"), UP_TO_NOW),
    "last few days": TimeRange(at("2026-11-25"), UP_TO_NOW),
    "last 7d": TimeRange(at("2026-11-23"), UP_TO_NOW),
    "in the last hour": TimeRange(at("2026-11-30 09:30"), UP_TO_NOW),
    "within the last 24 hours": TimeRange(at("2026-11-29 10:30"), UP_TO_NOW),
    "a couple of days ago": day("2026-11-28"),
    "a few days ago": between("2026-11-25", "2026-11-28"),
    "two weeks ago": between("2026-11-16", "2026-11-23"),
    "twelve months ago": between("2025-11-01", "2025-12-01"),
    "this Monday": day("2026-11-30"),
    "this Friday": day("2026-12-04"),
    "Friday of last week": day("2026-11-27"),
    "two weeks ago on Friday": day("2026-11-20"),
    "last March": between("2026-03-01", "2026-04-01"),
    "last November": between("2025-11-01", "2025-12-01"),
    "in November": between("2026-11-01", "2026-12-01"),
    "in December": between("2025-12-01", "2026-01-01"),
    "March 2025": between("2025-03-01", "2025-04-01"),
    "March last year": between("2025-03-01", "2025-04-01"),
    "2026-03": between("2026-03-01", "2026-04-01"),
    "early March": between("2026-03-01", "2026-03-11"),
    "mid-March 2025": between("2025-03-11", "2025-03-21"),
    "late February 2024": between("2024-02-21", "2024-03-01"),
    "the end of last month": between("2026-10-21", "2026-11-01"),
    "the first week of March": between("2026-03-01", "2026-03-08"),
    "the last week of February": between("2026-02-22", "2026-03-01"),
    "March 5": day("2026-03-05"),
    "December 5": day("2025-12-05"),
    "5 March 2026": day("2026-03-05"),
    "March 5th, 2026": day("2026-03-05"),
    "Mar. 5, 2026": day("2026-03-05"),
    "the 5th of March 2025": day("2025-03-05"),
    "March 5-7, 2026": between("2026-03-05", "2026-03-08"),
    "from the 5th to the 7th of March": between("2026-03-05", "2026-03-08"),
    "between June 5 and 7": between("2026-06-05", "2026-06-08"),
    "between 5 and 7 June 2025": between("2025-06-05", "2025-06-08"),
    "2026/03/05": day("2026-03-05"),
    "2026-W12": between("2026-03-16", "2026-03-23"),
    "2026-03-05T14:30": between("2026-03-05 14:30", "2026-03-05 14:31"),
    "2026-03-05T14:30:00+02:00": between("2026-03-05 12:30:00", "2026-03-05 12:30:01"),
    "first quarter of 2026": between("2026-01-01", "2026-04-01"),
    "second half of 2025": between("2025-07-01", "2026-01-01"),
    "Q4": between("2026-10-01", "2027-01-01"),
    "summer 2025": between("2025-06-01", "2025-09-01"),
    "last winter": between("2025-12-01", "2026-03-01"),
    "yesterday at 3pm": between("2026-11-29 14:30", "2026-11-29 15:30"),
    "3:30 p.m. yesterday": between("2026-11-29 15:00", "2026-11-29 16:00"),
    "since 9am": TimeRange(at("2026-11-30 09:00"), UP_TO_NOW),
    "since yesterday at 17:30": TimeRange(at("2026-11-29 17:30"), UP_TO_NOW),
    "between 9am and noon yesterday": between("2026-11-29 09:00", "2026-11-29 12:00"),
    "from 9am to 5pm": between("2026-11-30 09:00", "2026-11-30 17:00"),
    "since last week": TimeRange(at("2026-11-23"), UP_TO_NOW),
    "since March until May": between("2026-03-01", "2026-06-01"),
    "after March and before June": between("2026-04-01", "2026-06-01"),
    "from March onwards": TimeRange(at("2026-03-01"), UP_TO_NOW),
    "until March": TimeRange(None, at("2026-04-01")),
    "by the end of March": TimeRange(None, at("2026-04-01")),
    "before last week": TimeRange(None, at("2026-11-23")),
    "after today": TimeRange(at("2026-12-01"), None),
    "tomorrow": day("2026-12-01"),
    "next week": between("2026-12-07", "2026-12-14"),
    "from last week until now": TimeRange(at("2026-11-23"), UP_TO_NOW),
    "from Monday to today": day("2026-11-30"),
    "2026-03-01 - 2026-03-05": between("2026-03-01", "2026-03-06"),
    "2026-03-01..2026-03-05": between("2026-03-01", "2026-03-06"),
    "between 2024 and 2025": between("2024-01-01", "2026-01-01"),
    "from November 2025 to March": between("2025-11-01", "2026-04-01"),
    "from March 2010 through May": between("2010-03-01", "2010-06-01"),
    "from September to March 2026": between("2025-09-01", "2026-04-01"),
    "9999-12-31": TimeRange(at("9999-12-31"), datetime.max.replace(tzinfo=UTC)),
}


@pytest.mark.parametrize(("text", "expected"), ENGLISH.items())
def test_what_people_write_is_read(text: str, expected: TimeRange):
    assert parse(text) == expected
    assert parse(f"  {text.upper()}. ") == expected


def test_months_that_cross_new_year_end_in_the_latest_year_that_reached_the_second():
    assert parse("from March to January") == between("2025-03-01", "2026-02-01")
    assert parse("from December to February") == between("2025-12-01", "2026-03-01")


def test_months_in_order_are_of_one_year_even_if_the_last_is_still_to_come():
    assert parse("from January to March", at("2026-02-15")) == between("2026-01-01", "2026-04-01")


def test_explicit_dates_in_the_wrong_order_are_an_error_that_names_both():
    with pytest.raises(InvalidInputError, match=r"'2026-03-05' is not before '2026-03-01'"):
        parse("from 2026-03-05 to 2026-03-01")
    with pytest.raises(InvalidInputError, match=r"'March 2026' is not before 'January 2026'"):
        find_time_range("deploys from March 2026 to January 2026", now=NOW)


@pytest.mark.parametrize("text", ["last 999999 days", "last 999999 years", "999999 months ago"])
def test_beyond_the_calendar_is_an_error(text: str):
    with pytest.raises(InvalidInputError, match="outside the years"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "1/2", "03/04/2026", "older than 3 days", "3pm UTC", "5", "2025-2", "morning", "the 5th", "version 2026",
        "in 3 days", "last", "ago", "since", "from March to", "between March", "half an hour ago",
        "the first Monday of March",
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_unknown_is_refused(text: str):
    with pytest.raises(InvalidInputError):
        parse(text)


# Zones and clocks that change. --------------------------------------------------------------------------------


def test_days_keep_their_wall_clock_over_a_change_to_summer_time():
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 30, 8, 0, tzinfo=UTC)
    assert parse_time_range("yesterday", now=now, zone=berlin) == between("2026-03-28 23:00", "2026-03-29 22:00")
    assert parse_time_range("last 3 days", now=now, zone=berlin).since == at("2026-03-26 23:00")
    assert parse_time_range("last 24 hours", now=now, zone=berlin).since == now - timedelta(hours=24)


def test_the_day_on_which_clocks_go_back_has_25_hours():
    times = parse_time_range("2026-11-01", now=NOW, zone=ZoneInfo("America/New_York"))
    assert times == between("2026-11-01 04:00", "2026-11-02 05:00")


def test_a_stamp_keeps_its_own_offset_whatever_the_zone():
    times = parse_time_range("since 2026-03-05T14:30:00Z", now=NOW, zone=ZoneInfo("Asia/Tokyo"))
    assert times.since == at("2026-03-05 14:30")


def test_a_day_that_a_zone_skipped_is_an_error():
    with pytest.raises(InvalidInputError, match="no such date"):
        parse_time_range("2011-12-30", now=NOW, zone=ZoneInfo("Pacific/Apia"))


# Inside a sentence. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "expression", "rest"),
    [
        ("what happened yesterday?", "yesterday", "what happened?"),
        ("yesterday's standup notes", "yesterday", "standup notes"),
        ("the last 2 weeks’ notes on redis", "the last 2 weeks", "notes on redis"),
        ("Last week, what did we say about Redis?", "last week", "what did we say about Redis?"),
        ("notes (from last week) on redis", "last week", "notes on redis"),
        ("what we decided on Friday about X", "Friday", "what we decided about X"),
        ("In March we moved to Hetzner", "March", "we moved to Hetzner"),
        ("what did we decide since 2026-01-01 about the db", "since 2026-01-01", "what did we decide about the db"),
        ("deploys between January and March 2026", "January to March 2026", "deploys"),
        ("January to March outages", "January to March", "outages"),
        ("summary of last month", "last month", "summary"),
        ("an hour ago we broke it", "an hour ago", "we broke it"),
        ("what I said in the summer of 2025", "summer 2025", "what I said"),
        ("the fix of 2025-12-24", "2025-12-24", "the fix"),
        ("redis in 2025", "2025", "redis"),
        ("the 3 May 2026 outage", "3 May 2026", "outage"),
        ("in may", "May", ""),
        ("last 3 days", "last 3 days", ""),
    ],
)  # fmt: skip
def test_an_expression_is_cut_out_of_its_sentence(sentence: str, expression: str, rest: str):
    assert find_time_range(sentence, now=NOW) == (parse(expression), rest)


@pytest.mark.parametrize(
    "sentence",
    [
        "you may retry twice", "this may fail", "5 may fail", "the 5th may fail", "too early may be bad",
        "in the end may be", "the troops march on", "they march 3 steps", "march to victory", "wait a second",
        "the last second", "second half", "he sat in the sun", "deploy on sun hardware", "fall through",
        "in the fall", "this fall through case", "in spring boot", "this spring boot app", "the last straw",
        "last time we met", "last name", "the last 3 commits", "at last", "the last minute change",
        "at the last minute", "last-minute fix", "the last day of school", "last week of testing",
        "the last 3 days of school", "version 2026", "issue 2025", "port 2025", "listening on 2025",
        "in 2025 lines", "between 2000 and 2048 tokens", "from 8080 to 9090", "error 500", "1/2 of users",
        "ratio 16:9", "the job at 3pm", "the cron runs at 02:00", "open from 9am to 5pm", "what did April say",
        "written by April", "Black Friday", "Friday", "monday.com", "on friday.md", "logs/2026-03-01.log",
        "2026-99-99.log", "CVE-2026-45-99", "http://x/2026-01-01", "dec 10 to hex", "h1 heading",
        "first quarter results", "previous version", "past experience", "this time", "from now on use tabs",
        "by now you know", "the week before last release", "day after day", "ſat", "", " ",
    ],
)  # fmt: skip
def test_words_that_only_look_like_time_are_left_alone(sentence: str):
    assert find_time_range(sentence, now=NOW) is None


@pytest.mark.parametrize(
    "sentence",
    [
        "the deploy is tomorrow", "plans for next week", "tomorrow at 3pm", "the roadmap for March 2027",
        "in 2027", "this Friday", "what must be done before next week", "until tomorrow", "valid until 9999-12-31",
    ],
)  # fmt: skip
def test_what_leaves_out_nothing_of_the_past_is_left_alone(sentence: str):
    assert find_time_range(sentence, now=NOW) is None


# The page that explains it. -----------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "time.md").read_text(encoding="utf-8")


def written(heading: str) -> list[str]:
    """The expressions in the first column of the tables under that heading."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [expression for row in rows for expression in re.findall("`([^`]+)`", row)]


@pytest.mark.parametrize("text", written("Ranges"))
def test_every_range_in_the_docs_is_read(text: str):
    assert in_order(parse(text))


@pytest.mark.parametrize("text", written("Instants"))
def test_every_instant_in_the_docs_is_read(text: str):
    value = text.strip('"') if text.startswith('"') or not text.isdecimal() else int(text)
    assert parse_instant(value).tzinfo is UTC


@pytest.mark.parametrize("text", written("Errors"))
def test_every_error_in_the_docs_is_an_error(text: str):
    with pytest.raises(InvalidInputError):
        parse(text)


# For every text. ----------------------------------------------------------------------------------------------

VOCABULARY = """
from to between and since before after until by in on at of the last this next past ago a few 3 12 999999
day days week weeks month year hours weekend night morning yesterday today now noon 3pm 15:30 5th 29 31
January March may Friday sat spring Q1 h2 early end first 2024 2025 2026 2100 , - .. ’s ( ) \ud800 İ
2026-03-01 2026-02-29 0001-01-01 9999-12-31 2026-03 2026-W12 2026-03-01T12:00:00+02:00
"""
WORDS = VOCABULARY.split()
ZONES = [UTC, ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin"), ZoneInfo("Pacific/Apia")]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join),
    st.lists(st.sampled_from([*WORDS, " "]), max_size=9).map("".join),
    st.text(max_size=40),
)
moments = st.datetimes(datetime(1980, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))


def in_order(times: TimeRange) -> bool:
    bounds = [bound for bound in (times.since, times.until) if bound is not None]
    return all(bound.tzinfo is UTC for bound in bounds) and all(a < b for a, b in pairwise(bounds))


@settings(max_examples=300, deadline=None)
@given(texts, moments, st.sampled_from(ZONES))
@example("last 3 days", datetime(2026, 3, 29, 0, 0, tzinfo=UTC), UTC)
@example("3pm " * 400, NOW, UTC)
@example("friday of last week at 3pm on " * 300, NOW, UTC)
def test_any_text_gives_a_range_in_order_or_an_invalid_input_error(text: str, now: datetime, zone: ZoneInfo):
    try:
        assert in_order(parse_time_range(text, now=now, zone=zone))
    except InvalidInputError as error:
        assert error.field == "time"
    try:
        found = find_time_range(text, now=now, zone=zone)
    except InvalidInputError as error:
        assert error.field == "time"
    else:
        assert found is None or in_order(found[0])


@settings(max_examples=100, deadline=None)
@given(moments, st.sampled_from(sorted(ENGLISH)), st.sampled_from(ZONES), st.sampled_from(["redis", "the API", "É"]))
def test_a_sentence_with_an_expression_means_what_the_expression_means(
    now: datetime, text: str, zone: ZoneInfo, topic: str
):
    led = text.split()[0] in {"in", "within", "since", "until", "by", "before", "after", "between", "from"}
    sentence = f"notes on {topic} {text}" if led else f"notes on {topic} from {text}"
    try:
        times = parse_time_range(text, now=now, zone=zone)
    except InvalidInputError:
        with pytest.raises(InvalidInputError):
            find_time_range(sentence, now=now, zone=zone)
        return
    says_something_of_the_past = (times.since or times.until or now) <= now
    if says_something_of_the_past and text != "from 9am to 5pm":  # any day's hours, unless one is named
        assert find_time_range(sentence, now=now, zone=zone) == (times, f"notes on {topic}")


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.datetimes()))
def test_any_value_is_an_aware_utc_instant_or_an_invalid_input_error(value: str | float | datetime):
    try:
        assert parse_instant(value).tzinfo is UTC
    except InvalidInputError as error:
        assert error.field == "time"


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))
def test_an_instant_survives_being_written_and_read(moment: datetime):
    assert parse_instant(moment.isoformat()) == moment
    assert parse_instant(moment.isoformat().replace("+00:00", "Z")) == moment


@given(st.text())
def test_any_zone_name_is_a_zone_or_an_invalid_input_error(name: str):
    try:
        assert load_zone(name).utcoffset(NOW) is not None
    except InvalidInputError as error:
        assert error.field == "timezone"
