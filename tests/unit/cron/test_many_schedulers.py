"""Several schedulers on one store: each fire happens once, also if they die between any two calls of the store."""

from __future__ import annotations

import itertools
import random
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.clock import ManualClock, from_datetime
from holdfast.connect import connect
from holdfast.cron.entries import DUE_KIND
from holdfast.cron.runner import CronRunner
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Enqueue, Read, Scan
from holdfast.errors import ScheduleConflict
from holdfast.model.filters import JobFilter
from holdfast.model.settlement import Ack
from tests.unit.cron.crashing_store import CrashingStore, Died

START = datetime(2027, 5, 3, 5, 59, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class WithoutWrites(CrashingStore):
    """A store that cannot write to the registry in the transaction of an enqueue."""

    @property
    def capabilities(self):
        declared = self.store.capabilities
        return replace(declared, gaps={**declared.gaps, Feature.WRITES: "a test"})


def make_app(store, clock) -> Holdfast:
    app = Holdfast(driver=store, clock=clock)

    @app.handler("report", queue="reports")
    def report(payload):
        pass

    app.cron("a").every_minute().queue("reports").missed("all").run(report, None)
    app.cron("b").every_minutes(2).queue("reports").missed("all").depends_on("a").run(report, None)
    app.cron("c").every_minutes(3).queue("reports").missed("all").run(report, None)
    return app


def jobs(store) -> list[tuple[str, str]]:
    found = list(store.find(JobFilter(), limit=10_000))
    return sorted(
        (job.meta["holdfast.schedule"], job.meta["holdfast.fire"]) for job in found if "holdfast.schedule" in job.meta
    )


def end_jobs(store) -> None:
    """End every job that is due, as a worker does."""
    reserved = store.reserve(["reports"], limit=1000, lease_for=10**9)
    store.settle([Ack(lease=one.lease) for one in reserved])


def expected(minutes: int) -> list[tuple[str, str]]:
    """The fires of the first minutes after six, by hand."""
    found = []
    for minute in range(minutes):
        at = f"2027-05-03T06:{minute:02d}:00Z"
        found += [(name, at) for name, step in (("a", 1), ("b", 2), ("c", 3)) if minute % step == 0]
    return sorted(found)


def drive(clock, store, tick, minutes: int) -> None:
    """Call ``tick`` for some minutes, and once more."""
    tick()
    for _ in range(minutes):
        clock.advance(MINUTE)
        tick()
        end_jobs(store)
    clock.advance(timedelta(seconds=29))
    tick()
    end_jobs(store)


def fire_with_a_death(at: int, *, before: bool) -> bool:
    """Let the first scheduler die at a call of the store, and check all fires; return whether it had so many calls."""
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:
        runner = CronRunner(make_app(CrashingStore(store, at=at, before=before), clock))
        has_died = False

        def tick() -> None:
            nonlocal runner, has_died
            try:
                runner.run()
            except Died:
                has_died = True
                runner = CronRunner(make_app(store, clock))
                runner.run()

        drive(clock, store, tick, 4)
        assert jobs(store) == expected(4), f"died {'before' if before else 'after'} call {at}"
        assert len(store.do(Scan(kind=DUE_KIND))) == 3  # one for each schedule
        return has_died


@pytest.mark.parametrize("before", [True, False], ids=["before the call", "before its answer"])
def test_a_scheduler_that_dies_at_any_call_fires_nothing_twice_and_loses_nothing(before):
    calls = next(at for at in itertools.count(1) if not fire_with_a_death(at, before=before))
    assert calls > 20  # there were calls to die at


@pytest.mark.parametrize("seed", range(5))
def test_schedulers_that_take_turns_and_die_at_random_fire_each_fire_once(seed):
    rng = random.Random(seed)
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:

        def start():
            crashing = CrashingStore(store, at=rng.randint(1, 40), before=rng.random() < 0.5)
            return CronRunner(make_app(crashing, clock))

        runners = [start() for _ in range(3)]
        CronRunner(make_app(store, clock)).run()
        for _ in range(60):
            clock.advance(timedelta(seconds=rng.uniform(1, 30)))
            place = rng.randrange(3)
            try:
                runners[place].run()
            except Died:
                runners[place] = start()
            if rng.random() < 0.5:
                end_jobs(store)
        for _ in range(4):
            clock.advance(timedelta(seconds=31))
            CronRunner(make_app(store, clock)).run()
            end_jobs(store)
        minutes = int((clock.now() / 1_000_000 - START.timestamp() - 30) // 60) + 1
        found = [one for one in jobs(store) if one[1] < f"2027-05-03T06:{minutes - 1:02d}:00Z"]
        assert found == [one for one in expected(minutes) if one[1] < f"2027-05-03T06:{minutes - 1:02d}:00Z"]


def test_schedulers_in_threads_fire_each_fire_once():
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:
        runners = [CronRunner(make_app(store, clock)) for _ in range(4)]
        barrier = threading.Barrier(len(runners))
        failures: list[BaseException] = []

        def work(runner):
            try:
                for _ in range(10):
                    barrier.wait(60)
                    runner.run()
                    barrier.wait(60)
                    if runner is runners[0]:
                        end_jobs(store)
                        clock.advance(MINUTE)
            except BaseException as error:
                failures.append(error)
                barrier.abort()

        threads = [threading.Thread(target=work, args=(each,)) for each in runners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not failures
        clock.advance(-MINUTE)
        runners[0].run()
        clock.advance(timedelta(seconds=10))
        runners[0].run()
        assert jobs(store) == expected(9)


def test_a_store_without_writes_of_an_enqueue_finds_the_job_of_a_fire_by_its_id():
    """The weaker way: a scheduler that dies between the enqueue and the write leaves the fire due."""
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:
        at = 1
        plain = WithoutWrites(store)
        runner = CronRunner(make_app(plain, clock))
        runner.run()
        for minute in range(12):
            clock.advance(MINUTE)
            dying = CronRunner(make_app(CrashingStore(plain, at=at, before=minute % 2 == 0), clock))
            try:
                dying.run()
            except Died:
                at += 1
            runner.run()
            end_jobs(store)
        clock.advance(timedelta(seconds=29))
        runner.run()
        assert at > 5
        assert jobs(store) == expected(12)


def test_a_fire_that_another_scheduler_was_faster_with_does_not_stop_the_others():
    """The other scheduler fires one of the schedules between the read and the enqueue of this one."""
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:
        slow = CrashingStore(store)
        runner = CronRunner(make_app(slow, clock))
        runner.run()
        clock.advance(MINUTE)
        faster = Holdfast(driver=store, clock=clock)

        def pause_one(request):
            if isinstance(request, Enqueue):
                del slow.do
                faster.schedules.pause("c")
            return store.do(request)

        slow.do = pause_one
        assert sorted(fired.schedule for fired in runner.run()) == ["a", "b"]


@pytest.mark.parametrize("times", [1, 3, 100])
def test_schedules_that_another_scheduler_changes_meanwhile_are_declared_again(times):
    """The other scheduler changes one of the schedules between the read and the write of this one."""
    clock = ManualClock(from_datetime(START))
    with connect("memory://", clock=clock) as store:
        CronRunner(make_app(store, clock)).run()
        faster, slow, changes = Holdfast(driver=store, clock=clock), CrashingStore(store), iter(range(times))

        def change_one(request):
            answer = store.do(request)
            if isinstance(request, Read) and next(changes, None) is not None:
                faster.schedules.pause("c")
                faster.schedules.resume("c")
            return answer

        slow.do = change_one
        app = Holdfast(driver=slow, clock=clock)
        for name in ("c", "d"):
            app.cron(name).every_minutes(10).run("report", None)
        runner = CronRunner(app)
        if times == 100:
            with pytest.raises(ScheduleConflict, match="schedule c"):
                runner.run()
            assert faster.schedules.get("d") is None
        else:
            runner.run()
            assert [faster.schedules.get(name).schedule for name in ("c", "d")] == list(app.declared_schedules())
