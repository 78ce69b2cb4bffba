"""One tick of a scheduler, on a store in memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.cron import plan as planning
from holdfast.cron.reports import FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.errors import InvalidInput
from holdfast.observability import InMemoryMetrics

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_a_due_schedule_with_a_queue_is_enqueued_once(app, store, clock, runner, fires):
    app.cron("daily").daily(at="06:00").queue("reports").run("report", {"day": 1})
    assert runner.run() == []
    clock.advance(MINUTE)
    [fired] = runner.run()
    assert (fired.schedule, fired.fire, fired.status) == ("daily", SIX, FireStatus.ENQUEUED)
    job = store.get(fired.job_id)
    assert (job.type, job.queue, job.payload) == ("report", "reports", b'{"day":1}')
    assert job.idempotency_key == "cron:daily:UTC:2027-05-03T06:00:00Z"
    assert runner.run() == []
    assert fires() == {("daily", "2027-05-03T06:00:00Z"): 1}


def test_now_replaces_the_clock_and_a_new_schedule_fires_at_this_very_instant(app, runner):
    app.cron("daily").daily(at="06:00").queue("reports").run("report", None)
    [fired] = runner.run(now=SIX)
    assert fired.fire == SIX
    assert runner.run(now=SIX) == []
    [fired] = runner.run(now=SIX + timedelta(days=1))
    assert fired.fire == SIX + timedelta(days=1)


def test_a_job_takes_what_its_schedule_does_not_say_from_its_handler(make_app):
    app = make_app()

    @app.handler("mail", queue="mail", priority=3, max_attempts=7)
    def mail(payload):
        pass

    app.cron("plain").every_minute().queue("mail").run(mail, None)
    app.cron("special").every_minute().queue("other").priority(9).max_attempts(2).jitter(MINUTE).run(mail, None)
    plain, special = CronRunner(app).run(now=SIX)
    plain, special = app.client.get(plain.job_id), app.client.get(special.job_id)
    assert (plain.queue, plain.priority, plain.max_attempts) == ("mail", 3, 7)
    assert (special.queue, special.priority, special.max_attempts) == ("other", 9, 2)
    assert plain.requested_run_at < special.requested_run_at


def test_a_schedule_that_cannot_be_enqueued_delays_no_other(app, runner, events):
    app.cron("bad").every_minute().queue("reports").run("report", "bad")
    app.cron("good").every_minute().queue("reports").run("report", "good")

    @app.enqueue_middleware
    def refuse_bad(requests, call_next):
        if any(request.payload == "bad" for request in requests):
            raise ValueError("this payload is refused")
        return call_next(requests)

    assert [fired.schedule for fired in runner.run(now=SIX)] == ["good"]
    assert [record.schedule for record in events.named("schedule.failed")] == ["bad"]
    assert runner.run(now=SIX + timedelta(seconds=30)) == []  # it is left alone for a minute
    assert len(events.named("schedule.failed")) == 1
    app.enqueue_middlewares.remove(refuse_bad)
    fired = runner.run(now=SIX + MINUTE)
    assert sorted((each.schedule, each.fire) for each in fired) == [
        ("bad", SIX),
        ("bad", SIX + MINUTE),
        ("good", SIX + MINUTE),
    ]


def test_a_cycle_is_an_error_when_the_runner_is_created(app):
    app.cron("a").every_minute().queue("reports").depends_on("b").run("report", None)
    app.cron("b").every_minute().queue("reports").depends_on("a").run("report", None)
    with pytest.raises(InvalidInput, match=r"a -> b -> a|b -> a -> b"):
        CronRunner(app)


def test_more_missed_fires_than_one_step_takes_happen_in_one_tick(app, runner, clock, monkeypatch, fires):
    monkeypatch.setattr(planning, "MAX_STEP_FIRES", 4)
    app.cron("each").every_minute().missed("all").queue("reports").run("report", None)
    runner.run()
    clock.advance(11 * MINUTE)
    assert [fired.fire for fired in runner.run()] == [SIX + minute * MINUTE for minute in range(11)]
    assert set(fires().values()) == {1}


def test_metrics_count_fires_and_what_was_missed(store, clock):
    metrics = InMemoryMetrics()
    app = Holdfast(driver=store, clock=clock, metrics=metrics)
    app.cron("hourly").hourly().missed("skip").queue("reports").run("report", None)
    runner = CronRunner(app)
    runner.run()
    for name in ("holdfast_schedule_missed_total", "holdfast_schedule_failures_total"):
        assert metrics.series(name) == [({}, 0)], "the series is there before its first increase"
    clock.advance(3 * timedelta(hours=1) + MINUTE)
    runner.run()
    labels = {"queue": "reports", "type": "report"}
    assert metrics.series("holdfast_schedule_fires_total") == [(labels, 1)]
    assert metrics.series("holdfast_schedule_missed_total") == [({}, 3)]
    [(_, late)] = metrics.series("holdfast_schedule_late_seconds")
    assert late.count == 1
    [(_, ticked)] = metrics.series("holdfast_scheduler_last_tick_timestamp_seconds")
    assert ticked > 0
