"""Which fires happen now: on time, missed by each policy, and in steps of a bounded size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.clock import DAY, HOUR, MINUTE, SECOND, from_datetime
from holdfast.cron import plan as planning
from holdfast.cron.plan import plan
from holdfast.cron.schedule import Missed, Schedule

NOON = from_datetime(datetime(2027, 5, 3, 12, tzinfo=UTC))


def schedule(expression: str = "* * * * *", **fields) -> Schedule:
    return Schedule(name="report", expression=expression, type="report", **fields)


def test_nothing_happens_before_the_next_fire():
    assert plan(schedule(), NOON, NOON - 1) == planning.Plan(fires=(), next_fire=NOON)


def test_a_fire_happens_at_its_instant_and_the_next_one_follows():
    assert plan(schedule(), NOON, NOON) == planning.Plan(fires=(NOON,), next_fire=NOON + MINUTE)


def test_every_fire_on_time_happens_whatever_the_policy():
    for policy in Missed:
        decided = plan(schedule("* * * * * *", missed=policy), NOON, NOON + 3 * SECOND)
        assert decided.fires == tuple(NOON + second * SECOND for second in range(4))
        assert decided.next_fire == NOON + 4 * SECOND


def test_a_fire_that_is_late_by_exactly_grace_is_on_time():
    grace = timedelta(minutes=5)
    daily = schedule("0 12 * * *", missed=Missed.SKIP, grace=grace)
    assert plan(daily, NOON, NOON + 5 * MINUTE).fires == (NOON,)
    late = plan(daily, NOON, NOON + 5 * MINUTE + 1)
    assert (late.fires, late.dropped, late.next_fire) == ((), 1, NOON + DAY)


@pytest.mark.parametrize(
    ("policy", "fires", "dropped"),
    [
        (Missed.SKIP, (), 3),
        (Missed.LAST, (NOON + 2 * HOUR,), 2),
        (Missed.ALL, (NOON, NOON + HOUR, NOON + 2 * HOUR), 0),
    ],
)
def test_the_policy_selects_among_missed_fires(policy, fires, dropped):
    decided = plan(schedule("0 * * * *", missed=policy), NOON, NOON + 2 * HOUR + 30 * MINUTE)
    assert (decided.fires, decided.dropped, decided.next_fire) == (fires, dropped, NOON + 3 * HOUR)


def test_the_newest_missed_fire_happens_beside_a_fire_on_time():
    decided = plan(schedule("0 * * * *"), NOON, NOON + 2 * HOUR)
    assert (decided.fires, decided.dropped) == ((NOON + HOUR, NOON + 2 * HOUR), 1)


def test_all_drops_the_oldest_above_its_maximum():
    decided = plan(schedule("0 * * * *", missed=Missed.ALL, max_missed=2), NOON, NOON + 3 * HOUR + 30 * MINUTE)
    assert (decided.fires, decided.dropped) == ((NOON + 2 * HOUR, NOON + 3 * HOUR), 2)


@pytest.mark.parametrize(
    ("expression", "days"),
    [("* * * * * *", 3), ("* * * * *", 400), ("* * 4 1 1 *", 400), ("* * * 1 1 *", 400)],
    ids=["every second", "every minute", "every second of one hour a year", "every second of one day a year"],
)
def test_the_newest_fires_of_a_long_outage_are_found_without_listing_all_fires(expression, days, monkeypatch):
    listed = 0
    between = type(schedule(expression).cron).between

    def count(self, start, end, limit):
        nonlocal listed
        fires = between(self, start, end, limit)
        listed += len(fires)
        return fires

    monkeypatch.setattr(type(schedule(expression).cron), "between", count)
    monkeypatch.setattr(planning, "MAX_LISTED_FIRES", 400)  # so that the test is short
    since = planning.first_fire(schedule(expression), NOON)
    decided = plan(schedule(expression, missed=Missed.ALL, max_missed=50), since, NOON + days * DAY)
    monkeypatch.undo()
    missed_before = NOON + days * DAY - MINUTE
    newest = [fire for fire in decided.fires if fire < missed_before]
    assert len(newest) == 50
    assert decided.dropped_more
    assert listed < 10_000
    following = schedule(expression).cron.between
    start, end = (datetime.fromtimestamp(each / SECOND, tz=UTC) for each in (newest[0], missed_before))
    assert [from_datetime(fire) for fire in following(start, end, 100)] == newest


def test_more_fires_than_one_step_takes_stay_due(monkeypatch):
    monkeypatch.setattr(planning, "MAX_STEP_FIRES", 3)
    every_second = schedule("* * * * * *")
    first = plan(every_second, NOON, NOON + 5 * SECOND)
    assert first.fires == tuple(NOON + second * SECOND for second in range(3))
    second = plan(every_second, first.next_fire, NOON + 5 * SECOND)
    assert second.fires == tuple(NOON + second * SECOND for second in range(3, 6))
    assert second.next_fire == NOON + 6 * SECOND


def test_a_schedule_that_never_fires_again_has_no_next_fire(monkeypatch):
    monkeypatch.setattr(Schedule, "next_after", lambda _self, _instant: None)
    assert plan(schedule("0 12 3 5 *"), NOON, NOON).next_fire is None
