"""Pause, concurrency and the rate bucket, whose whole state is the instant at which it is full again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.settings import OnExhausted, QueueSettings

NOW = 1_800_000_000 * SECOND
RATES = st.floats(0.001, 10_000) | st.integers(1, 10_000)


def allowed(settings: QueueSettings, *, inflight: int = 0, full_at: int = 0, now: int = NOW) -> int:
    return settings.allowance(inflight=inflight, full_at=full_at, now=now)


def test_without_settings_there_is_room_for_a_whole_batch():
    assert allowed(QueueSettings(), inflight=10**6) == bounds.MAX_BATCH
    assert QueueSettings().on_exhausted is OnExhausted.SKIP


@pytest.mark.parametrize(("now", "left"), [(NOW - 1, 0), (NOW, bounds.MAX_BATCH), (NOW + 1, bounds.MAX_BATCH)])
def test_a_pause_ends_at_its_instant(now: int, left: int):
    assert allowed(QueueSettings(paused_until=NOW), now=now) == left


@pytest.mark.parametrize(("inflight", "left"), [(0, 3), (2, 1), (3, 0), (9, 0)])
def test_concurrency_leaves_what_is_not_in_flight(inflight: int, left: int):
    assert allowed(QueueSettings(max_inflight=3), inflight=inflight) == left


def test_a_full_bucket_holds_one_seconds_worth():
    assert allowed(QueueSettings(rate=5)) == 5
    assert allowed(QueueSettings(rate=2.5)) == 3
    assert allowed(QueueSettings(rate=0.1)) == 1
    assert allowed(QueueSettings(rate=5, burst=20)) == 20


def test_an_emptied_bucket_fills_one_by_one():
    settings = QueueSettings(rate=10, burst=3)
    full_at = settings.full_at_after(3, full_at=0, now=NOW)
    assert full_at == NOW + 3 * SECOND // 10
    steps = [0, SECOND // 10 - 1, SECOND // 10, 2 * SECOND // 10, 3 * SECOND // 10, 9 * SECOND]
    assert [allowed(settings, full_at=full_at, now=NOW + step) for step in steps] == [0, 0, 1, 2, 3, 3]


def test_taking_nothing_leaves_the_bucket_as_it_is():
    settings = QueueSettings(rate=10, burst=3)
    assert settings.full_at_after(0, full_at=NOW + 5, now=NOW) == NOW + 5
    assert QueueSettings().full_at_after(7, full_at=NOW + 5, now=NOW) == NOW + 5


def test_the_narrowest_limit_counts():
    settings = QueueSettings(max_inflight=4, rate=100, burst=2)
    assert allowed(settings, inflight=1) == 2
    assert allowed(settings, inflight=3) == 1


@given(rate=RATES, burst=st.integers(1, 1000), data=st.data())
def test_no_window_ever_sees_more_than_its_burst_and_its_rate(rate: float, burst: int, data: st.DataObject):
    """Greedy consumers at arbitrary instants: what they take is bounded, whatever they do."""
    settings = QueueSettings(rate=rate, burst=burst)
    now, full_at, taken = NOW, 0, 0
    for pause in data.draw(st.lists(st.integers(0, 3 * SECOND), max_size=30)):
        now += pause
        left = allowed(settings, full_at=full_at, now=now)
        took = data.draw(st.integers(0, left))
        full_at = settings.full_at_after(took, full_at=full_at, now=now)
        taken += took
        assert taken <= burst + (now - NOW) * rate / SECOND + 0.001


@given(rate=RATES, burst=st.integers(1, 1000), took=st.integers(1, 1000))
def test_a_bucket_gives_back_what_was_taken_to_the_microsecond(rate: float, burst: int, took: int):
    settings = QueueSettings(rate=rate, burst=burst)
    took = min(took, burst)
    full_at = settings.full_at_after(took, full_at=0, now=NOW)
    assert allowed(settings, full_at=full_at, now=NOW + 1) == burst - took
    assert allowed(settings, full_at=full_at, now=full_at) == burst
    one_more = NOW + math.ceil(SECOND / rate)
    millionth = math.ceil(1 / rate)  # microseconds in which a millionth of a job comes back: too little to count
    assert allowed(settings, full_at=full_at, now=one_more - millionth - 1) == burst - took
    assert allowed(settings, full_at=full_at, now=one_more + 1) >= burst - took + 1


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
        ({"dedupe_window": 0}, "dedupe_window"),
        ({"dedupe_window": bounds.MAX_LENGTH + 1}, "dedupe_window"),
    ],
)
def test_settings_out_of_range_are_refused(fields: dict[str, object], field: str):
    with pytest.raises(InvalidInput) as refused:
        QueueSettings(**fields)  # type: ignore[arg-type]
    assert refused.value.field == field
