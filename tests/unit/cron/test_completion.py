"""The completion hook of a schedule: a job, or a function of the app."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.cron.entries import WATCH_KIND
from holdfast.cron.runner import CronRunner
from holdfast.drivers.contract import JobFilter
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STEP = timedelta(seconds=30)


@pytest.fixture
def end(store):
    """A function that ends the due jobs of the queue of reports."""

    def settle(*, fail: bool = False) -> None:
        for one in store.reserve(["reports"], limit=100, lease_for=10**7, types=["report"]):
            store.settle([Fail(lease=one.lease, reason="broken") if fail else Ack(lease=one.lease)])

    return settle


def test_a_job_is_enqueued_once_when_the_job_of_a_fire_has_ended(app, make_app, clock, store, end):
    app.cron("daily").daily(at="06:00").queue("reports").on_complete("audit").run("report", None)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    [fired] = runner.run()
    clock.advance(STEP)
    runner.run()
    assert list(store.find(JobFilter(type="audit"))) == []
    end(fail=True)
    clock.advance(STEP)
    for each in (runner, CronRunner(make_app()), CronRunner(app)):  # any scheduler of the space may do it
        each.run()
    [job] = store.find(JobFilter(type="audit"))
    assert json.loads(job.payload) == {
        "schedule": "daily",
        "fire": "2027-05-03T06:00:00Z",
        "job_id": fired.job_id,
        "state": "dead",
        "attempts": 1,
        "reason": "broken",
        "error": "",
    }
    assert job.meta == {"holdfast.completed": fired.job_id}
    assert store.scan(WATCH_KIND) == []


def test_a_function_is_called_with_the_completion(app, make_app, clock, store, end):
    completions = []
    app.cron("daily").daily(at="06:00").queue("reports").on_complete(completions.append).run("report", None)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    [fired] = runner.run()
    end()
    clock.advance(STEP)
    CronRunner(make_app()).run()  # an app without the function leaves it
    assert completions == []
    clock.advance(STEP)
    runner.run()
    CronRunner(app).run()
    [completion] = completions
    assert (completion.schedule, completion.fire, completion.job_id) == ("daily", SIX, fired.job_id)
    assert completion.state is State.DONE
    assert store.scan(WATCH_KIND) == []


def test_a_function_that_raises_is_called_again_a_few_times(app, clock, store, end, events):
    calls = []

    def hook(completion):
        calls.append(completion)
        raise ValueError("no network")

    app.cron("daily").daily(at="06:00").queue("reports").on_complete(hook).run("report", None)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    runner.run()
    end()
    for _ in range(10):
        clock.advance(MINUTE)
        runner.run()
    assert len(calls) == 5
    assert len(events.named("schedule.failed")) == 5
    assert events.named("schedule.dropped")[0].reason.endswith("it was called 5 times")
    assert store.scan(WATCH_KIND) == []


def test_triggers_and_backfills_have_completions(app, clock, end):
    completions = []
    app.cron("daily").daily(at="06:00").queue("reports").on_complete(completions.append).run("report", None)
    runner = CronRunner(app)
    runner.run()
    triggered = app.schedules.trigger("daily")
    [filled] = app.schedules.backfill("daily", SIX - timedelta(days=1), SIX - MINUTE, preview=False)
    end()
    clock.advance(STEP)
    runner.run()
    assert {completion.job_id for completion in completions} == {triggered.job_id, filled.job_id}


def test_a_job_that_is_gone_ends_its_watch(app, clock, store, end, events):
    app.cron("daily").daily(at="06:00").queue("reports").on_complete("audit").run("report", None)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    [fired] = runner.run()
    store.cancel([fired.job_id])
    store.purge([fired.job_id])
    clock.advance(STEP)
    runner.run()
    assert "is gone" in events.named("schedule.dropped")[0].reason
    assert store.scan(WATCH_KIND) == []
