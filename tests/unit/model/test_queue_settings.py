"""Pause, concurrency and the rate bucket, which counts in millionths of jobs."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.queue_settings import Bucket, OnExhausted, QueueSettings

NOW = 1_800_000_000 * SECOND
RATES = st.floats(0.001, 10_000) | st.integers(1, 10_000)


def allowed(settings: QueueSettings, *, inflight: int = 0, bucket: Bucket | None = None, now: int = NOW) -> int:
    return settings.allowance(inflight=inflight, bucket=bucket, now=now)


def test_without_settings_a_whole_batch_may_be_reserved():
    assert allowed(QueueSettings(), inflight=10**6) == bounds.MAX_BATCH_ITEMS
    assert QueueSettings().on_exhausted is OnExhausted.SKIP


@pytest.mark.parametrize(
    ("now", "left"), [(NOW - 1, 0), (NOW, bounds.MAX_BATCH_ITEMS), (NOW + 1, bounds.MAX_BATCH_ITEMS)]
)
def test_a_pause_ends_at_its_instant(now: int, left: int):
    assert allowed(QueueSettings(paused_until=NOW), now=now) == left


@pytest.mark.parametrize(("inflight", "left"), [(0, 3), (2, 1), (3, 0), (9, 0)])
def test_max_inflight_allows_the_jobs_that_are_not_yet_in_flight(inflight: int, left: int):
    assert allowed(QueueSettings(max_inflight=3), inflight=inflight) == left


def test_a_full_bucket_holds_as_many_jobs_as_one_second():
    assert allowed(QueueSettings(rate=5)) == 5
    assert allowed(QueueSettings(rate=2.5)) == 3
    assert allowed(QueueSettings(rate=0.1)) == 1
    assert allowed(QueueSettings(rate=5, burst=20)) == 20


def test_an_empty_bucket_fills_job_by_job():
    settings = QueueSettings(rate=10, burst=3)
    bucket = settings.bucket_after(3, None, NOW)
    assert bucket == Bucket(level=0, at=NOW)
    steps = [0, SECOND // 10 - 1, SECOND // 10, 2 * SECOND // 10, 3 * SECOND // 10, 9 * SECOND]
    assert [allowed(settings, bucket=bucket, now=NOW + step) for step in steps] == [0, 0, 1, 2, 3, 3]


def test_a_whole_burst_can_be_taken_one_by_one_at_one_instant():
    settings = QueueSettings(rate=3, burst=7)
    bucket = None
    for left in range(7, 0, -1):
        assert allowed(settings, bucket=bucket) == left
        bucket = settings.bucket_after(1, bucket, NOW)
    assert allowed(settings, bucket=bucket) == 0


def test_a_new_rate_applies_to_what_is_left_in_the_bucket():
    bucket = QueueSettings(rate=0.001, burst=10).bucket_after(10, None, NOW)
    assert allowed(QueueSettings(rate=100, burst=10), bucket=bucket, now=NOW + SECOND // 10) == 10


def test_the_strictest_limit_applies():
    settings = QueueSettings(max_inflight=4, rate=100, burst=2)
    assert allowed(settings, inflight=1) == 2
    assert allowed(settings, inflight=3) == 1


@given(rate=RATES, burst=st.integers(1, 1000), data=st.data())
def test_no_time_window_allows_more_than_burst_and_rate(rate: float, burst: int, data: st.DataObject):
    """Consumers take as many jobs as allowed, at arbitrary instants."""
    settings = QueueSettings(rate=rate, burst=burst)
    now, bucket, taken = NOW, None, 0
    for pause in data.draw(st.lists(st.integers(0, 3 * SECOND), max_size=30)):
        now += pause
        took = data.draw(st.integers(0, allowed(settings, bucket=bucket, now=now)))
        bucket = settings.bucket_after(took, bucket, now)
        taken += took
        assert taken <= burst + (now - NOW) * rate / SECOND + 0.001


@given(rate=st.integers(1, 10_000), burst=st.integers(1, 1000), took=st.integers(1, 1000))
def test_a_bucket_is_full_again_to_the_microsecond(rate: int, burst: int, took: int):
    settings = QueueSettings(rate=rate, burst=burst)
    took = min(took, burst)
    bucket = settings.bucket_after(took, None, NOW)
    one_more, all_again = NOW + math.ceil(SECOND / rate), NOW + math.ceil(took * SECOND / rate)
    assert allowed(settings, bucket=bucket) == burst - took
    assert allowed(settings, bucket=bucket, now=one_more - 1) == burst - took
    assert allowed(settings, bucket=bucket, now=one_more) == burst - took + 1
    assert allowed(settings, bucket=bucket, now=all_again - 1) == burst - 1
    assert allowed(settings, bucket=bucket, now=all_again) == burst


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"paused_until": -1}, "paused_until"),
        ({"paused_until": bounds.MAX_INSTANT + 1}, "paused_until"),
        ({"max_inflight": 0}, "max_inflight"),
        ({"rate": 0}, "rate"),
        ({"rate": -1}, "rate"),
        ({"rate": SECOND + 1}, "rate"),
        ({"rate": math.nan}, "rate"),
        ({"rate": math.inf}, "rate"),
        ({"rate": "5"}, "rate"),
        ({"burst": 5}, "burst"),
        ({"rate": 1, "burst": 0}, "burst"),
        ({"key_max_inflight": 0}, "key_max_inflight"),
        ({"key_rate": 0}, "key_rate"),
        ({"key_burst": 5}, "key_burst"),
        ({"rate": 1, "key_burst": 5}, "key_burst"),
        ({"dedupe_window": 0}, "dedupe_window"),
        ({"dedupe_window": bounds.MAX_DURATION + 1}, "dedupe_window"),
    ],
)
def test_settings_out_of_range_are_refused(fields: dict[str, object], field: str):
    with pytest.raises(InvalidInput) as refused:
        QueueSettings(**fields)  # type: ignore[arg-type]
    assert refused.value.field == field


@given(
    rate=RATES, level=st.integers(-3_000_000, 3_000_000), idle=st.integers(0, 10 * SECOND), pause=st.integers(0, SECOND)
)
def test_a_queue_opens_exactly_when_the_pause_and_the_rate_allow_a_job(rate, level, idle, pause):
    settings = QueueSettings(rate=rate, burst=3, paused_until=NOW + pause)
    bucket = Bucket(level, NOW - idle)
    opens_at = settings.opens_at(bucket, NOW)
    assert allowed(settings, bucket=bucket, now=opens_at) > 0
    assert opens_at == NOW or allowed(settings, bucket=bucket, now=opens_at - 1) == 0


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-9])
def test_a_tiny_rate_opens_far_in_the_future(rate):
    settings = QueueSettings(rate=rate, burst=1)
    assert settings.opens_at(Bucket(0, NOW), NOW) > NOW + 30 * 365 * 86_400 * SECOND


def test_an_open_queue_opens_now():
    for settings in (
        QueueSettings(),
        QueueSettings(rate=5),
        QueueSettings(paused_until=NOW),
        QueueSettings(max_inflight=1),
    ):
        assert settings.opens_at(None, NOW) == NOW


def test_a_pause_limits_until_its_end():
    settings = QueueSettings(paused_until=100)
    assert [settings.is_limiting(now) for now in (99, 100, 101)] == [True, False, False]
    assert [settings.allowance(inflight=0, bucket=None, now=now) > 0 for now in (99, 100, 101)] == [False, True, True]


def test_the_limits_of_a_key_are_settings_of_their_own():
    queue = QueueSettings(max_inflight=9, rate=5, key_max_inflight=2, key_rate=1, key_burst=3, paused_until=7)
    assert queue.has_key_limits
    assert queue.of_key(held_until=8) == QueueSettings(max_inflight=2, rate=1, burst=3, held_until=8)
    assert not QueueSettings(max_inflight=9, rate=5).has_key_limits


def test_a_key_is_idle_when_nothing_of_the_past_limits_it():
    key = QueueSettings(rate=1, burst=2)
    spent = key.bucket_after(2, None, 0)
    assert not key.is_idle(spent, 3 * SECOND - 1)  # a bucket that is just full still has the part of a job above it
    assert key.is_idle(spent, 3 * SECOND)
    assert key.is_idle(None, 0)
    assert not QueueSettings(held_until=5).is_idle(None, 4)
    assert QueueSettings(held_until=5).is_idle(None, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gaps": "wait"},
        {"on_exhausted": "halt"},
        {"gap_report_after": 0},
        {"gap_pass_after": 0},
        {"gap_pass_after": 1.5},
    ],
)
def test_wrong_settings_of_domains_are_refused(wrong: dict[str, Any]):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        QueueSettings(**wrong)
