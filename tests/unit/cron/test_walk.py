"""Dependencies in a tick: the order, inline runs, pending fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Holdfast, Schedule
from holdfast.cron import walk as walks
from holdfast.cron.entries import WATCH_KIND
from holdfast.cron.fire import INLINE_QUEUE
from holdfast.cron.inline import InlineRun
from holdfast.cron.reports import FireStatus
from holdfast.cron.runner import CronRunner
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail
from holdfast.wire.records import to_record
from tests.unit.cron.crashing_store import CrashingStore

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECONDS = timedelta(seconds=1)

ENQUEUED, PENDING, DONE = FireStatus.ENQUEUED, FireStatus.PENDING, FireStatus.DONE
FAILED, BLOCKED = FireStatus.FAILED, FireStatus.BLOCKED


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


def settle(store, queue: str, *, fail: bool = False, count: int = 100) -> None:
    """End the due jobs of a queue."""
    for one in store.reserve([queue], limit=count, lease_for=10**7):
        ending = Fail(lease=one.lease, reason="broken") if fail else Ack(lease=one.lease)
        assert store.settle([ending]) == [None]


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
    assert store.reap(worker="other") == 1  # it was killed: its one attempt is used
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

    def lose(*args, **kwargs):
        del slow.enqueue
        assert statuses(CronRunner(faster).run()) == [("first", FAILED)]
        return store.enqueue(*args, **kwargs)

    slow.enqueue = lose
    assert statuses(runner.run()) == [("second", BLOCKED)]
    assert calls == []


def _inline_job(app, payload):
    return to_record(app.request("note", payload, queue=INLINE_QUEUE, max_attempts=1), now=0)


# Pending fires --------------------------------------------------------------------------------------------------


@pytest.fixture
def chain(app):
    """Schedules that wait for one another: load, transform, publish."""
    app.cron("load").daily(at="06:00").queue("loads").run("report", 1)
    app.cron("transform").daily(at="06:00").queue("transforms").depends_on("load", completed=True).run("report", 2)
    app.cron("publish").daily(at="06:00").queue("publications").depends_on("load", "transform", completed=True).run(
        "report", 3
    )
    return app


def queued(store) -> dict[str, int]:
    return {count.queue: count.ready for count in store.counts() if count.ready}


def test_a_completed_dependency_holds_the_fire_until_its_job_is_done(chain, clock, store):
    runner = CronRunner(chain)
    runner.run()
    clock.advance(MINUTE)
    assert statuses(runner.run()) == [("load", ENQUEUED), ("transform", PENDING), ("publish", PENDING)]
    assert queued(store) == {"loads": 1}
    clock.advance(2 * SECONDS)
    assert runner.run() == []
    settle(store, "loads")
    clock.advance(2 * SECONDS)
    assert statuses(runner.run()) == [("transform", ENQUEUED)]
    assert queued(store) == {"transforms": 1}
    settle(store, "transforms")
    clock.advance(5 * SECONDS)
    [published] = runner.run()
    assert (published.schedule, published.fire, published.status) == ("publish", SIX, ENQUEUED)
    assert store.scan(WATCH_KIND) == []


def test_a_pending_fire_waits_for_another_pending_fire(app, clock, store):
    app.cron("load").daily(at="06:00").queue("loads").run("report", 1)
    app.cron("transform").daily(at="06:00").queue("t").depends_on("load", completed=True).run("report", 2)
    app.cron("publish").daily(at="06:00").queue("p").depends_on("transform", completed=True).run("report", 3)
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    runner.run()
    fired = []
    for _ in range(3):  # the job of transform does not exist yet
        clock.advance(5 * SECONDS)
        fired += runner.run()
    assert fired == []
    for queue, schedule in (("loads", "transform"), ("t", "publish")):
        settle(store, queue)
        clock.advance(30 * SECONDS)
        assert statuses(runner.run()) == [(schedule, ENQUEUED)]


def test_a_pending_fire_is_dropped_if_the_job_of_its_dependency_is_dead(chain, clock, store, events):
    runner = CronRunner(chain)
    runner.run()
    clock.advance(MINUTE)
    runner.run()
    settle(store, "loads", fail=True)
    for _ in range(3):
        clock.advance(30 * SECONDS)
        assert runner.run() == []
    assert sorted(record.schedule for record in events.named("schedule.dropped")) == ["publish", "transform"]
    assert "is dead" in chain.schedules.get("transform").dropped_reason
    assert queued(store) == {}
    assert store.scan(WATCH_KIND) == []
    clock.advance(timedelta(days=1))  # the next day is another fire
    assert statuses(runner.run())[0] == ("load", ENQUEUED)


def test_a_pending_fire_is_dropped_if_its_schedule_was_paused_or_removed(chain, clock, store, events):
    runner = CronRunner(chain)
    runner.run()
    clock.advance(MINUTE)
    runner.run()
    chain.schedules.pause("transform")
    settle(store, "loads")
    clock.advance(30 * SECONDS)
    runner.run()
    assert events.named("schedule.dropped")[0].reason == "the schedule is paused"


def test_a_fire_waits_for_a_dependency_that_another_scheduler_has_fired_at_the_same_instant(
    app, make_app, clock, store
):
    """Two apps: one has the dependency, the other one has the schedule that waits for it."""
    app.cron("load").daily(at="06:00").queue("loads").run("report", 1)
    first = CronRunner(app)
    first.run()
    other = make_app()
    other.schedules.put(
        Schedule(
            name="publish",
            expression="0 6 * * *",
            type="report",
            queue="publications",
            depends_on=("load",),
            completed=True,
        )
    )
    second = CronRunner(other)
    clock.advance(MINUTE)
    assert second.run() == []  # the dependency is due, too, and another scheduler fires it
    assert statuses(first.run()) == [("load", ENQUEUED), ("publish", PENDING)]
    settle(store, "loads")
    clock.advance(30 * SECONDS)
    assert statuses(second.run()) == [("publish", ENQUEUED)]


def test_a_fire_waits_for_a_dependency_that_was_fired_in_an_earlier_tick_at_the_same_instant(app, make_app, clock):
    other = make_app()
    waiting = Schedule(
        name="publish", expression="0 6 * * *", type="report", queue="p", depends_on=("load",), completed=True
    )
    app.cron("load").daily(at="06:00").queue("loads").run("report", 1)
    first = CronRunner(app)
    first.run()
    other.schedules.put(waiting)
    other.schedules.pause("publish")
    clock.advance(MINUTE)
    assert statuses(first.run()) == [("load", ENQUEUED)]
    clock.advance(-MINUTE)
    other.schedules.resume("publish")
    clock.advance(MINUTE)
    assert statuses(CronRunner(other).run()) == [("publish", PENDING)]


def test_each_missed_fire_waits_for_the_fire_of_its_own_instant(app, clock, store):
    app.cron("load").every_minute().missed("all").queue("loads").run("report", 1)
    app.cron("publish").every_minute().missed("all").queue("p").depends_on("load", completed=True).run("report", 2)
    runner = CronRunner(app)
    runner.run()
    clock.advance(3 * MINUTE)
    fired = runner.run()
    loads = [one for one in fired if one.schedule == "load"]
    assert [one.status for one in fired] == [ENQUEUED] * 3 + [PENDING] * 3
    settle(store, "loads", count=1)  # the job of the first minute
    clock.advance(2 * SECONDS)
    [published] = runner.run()
    assert published.fire == loads[0].fire


def test_a_fire_without_a_queue_that_had_to_wait_becomes_a_job_of_its_handlers_queue(app, clock, store):
    app.cron("load").every_minute().queue("loads").run("report", 1)
    app.cron("publish").every_minute().depends_on("load", completed=True).run("report", 2)
    runner = CronRunner(app)
    assert statuses(runner.run(now=SIX)) == [("load", ENQUEUED), ("publish", PENDING)]
    clock.advance(MINUTE)
    settle(store, "loads")
    fired = [one for one in runner.run(now=SIX + 30 * SECONDS) if one.schedule == "publish"]
    assert store.get(fired[0].job_id).queue == "reports"


def test_a_fire_whose_dependency_could_not_be_enqueued_stays_due(app, clock, store):
    app.cron("load").every_minute().queue("loads").run("report", "bad")
    app.cron("publish").every_minute().queue("p").depends_on("load", completed=True).run("report", "good")
    app.cron("other").every_minute().queue("others").run("report", "good")

    @app.enqueue_middleware
    def refuse_bad(requests, call_next):
        if any(request.payload == "bad" for request in requests):
            raise ValueError("this payload is refused")
        return call_next(requests)

    runner = CronRunner(app)
    assert statuses(runner.run(now=SIX)) == [("other", ENQUEUED)]
    assert store.scan(WATCH_KIND) == []
    app.enqueue_middlewares.remove(refuse_bad)
    fired = runner.run(now=SIX + MINUTE)
    assert [one for one in statuses(fired) if one[0] == "publish"] == [("publish", PENDING)] * 2
