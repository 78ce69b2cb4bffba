"""Cron expressions: against croniter where no offset changes, by hand and by enumeration where one does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.cron.expression import CronExpression
from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput
from tests.cron.enumeration import Rule, enumerate_fires, wall_times

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"


def local(text: str, zone: str, *, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


def next_fires(text: str, zone: str, start: datetime, count: int) -> list[str]:
    cron, fires = CronExpression(text, zone), []
    for _ in range(count):
        start = cron.next_after(start)
        fires.append(start.isoformat())
    return fires


# Against croniter ---------------------------------------------------------------------------------------------


def _field(least: int, most: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    number = st.integers(least, most)
    spans = st.lists(number, min_size=2, max_size=2, unique=True).map(sorted)  # croniter reads ``3-3`` as every value
    plain = st.one_of(
        number.map(str),
        spans.map(lambda span: f"{span[0]}-{span[1]}"),
        st.tuples(spans, st.integers(1, 20)).map(lambda pair: f"{pair[0][0]}-{pair[0][1]}/{pair[1]}"),
        *([st.sampled_from(names)] if names else []),
    )
    return st.one_of(
        st.just("*"),
        st.integers(1, most).map(lambda step: f"*/{step}"),
        st.lists(plain, min_size=1, max_size=3).map(",".join),
    )


@st.composite
def expressions(draw: st.DrawFn) -> str:
    """At most one of the day fields is restricted: croniter joins ``*/2`` and a weekday in another way."""
    minute, hour = draw(_field(0, 59)), draw(_field(0, 23))
    month = draw(_field(1, 12, ("jan", "FEB", "Dec")))
    day = draw(st.one_of(_field(1, 28), st.just("L")))
    weekday = draw(st.one_of(_field(0, 6, ("sun", "WED", "Sat")), st.sampled_from(["1#1", "5#2", "0#3"])))
    days = draw(st.sampled_from([(day, "*"), ("*", weekday)]))
    return f"{minute} {hour} {days[0]} {month} {days[1]}"


@given(
    text=expressions(),
    start=st.datetimes(min_value=datetime(2024, 1, 1), max_value=datetime(2030, 1, 1)),  # noqa: DTZ001 - hypothesis wants it
    zone=st.sampled_from(["UTC", "Asia/Kolkata"]),
)
@settings(max_examples=150)
def test_fires_are_those_of_croniter_where_no_offset_changes(text, start, zone):
    instant = start.replace(tzinfo=ZoneInfo(zone))
    mine, other = CronExpression(text, zone), croniter(text, instant)
    for _ in range(4):
        instant = mine.next_after(instant)
        assert instant == other.get_next(datetime)


@given(second=_field(0, 59), minute=_field(0, 59), start=st.integers(0, 10**6))
@settings(max_examples=40)
def test_fires_with_seconds_are_those_of_croniter(second, minute, start):
    text, instant = f"{second} {minute} * * * *", datetime(2027, 1, 1, tzinfo=UTC) + timedelta(seconds=start)
    mine, other = CronExpression(text), croniter(text, instant, second_at_beginning=True)
    for _ in range(4):
        instant = mine.next_after(instant)
        assert instant == other.get_next(datetime)


# At the changes of an offset ----------------------------------------------------------------------------------


def test_a_fixed_time_in_the_skipped_hour_fires_at_the_end_of_the_gap():
    start = local("2027-03-27T12:00", BERLIN)
    assert next_fires("30 2 * * *", BERLIN, start, 2) == ["2027-03-28T03:00:00+02:00", "2027-03-29T02:30:00+02:00"]
    start = local("2026-10-03T12:00", LORD_HOWE)  # the gap is 30 minutes long
    assert next_fires("15 2 * * *", LORD_HOWE, start, 2) == ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"]


def test_a_fixed_time_in_the_repeated_hour_fires_at_its_first_occurrence():
    start = local("2026-10-31T12:00", NEW_YORK)
    fires = ["2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"]
    assert next_fires("30 1 * * *", NEW_YORK, start, 2) == fires
    between = local("2026-11-01T01:10", NEW_YORK, fold=1)  # after the first occurrence, before the second
    assert next_fires("30 1 * * *", NEW_YORK, between, 1) == fires[1:]


def test_a_wildcard_follows_elapsed_time():
    start = local("2026-10-25T01:40", BERLIN)
    assert next_fires("*/30 * * * *", BERLIN, start, 5) == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:00:00+01:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:00:00+01:00",
    ]
    start = local("2027-03-28T01:20", BERLIN)
    assert next_fires("*/30 * * * *", BERLIN, start, 2) == ["2027-03-28T01:30:00+01:00", "2027-03-28T03:00:00+02:00"]


def test_a_change_of_half_an_hour_skips_and_repeats_no_other_fire():
    start = local("2026-10-04T00:00", LORD_HOWE)
    assert next_fires("0 */3 * * *", LORD_HOWE, start, 2) == ["2026-10-04T03:00:00+11:00", "2026-10-04T06:00:00+11:00"]
    start = local("2026-04-05T00:50", LORD_HOWE)
    assert next_fires("45 * * * *", LORD_HOWE, start, 3) == [
        "2026-04-05T01:45:00+11:00",
        "2026-04-05T01:45:00+10:30",
        "2026-04-05T02:45:00+10:30",
    ]


def test_one_instant_fires_once_however_many_wall_times_lead_to_it():
    start = local("2027-03-28T01:00", BERLIN)
    assert next_fires("0,15,30 2,3 * * *", BERLIN, start, 3) == [
        "2027-03-28T03:00:00+02:00",
        "2027-03-28T03:15:00+02:00",
        "2027-03-28T03:30:00+02:00",
    ]


def test_the_end_of_a_gap_is_found_from_the_second_before_it():
    before = datetime(2027, 3, 28, 0, 59, 59, 500_000, tzinfo=UTC)
    assert next_fires("30 2 * * *", BERLIN, before, 1) == ["2027-03-28T03:00:00+02:00"]


def test_a_whole_day_that_a_zone_leaves_out_fires_at_its_end():
    start = local("2011-12-29T13:00", "Pacific/Apia")  # 30 December 2011 did not exist there
    assert next_fires("0 12 * * *", "Pacific/Apia", start, 2) == [
        "2011-12-31T00:00:00+14:00",
        "2011-12-31T12:00:00+14:00",
    ]


CHANGES = [  # a period around each change of the offset
    (BERLIN, "2026-03-28", "2026-03-30"),
    (BERLIN, "2026-10-24", "2026-10-26"),
    (NEW_YORK, "2026-03-07", "2026-03-09"),
    (NEW_YORK, "2026-10-31", "2026-11-02"),
    (LORD_HOWE, "2026-04-04", "2026-04-06"),
    (LORD_HOWE, "2026-10-03", "2026-10-05"),
    ("America/Havana", "2026-03-07", "2026-03-09"),  # skips midnight
    ("Africa/Casablanca", "2026-02-14", "2026-02-16"),  # summer time ends for Ramadan
]
WALLS = {(zone, first): wall_times(zone, local(first, zone), local(last, zone)) for zone, first, last in CHANGES}


@given(
    change=st.sampled_from(CHANGES),
    minutes=st.frozensets(st.integers(0, 59), min_size=1, max_size=4),
    hours=st.frozensets(st.integers(0, 4) | st.integers(0, 23), min_size=1, max_size=6),
    step=st.sampled_from([None, "minute", "hour"]),
)
@settings(max_examples=120)
def test_fires_at_a_change_are_those_of_an_enumeration(change, minutes, hours, step):
    zone, first, last = change
    texts = [",".join(map(str, sorted(minutes))), ",".join(map(str, sorted(hours)))]
    if step == "minute":
        texts[0], minutes = "*/7", frozenset(range(0, 60, 7))
    if step == "hour":
        texts[1], hours = "*/3", frozenset(range(0, 24, 3))
    rule = Rule(text=f"{texts[0]} {texts[1]} * * *", minutes=minutes, hours=hours)
    expected = list(enumerate_fires(rule, WALLS[zone, first]))
    fires = CronExpression(rule.text, zone).between(local(first, zone), local(last, zone), limit=5_000)
    assert [fire.astimezone(UTC) for fire in fires] == expected


# Ranges, windows, words and errors ----------------------------------------------------------------------------


def test_two_adjacent_ranges_share_no_fire_and_leave_none_out():
    cron = CronExpression("0 * * * *", BERLIN)
    days = [datetime(2026, 10, day, tzinfo=ZoneInfo(BERLIN)) for day in (24, 25, 26)]
    both = [cron.between(*pair) for pair in pairwise(days)]
    assert [len(fires) for fires in both] == [24, 25]
    assert both[0] + both[1] == cron.between(days[0], days[2])
    assert cron.between(days[0], days[2], limit=3) == both[0][:3]


def test_a_window_leaves_only_the_fires_in_it():
    cron = CronExpression("*/15 * * * *", BERLIN, TimeWindow.parse("08:30", "9:15"))
    start = local("2026-11-17T00:00", BERLIN)
    fires = cron.between(start, start + timedelta(days=1))
    assert [f"{fire:%H:%M}" for fire in fires] == ["08:30", "08:45", "09:00", "09:15"]
    night = CronExpression("0 */2 * * *", BERLIN, TimeWindow.parse("22:00", "02:00"))
    assert [fire.hour for fire in night.between(start, start + timedelta(days=1))] == [0, 2, 22]
    assert cron.describe() == "Every 15th minute of every hour, between 08:30 and 09:15"


def test_a_window_without_a_fire_is_refused():
    with pytest.raises(InvalidInput, match="between: wanted a window in which '0 6 \\* \\* \\*' fires"):
        CronExpression("0 6 * * *", "UTC", TimeWindow.parse("08:00", "18:00"))


def test_names_of_expressions_last_days_and_nth_weekdays():
    start = datetime(2027, 1, 15, tzinfo=UTC)
    for text, expected in {
        "@hourly": "2027-01-15T01:00",
        "@daily": "2027-01-16T00:00",
        "@midnight": "2027-01-16T00:00",
        "@weekly": "2027-01-17T00:00",
        "@Monthly": "2027-02-01T00:00",
        "@yearly": "2028-01-01T00:00",
        "@annually": "2028-01-01T00:00",
        "0 0 L 2 *": "2027-02-28T00:00",
        "0 0 LW * *": "2027-01-29T00:00",
        "0 0 * * FRI#2": "2027-02-12T00:00",
        "0 0 * * 5L": "2027-01-29T00:00",
        "0 0 29 2 *": "2028-02-29T00:00",
    }.items():
        assert CronExpression(text).next_after(start) == datetime.fromisoformat(f"{expected}+00:00"), text


def test_words():
    assert CronExpression(" 0 6  * * 1-5 ").describe() == "At 06:00 on Monday through Friday"
    assert CronExpression("@daily").describe() == "At 00:00 every day"


def test_no_fire_is_found_after_the_last_year():
    assert CronExpression("0 0 29 2 *").next_after(datetime(9997, 1, 1, tzinfo=UTC)) is None
    assert CronExpression("0 0 29 2 *", BERLIN).next_after(datetime(9997, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 25 * * *", "hour of the expression: wanted 0-23.* got '25'"),
        ("60 * * * *", "minute of the expression: wanted 0-59.* got '60'"),
        ("99 * * * * *", "second of the expression: wanted 0-59.* got '99'"),
        ("0 0 0 * *", "day-of-month of the expression: wanted 1-31, L or LW.* got '0'"),
        ("0 0 31 2 *", "day-of-month of the expression: .* got '31'"),
        ("0 0 * FOO *", "month of the expression: wanted 1-12 or JAN-DEC.* got 'FOO'"),
        ("0 0 * * 1#6", "day-of-week of the expression: .* got '1#6'"),
        ("*/0 * * * *", "minute of the expression"),
        ("* * *", "wanted 5 fields .*, got 3"),
        ("", "wanted 5 fields .*, got 0"),
        ("@reboot", "expression: wanted one of @yearly.*, got @reboot"),
        ("0 0 * * *" + " " * 300, "at most 256 characters"),
        (None, "at most 256 characters"),
    ],
)
def test_a_wrong_field_is_named(text, message):
    with pytest.raises(InvalidInput, match=message):
        CronExpression(text)


@pytest.mark.parametrize(
    "zone", ["Europe", "Mars/Olympus", "../../etc/passwd", "", "CET ", None, "/usr/share/zoneinfo/UTC"]
)
def test_an_unknown_time_zone_is_refused(zone):
    with pytest.raises(InvalidInput, match="timezone: wanted a time zone"):
        CronExpression("@daily", zone)


def test_an_instant_without_a_zone_is_refused():
    with pytest.raises(InvalidInput, match="instant: wanted a datetime with a time zone"):
        CronExpression("@daily").next_after(datetime(2027, 1, 1))  # noqa: DTZ001


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("text", ["* * * * *", "0 0 1 1 *", "59 23 31 12 *", "@hourly"])
def test_after_the_last_day_of_the_calendar_there_is_no_fire(zone, text):
    end = datetime.max.replace(tzinfo=UTC)
    expression = CronExpression(text, zone)
    assert expression.next_after(end) is None
    for hours in range(48):
        fire = expression.next_after(end - timedelta(hours=hours))
        assert fire is None or fire > end - timedelta(hours=hours)
    assert len(expression.between(end - timedelta(days=3), end)) >= (text in {"* * * * *", "@hourly"})
