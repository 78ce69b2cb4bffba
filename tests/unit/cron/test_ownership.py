"""Which scheduler fires a schedule of code: changed definitions, deployments, deleted code, environments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.cron import Schedule
from holdfast.cron.entries import DUE_KIND
from holdfast.cron.runner import CronRunner
from holdfast.drivers.requests import Scan

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def version(make_app):
    """A function that returns a scheduler of an app with these schedules, by name and expression."""

    def start(environment: str = "", **schedules: str | None) -> CronRunner:
        app = make_app()
        for name, expression in schedules.items():
            if expression is not None:
                app.cron(name).expression(expression).queue("reports").run("report", None)
        return CronRunner(app, environment=environment)

    return start


def fired_by(runner) -> list[tuple[str, datetime]]:
    return [(fired.schedule, fired.fire) for fired in runner.run()]


def test_a_changed_definition_says_so_and_starts_from_now(version, clock, events):
    version(report="0 6 * * *").run()
    clock.advance(HOUR)  # 06:59:30: the fire at six was missed
    new = version(report="0 7 * * *")
    assert fired_by(new) == []
    [changed] = events.named("schedule.changed")
    assert (changed.schedule, changed.reason) == ("report", "its definition has changed")
    clock.advance(MINUTE)
    assert fired_by(new) == [("report", SIX + HOUR)]


def test_the_same_definition_keeps_its_missed_fires(version, clock, events):
    version(report="0 6 * * *").run()
    clock.advance(HOUR)
    assert fired_by(version(report="0 6 * * *")) == [("report", SIX)]
    assert events.named("schedule.changed") == []


def test_while_two_versions_run_the_newer_definition_fires(version, clock):
    old = version(report="0 6 * * *")
    old.run()
    new = version(report="30 6 * * *")
    new.run()
    clock.advance(MINUTE)
    assert fired_by(old) == []
    assert fired_by(new) == []
    clock.advance(31 * MINUTE)
    assert fired_by(old) == []
    assert fired_by(new) == [("report", SIX + 30 * MINUTE)]


def test_after_an_undone_deployment_the_old_version_fires_again_without_a_restart(version, clock, events):
    old = version(report="0 * * * *")
    old.run()
    version(report="30 * * * *").run()  # it ends before it fires
    clock.advance(34 * MINUTE)
    assert fired_by(old) == []
    clock.advance(2 * MINUTE)  # 06:35:30: nobody has fired at half past six
    assert fired_by(old) == [("report", SIX)]  # missed since the other version was declared
    assert len(events.named("schedule.changed")) == 2
    clock.advance(HOUR)
    assert fired_by(old) == [("report", SIX + HOUR)]


def test_a_schedule_that_was_deleted_from_the_code_stops(version, clock, store, events):
    version(report="* * * * *", other="0 0 * * *").run()
    new = version(report=None, other="0 0 * * *")
    for _ in range(7):
        clock.advance(MINUTE)
        assert fired_by(new) == []
    assert [record.schedule for record in events.named("schedule.undeclared")] == ["report"]
    assert len(store.do(Scan(kind=DUE_KIND))) == 1
    again = version(report="* * * * *")  # it is restored: the newest missed fire happens
    assert [name for name, _ in fired_by(again)] == ["report", "report"]


def test_a_virtual_time_gives_up_no_schedule_of_another_app(version, clock, events):
    owner = version(report="* * * * *")
    owner.run()
    version(other="0 0 * * *").run(now=SIX + timedelta(days=30))
    assert events.named("schedule.undeclared") == []
    clock.advance(MINUTE)
    assert fired_by(owner) == [("report", SIX)]


def test_schedules_that_lost_their_scheduler_for_a_while_are_declared_again_by_itself(version, clock):
    """A suspended process goes on without a restart, and another app has given its schedule up meanwhile."""
    suspended = version(report="* * * * *")
    suspended.run()
    for _ in range(7):
        clock.advance(MINUTE)
        version(other="0 0 * * *").run()
    assert [name for name, _ in fired_by(suspended)] == ["report", "report"]


def test_a_schedule_that_the_app_gets_later_is_declared_in_the_next_tick(app, clock, runner):
    runner.run()
    app.cron("late").every_minute().queue("reports").run("report", None)
    runner.run()
    clock.advance(MINUTE)
    assert fired_by(runner) == [("late", SIX)]


def test_a_schedule_of_code_does_not_replace_a_dynamic_one(app, clock, version, events):
    app.schedules.put(Schedule(name="report", expression="0 7 * * *", type="report", queue="dynamic"))
    code = version(report="0 6 * * *")
    code.run()
    [failed] = events.named("schedule.failed")
    assert (failed.schedule, failed.reason) == ("report", "a dynamic schedule has this name")
    clock.advance(MINUTE)
    assert fired_by(code) == []
    assert app.schedules.get("report").schedule.queue == "dynamic"


def test_a_schedule_fires_only_in_its_environments(make_app, clock):
    def start(environment):
        app = make_app()
        app.cron("night").every_minute().environments("staging", "production").queue("reports").run("report", None)
        app.cron("always").every_minute().queue("reports").run("report", None)
        return CronRunner(app, environment=environment)

    nowhere, production = start(""), start("production")
    nowhere.run()
    production.run()
    clock.advance(MINUTE)
    assert fired_by(nowhere) == [("always", SIX)]
    assert fired_by(production) == [("night", SIX)]


def test_the_environment_is_a_setting(monkeypatch, store, clock):
    monkeypatch.setenv("HOLDFAST_ENVIRONMENT", "production")
    app = Holdfast(driver=store, clock=clock)
    app.cron("night").every_minute().environments("production").queue("reports").run("report", None)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    assert fired_by(runner) == [("night", SIX)]


def test_a_dynamic_schedule_of_another_environment_goes_on_without_firing(app, clock, store, events):
    every = Schedule(name="night", expression="* * * * *", type="report", environments=("production",), queue="reports")
    app.schedules.put(every)
    nowhere = CronRunner(app, environment="")
    for _ in range(8):
        clock.advance(MINUTE)
        assert nowhere.run() == []
    assert [record.schedule for record in events.named("schedule.dropped")] == ["night"]
    production = CronRunner(app, environment="production")
    clock.advance(MINUTE)
    assert fired_by(production)


def test_a_disabled_schedule_does_not_fire_until_it_is_enabled(make_app, clock):
    def start(*, enabled):
        app = make_app()
        app.cron("report").every_minute().enabled(enabled).queue("reports").run("report", None)
        return CronRunner(app)

    start(enabled=True).run()
    off = start(enabled=False)
    off.run()
    clock.advance(HOUR)
    assert fired_by(off) == []
    on = start(enabled=True)
    on.run()
    clock.advance(MINUTE)
    assert fired_by(on) == [("report", SIX + HOUR)]  # it starts from the moment when it was enabled
