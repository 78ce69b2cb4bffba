"""Dependencies in a tick: the order, and inline runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Holdfast
from holdfast.cron import walk as walks
from holdfast.cron.fire import INLINE_QUEUE
from holdfast.cron.inline import InlineRun
from holdfast.cron.reports import FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.drivers.requests import Enqueue, Reap
from holdfast.model.job import State
from holdfast.wire.records import to_record
from tests.unit.cron.crashing_store import CrashingStore

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

ENQUEUED, DONE, FAILED, BLOCKED = FireStatus.ENQUEUED, FireStatus.DONE, FireStatus.FAILED, FireStatus.BLOCKED


@pytest.fixture
def calls():
    return []


@pytest.fixture
def inline_app(make_app, calls):
    """An app whose handlers note their calls; ``fail`` raises."""
    app = make_app()

    @app.handler("note")
    def note(payload):
        calls.append(payload)

    @app.handler("fail")
    def fail(payload):
        calls.append(payload)
        raise ValueError("it fails")

    return app


def statuses(fired) -> list[tuple[str, FireStatus]]:
    return [(one.schedule, one.status) for one in fired]


# Inline ---------------------------------------------------------------------------------------------------------


def test_schedules_without_a_queue_run_inline_in_the_order_of_their_dependencies(inline_app, calls, store):
    inline_app.cron("third").every_minute().depends_on("second").run("note", 3)
    inline_app.cron("first").every_minute().run("note", 1)
    inline_app.cron("second").every_minute().depends_on("first").run("note", 2)
    fired = CronRunner(inline_app).run(now=SIX)
    assert statuses(fired) == [("first", DONE), ("second", DONE), ("third", DONE)]
    assert calls == [1, 2, 3]
    job = store.get(fired[0].job_id)
    assert (job.state, job.queue, job.max_attempts) == (State.DONE, INLINE_QUEUE, 1)


def test_a_schedule_whose_inline_dependency_failed_is_blocked(inline_app, calls, events):
    inline_app.cron("first").every_minute().run("fail", 1)
    inline_app.cron("second").every_minute().depends_on("first").run("note", 2)
    inline_app.cron("queued").every_minute().queue("work").depends_on("second").run("note", 3)
    inline_app.cron("other").every_minute().run("note", 4)
    runner = CronRunner(inline_app)
    fired = {one.schedule: one for one in runner.run(now=SIX)}
    assert {name: one.status for name, one in fired.items()} == {
        "first": FAILED,
        "second": BLOCKED,
        "queued": BLOCKED,
        "other": DONE,
    }
    assert calls == [1, 4]
    assert "it fails" in fired["first"].error
    assert fired["second"].error == "its dependency first is failed"
    assert inline_app.schedules.get("second").dropped_reason == "its dependency first is failed"
    assert {record.schedule for record in events.named("schedule.dropped")} == {"second", "queued"}
    assert statuses(runner.run(now=SIX + MINUTE))[0] == ("first", FAILED)


def test_a_dependency_that_is_not_due_or_disabled_or_excluded_does_not_block(inline_app, calls):
    inline_app.cron("hourly").expression("30 * * * *").run("fail", 0)
    inline_app.cron("off").every_minute().enabled(False).run("fail", 0)
    inline_app.cron("elsewhere").every_minute().environments("production").run("fail", 0)
    inline_app.cron("last").every_minute().depends_on("hourly", "off", "elsewhere").run("note", 1)
    assert statuses(CronRunner(inline_app).run(now=SIX)) == [("last", DONE)]
    assert calls == [1]


def test_a_queued_dependency_only_orders_the_walk(inline_app, calls, store):
    inline_app.cron("after").every_minute().depends_on("queued").run("note", 2)
    inline_app.cron("queued").every_minute().queue("work").run("fail", 1)
    assert statuses(CronRunner(inline_app).run(now=SIX)) == [("queued", ENQUEUED), ("after", DONE)]


def test_every_missed_fire_runs_inline(inline_app, calls):
    inline_app.cron("each").every_minute().missed("all").run("note", 1)
    runner = CronRunner(inline_app)
    runner.run(now=SIX - timedelta(seconds=30))
    assert statuses(runner.run(now=SIX + 2 * MINUTE)) == [("each", DONE)] * 3
    assert calls == [1, 1, 1]


def test_a_job_that_a_killed_runner_left_behind_runs_with_the_next_one(inline_app, calls, store):
    inline_app.cron("each").every_minute().run("note", 1)
    runner = CronRunner(inline_app)
    store.enqueue([_inline_job(inline_app, "left behind")])
    assert statuses(runner.run(now=SIX)) == [("each", DONE)]
    assert calls == ["left behind", 1]


@pytest.fixture
def dependant_of_an_earlier_fire(inline_app, clock):
    """A function: the dependency fires at six; then the schedule that depends on it is due at six, too."""

    def run(runner, first_type) -> list:
        inline_app.cron("first").daily(at="06:00").run(first_type, 1)
        inline_app.cron("second").daily(at="06:00").depends_on("first").run("note", 2)
        runner.run()
        inline_app.schedules.pause("second")
        clock.advance(MINUTE)
        runner.run()
        clock.advance(-MINUTE)
        inline_app.schedules.resume("second")
        clock.advance(MINUTE)
        return runner.run()

    return run


def test_an_inline_dependency_that_another_runner_ran_at_the_same_instant_blocks(
    inline_app, dependant_of_an_earlier_fire
):
    fired = dependant_of_an_earlier_fire(CronRunner(inline_app), "fail")
    assert statuses(fired) == [("second", BLOCKED)]


def test_an_inline_dependency_that_a_killed_runner_left_behind_runs_first(
    inline_app, dependant_of_an_earlier_fire, calls, monkeypatch
):
    real, kills = walks.run_inline, [True]

    def die_once(app, job_ids):
        return InlineRun({}, is_stopped=False) if kills and kills.pop() else real(app, job_ids)

    monkeypatch.setattr(walks, "run_inline", die_once)
    fired = dependant_of_an_earlier_fire(CronRunner(inline_app), "note")
    assert statuses(fired) == [("second", DONE)]
    assert calls == [1, 2]


def test_a_schedule_whose_inline_dependency_is_running_elsewhere_stays_due(
    inline_app, dependant_of_an_earlier_fire, store, clock, monkeypatch
):
    def reserve_elsewhere(app, job_ids):
        assert store.reserve([INLINE_QUEUE], limit=1, lease_for=10**9, worker="other")
        return InlineRun({}, is_stopped=False)

    monkeypatch.setattr(walks, "run_inline", reserve_elsewhere)
    runner = CronRunner(inline_app)
    assert dependant_of_an_earlier_fire(runner, "note") == []
    assert inline_app.schedules.get("second").next_fire == SIX
    monkeypatch.undo()
    assert store.do(Reap(worker="other")).count == 1  # it was killed: its one attempt is used
    assert statuses(runner.run()) == [("second", BLOCKED)]


def test_a_runner_that_loses_an_inline_dependency_to_another_one_waits_for_its_outcome(store, clock, calls):
    """The other runner fires the dependency between the read and the enqueue of this one."""
    slow = CrashingStore(store)
    app, faster = Holdfast(driver=slow, clock=clock), Holdfast(driver=store, clock=clock)
    for each in (app, faster):

        @each.handler("fail")
        def fail(payload):
            raise ValueError("it fails")

        each.cron("first").every_minute().run(fail, 1)
    app.handler("note")(calls.append)
    app.cron("second").every_minute().depends_on("first").run("note", 2)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)

    def lose(request):
        if isinstance(request, Enqueue):
            del slow.do
            assert statuses(CronRunner(faster).run()) == [("first", FAILED)]
        return store.do(request)

    slow.do = lose
    assert statuses(runner.run()) == [("second", BLOCKED)]
    assert calls == []


def _inline_job(app, payload):
    return to_record(app.request("note", payload, queue=INLINE_QUEUE, max_attempts=1), now=0)
