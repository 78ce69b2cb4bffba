"""The clock of the store decides; it may be wrong, and step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from holdfast.clock import SECOND, ManualClock
from holdfast.connect import connect
from holdfast.cron import Schedule, runner
from holdfast.cron.runner import CronRunner, StoreClock
from holdfast.cron.store import ScheduleStore

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_a_clock_that_steps_back_fires_nothing_twice(app, clock, runner, fires):
    app.cron("every").every_minute().queue("reports").run("report", None)
    runner.run()
    for step in (MINUTE, -timedelta(minutes=5), MINUTE, timedelta(minutes=4), -timedelta(seconds=20), MINUTE):
        clock.advance(step)
        runner.run()
        CronRunner(app).run()  # a scheduler that starts now declares the same schedule
    assert fires() == {("every", "2027-05-03T06:00:00Z"): 1, ("every", "2027-05-03T06:01:00Z"): 1}


def test_a_schedule_that_changes_after_a_step_back_does_not_fire_before_its_last_fire(app, clock, runner):
    every = Schedule(name="every", expression="* * * * *", type="report", queue="reports")
    app.schedules.put(every)
    clock.advance(MINUTE)
    runner.run()
    clock.advance(-timedelta(minutes=10))
    assert app.schedules.put(replace(every, payload=1)).next_fire == SIX + MINUTE
    app.schedules.pause("every")
    assert app.schedules.resume("every").next_fire == SIX + MINUTE


def test_a_clock_that_was_a_year_ahead_does_not_stop_a_schedule_for_a_year(app, clock, fires, events):
    app.cron("every").every_minute().queue("reports").run("report", None)
    CronRunner(app).run()
    clock.advance(timedelta(days=365))
    CronRunner(app).run()
    clock.advance(-timedelta(days=365))
    runner = CronRunner(app)
    runner.run()
    assert "in the future" in events.named("schedule.changed")[0].reason
    clock.advance(MINUTE)
    assert [fired.fire for fired in runner.run()] == [SIX]


def test_a_fire_in_a_repeated_or_skipped_hour_happens_once(make_app):
    app = make_app()
    berlin = "Europe/Berlin"
    app.cron("fixed").expression("30 2 * * *").timezone(berlin).queue("reports").run("report", None)
    runner = CronRunner(app)
    for start in (datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC)):
        runner.run(now=start)  # the fires between both days are missed: one of them happens
        fires = []
        for minute in range(24 * 6):
            fires += [fired.fire.astimezone(UTC) for fired in runner.run(now=start + minute * 10 * MINUTE)]
        wanted = {3: [datetime(2027, 3, 28, 1, tzinfo=UTC)], 10: [datetime(2027, 10, 31, 0, 30, tzinfo=UTC)]}
        assert fires == wanted[start.month]


def test_the_clock_of_the_store_is_read_once_a_minute(store, monkeypatch):
    seconds = 1000.0
    monkeypatch.setattr(runner, "boot_time", lambda: seconds)
    reads = 0

    class Counted(ScheduleStore):
        def now(self):
            nonlocal reads
            reads += 1
            return super().now()

    clock = StoreClock(Counted(store))
    start = clock.now()
    seconds += 59
    assert clock.now() == start + 59 * SECOND
    assert reads == 1
    seconds += 1
    assert clock.now() == start  # the clock of the store did not move: it decides
    assert reads == 2


def test_the_instant_of_the_store_is_that_of_its_clock():
    manual = ManualClock(1_900_000_000 * SECOND)
    with connect("memory://", clock=manual) as store:
        assert ScheduleStore(store).now() == manual.now()
