"""Instants are exact microseconds, and clocks never go back."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import (
    DAY,
    SECOND,
    ManualClock,
    SystemClock,
    from_datetime,
    from_timedelta,
    monotonic,
    processor_time,
    to_datetime,
    to_timedelta,
)

AWARE = st.datetimes(timezones=st.timezones())


def test_the_system_clock_is_the_hosts():
    before, now, after = time.time_ns() // 1000, SystemClock().now(), time.time_ns() // 1000
    assert before <= now <= after


def test_the_system_clock_is_held_when_the_host_steps_back(monkeypatch):
    instants = iter([5_000_000, 3_000_000, 4_999_000, 6_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(instants))
    clock = SystemClock()
    assert [clock.now() for _ in range(4)] == [5_000, 5_000, 5_000, 6_000]


def test_the_system_clock_follows_a_host_that_steps_back_by_more_than_an_hour(monkeypatch):
    """The clock was a year ahead, and was corrected: a running process must not stay in the future."""
    hour = 3_600_000_000
    instants = iter([(9 * hour) * 1000, (8 * hour) * 1000, (8 * hour - 1) * 1000, (8 * hour) * 1000])
    monkeypatch.setattr(time, "time_ns", lambda: next(instants))
    clock = SystemClock()
    assert [clock.now() for _ in range(4)] == [9 * hour, 9 * hour, 8 * hour - 1, 8 * hour]


def test_the_system_clock_never_goes_back_between_threads():
    clock = SystemClock()
    seen: list[list[int]] = [[] for _ in range(4)]

    def read(own: list[int]) -> None:
        own.extend(clock.now() for _ in range(2000))

    threads = [threading.Thread(target=read, args=(own,)) for own in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(own == sorted(own) for own in seen)


def test_a_manual_clock_moves_only_when_told_to():
    clock = ManualClock(start=10)
    assert (clock.now(), clock.now()) == (10, 10)
    assert clock.advance(5) == clock.now() == 15
    assert clock.advance(timedelta(seconds=1)) == SECOND + 15


def test_a_manual_clock_starts_in_2027():
    assert to_datetime(ManualClock().now()) == datetime(2027, 1, 15, 8, tzinfo=UTC)


@given(AWARE)
def test_a_datetime_comes_back_exactly(instant: datetime):
    assert to_datetime(from_datetime(instant)) == instant.astimezone(UTC)


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_an_instant_comes_back_exactly(instant: int):
    assert from_datetime(to_datetime(instant)) == instant


@given(st.integers(-(10**9) * DAY, 10**9 * DAY // 2))
def test_a_length_comes_back_exactly(length: int):
    try:
        assert from_timedelta(to_timedelta(length)) == length
    except OverflowError:
        assert abs(length) > 999_999_999 * DAY


def test_microseconds_are_not_lost_in_a_float():
    assert from_datetime(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 253_402_300_799_999_999
    assert from_timedelta(timedelta(days=36_600, microseconds=1)) == 36_600 * DAY + 1


def test_the_zone_does_not_matter():
    east = datetime(2027, 1, 15, 10, tzinfo=timezone(timedelta(hours=2)))
    assert from_datetime(east) == from_datetime(datetime(2027, 1, 15, 8, tzinfo=UTC))


def test_a_datetime_without_a_zone_is_no_instant():
    with pytest.raises(TypeError):
        from_datetime(datetime(2027, 1, 15))  # noqa: DTZ001 - the point


def test_monotonic_seconds_do_not_go_back():
    first = monotonic()
    assert monotonic() >= first


def test_the_processor_time_of_a_process_is_what_it_says_itself():
    before = time.process_time()
    read = processor_time(os.getpid())
    assert before <= read <= time.process_time()
    assert processor_time(2**22 + 1) == 0.0  # larger than any process id of Linux


def test_an_instant_behind_the_last_datetime_is_shown_as_the_last_one():
    assert to_datetime(2**62) == datetime.max.replace(tzinfo=UTC)
