"""``app.schedules``: dynamic schedules, pause and resume, trigger, backfill."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cron import Schedule
from holdfast.cron.entries import DUE_KIND, STATE_KIND, Source
from holdfast.cron.reports import FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.drivers.requests import Scan
from holdfast.errors import InvalidInput, ScheduleNotFound

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def every_minute(name="poll", **fields) -> Schedule:
    return Schedule(**{"name": name, "expression": "* * * * *", "type": "report", "queue": "reports", **fields})


def fired_by(runner) -> list[tuple[str, datetime]]:
    return [(fired.schedule, fired.fire) for fired in runner.run()]


def test_a_dynamic_schedule_is_fired_by_every_scheduler_of_the_space(app, make_app, clock, store):
    info = app.schedules.put(every_minute())
    assert (info.status, info.source, info.next_fire) == ("active", Source.DYNAMIC, SIX)
    clock.advance(MINUTE)
    assert fired_by(CronRunner(make_app())) == [("poll", SIX)]
    other = CronRunner(make_app())
    other._store.store.space("other")  # another space has no schedules
    assert store.space("other").do(Scan(kind=STATE_KIND)) == []
    info = app.schedules.get("poll")
    assert (info.last_fire, info.next_fire) == (SIX, SIX + MINUTE)


def test_an_equal_schedule_stays_as_it_is_and_another_one_starts_from_now(app, clock, runner, events):
    app.schedules.put(every_minute())
    clock.advance(MINUTE)
    assert app.schedules.put(every_minute()).next_fire == SIX
    assert app.schedules.put(every_minute(payload=1)).next_fire == SIX + MINUTE
    assert [record.reason for record in events.named("schedule.changed")] == ["its definition has changed"]
    assert fired_by(runner) == []


def test_pause_and_resume(app, clock, runner, store):
    app.schedules.put(every_minute())
    assert app.schedules.pause("poll").status == "paused"
    assert store.do(Scan(kind=DUE_KIND)) == []
    clock.advance(HOUR)
    assert fired_by(runner) == []
    assert app.schedules.pause("poll").paused
    assert app.schedules.resume("poll").next_fire == SIX + HOUR
    clock.advance(MINUTE)
    assert fired_by(runner) == [("poll", SIX + HOUR)]
    app.schedules.pause("poll")
    assert app.schedules.put(every_minute(payload=2)).status == "paused"  # an operator has paused it


def test_a_paused_schedule_of_code_stays_paused_after_a_restart(app, clock, runner):
    app.cron("code").every_minute().queue("reports").run("report", None)
    runner.run()
    app.schedules.pause("code")
    clock.advance(MINUTE)
    assert fired_by(CronRunner(app)) == []


def test_remove(app, clock, runner, store):
    app.schedules.put(every_minute())
    app.schedules.remove("poll")
    assert app.schedules.get("poll") is None
    assert store.do(Scan(kind=DUE_KIND)) == []
    clock.advance(MINUTE)
    assert fired_by(runner) == []
    for call in (app.schedules.remove, app.schedules.pause, app.schedules.resume, app.schedules.trigger):
        with pytest.raises(ScheduleNotFound):
            call("poll")


def test_a_schedule_of_code_cannot_be_put_or_removed(app, runner, make_app):
    app.cron("code").every_minute().queue("reports").run("report", None)
    runner.run()
    with pytest.raises(InvalidInput, match="in code"):
        app.schedules.put(every_minute("code"))
    with pytest.raises(InvalidInput, match="in code"):
        make_app().schedules.put(every_minute("code"))  # of another app, which does not have it
    with pytest.raises(InvalidInput, match="not in the code of this app"):
        app.schedules.remove("code")
    make_app().schedules.remove("code")  # what is left of it


def test_dependencies_are_checked_when_a_schedule_is_put(app):
    with pytest.raises(InvalidInput, match="'b'"):
        app.schedules.put(every_minute("a", depends_on=("b",)))
    app.schedules.put(every_minute("b"))
    app.schedules.put(every_minute("a", depends_on=("b",)))
    app.schedules.put(every_minute("c", depends_on=("a",)))
    with pytest.raises(InvalidInput, match="->"):
        app.schedules.put(every_minute("b", depends_on=("c",)))


def test_list_returns_pages_ordered_by_name(app):
    for name in ("c", "a", "b"):
        app.schedules.put(every_minute(name))
    assert [info.schedule.name for info in app.schedules.list(limit=2)] == ["a", "b"]
    assert [info.schedule.name for info in app.schedules.list(after="b")] == ["c"]


def test_a_fire_has_the_limit_key_of_its_handler(app, store):
    app.handler("page.fetch", limit_key="host")(lambda _: None)
    for name, payload in (("site", {"host": "a.example"}), ("wrong", None)):
        app.schedules.put(every_minute(name, type="page.fetch", payload=payload))
    keys = [store.get(app.schedules.trigger(name).job_id).limit_key for name in ("site", "wrong")]
    assert keys == ["a.example", None]


def test_a_trigger_enqueues_now_and_moves_no_fire(app, clock, runner, store):
    app.schedules.put(every_minute(queue=None))
    app.schedules.pause("poll")
    fired = app.schedules.trigger("poll")
    job = store.get(fired.job_id)
    assert fired.status is FireStatus.ENQUEUED
    assert (job.queue, job.meta["holdfast.schedule"], job.meta["holdfast.trigger"]) == ("reports", "poll", True)
    clock.advance(1)
    assert app.schedules.trigger("poll").job_id != fired.job_id
    app.schedules.resume("poll")
    assert app.schedules.get("poll").next_fire == SIX
    clock.advance(MINUTE)
    [(name, fire)] = fired_by(runner)
    assert (name, fire) == ("poll", SIX)


def test_a_schedule_of_code_can_be_triggered_before_a_scheduler_has_started(app, store):
    app.cron("code").daily().queue("reports").run("report", {"a": 1})
    assert store.get(app.schedules.trigger("code").job_id).payload == b'{"a":1}'


def test_a_backfill_is_previewed_and_does_not_repeat_fires(app, clock, runner, fires):
    app.schedules.put(every_minute())
    clock.advance(MINUTE)
    runner.run()
    clock.advance(MINUTE)
    start, end = SIX - 2 * MINUTE, SIX + MINUTE
    preview = app.schedules.backfill("poll", start, end)
    assert [(one.fire, one.status) for one in preview] == [(start + n * MINUTE, FireStatus.PLANNED) for n in range(3)]
    assert sum(fires().values()) == 1
    done = app.schedules.backfill("poll", start, end, preview=False)
    assert [one.status for one in done] == [FireStatus.ENQUEUED, FireStatus.ENQUEUED, FireStatus.EXISTED]
    assert [one.job_id for one in done] == [one.job_id for one in preview]
    assert {one.status for one in app.schedules.backfill("poll", start, end, preview=False)} == {FireStatus.EXISTED}
    assert set(fires().values()) == {1}
    assert fired_by(runner) == [("poll", SIX + MINUTE)]  # the schedule goes on as before


def test_a_fire_that_was_backfilled_before_its_tick_is_not_repeated(app, clock, runner):
    app.schedules.put(every_minute())
    clock.advance(MINUTE)
    app.schedules.backfill("poll", SIX, SIX + timedelta(seconds=30), preview=False)
    [fired] = runner.run()
    assert (fired.fire, fired.status) == (SIX, FireStatus.EXISTED)


def test_a_backfill_is_capped_and_ends_now(app):
    app.schedules.put(every_minute())
    with pytest.raises(InvalidInput, match="at most 1000 fires"):
        app.schedules.backfill("poll", SIX - 3 * DAY, SIX - DAY)
    assert len(app.schedules.backfill("poll", SIX - 3 * DAY, SIX - DAY, limit=5000)) == 2 * 24 * 60
    with pytest.raises(InvalidInput, match="not after now"):
        app.schedules.backfill("poll", SIX - HOUR, SIX + HOUR)
