"""A tick costs what is due, in calls of the store and in entries that it reads: not what exists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.app import Holdfast
from holdfast.connect import connect
from holdfast.cron import Schedule
from holdfast.cron import runner as runners
from holdfast.cron.runner import CronRunner
from holdfast.drivers.requests import Scan
from tests.unit.cron.crashing_store import CrashingStore

SIX = datetime(2027, 5, 3, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATER = "0 7 * * *"


@pytest.fixture
def counted(store, clock):
    """A store that counts calls, and an app on it."""
    counting = CrashingStore(store)
    return counting, Holdfast(driver=counting, clock=clock)


def put(app, count, expression, prefix):
    for number in range(count):
        app.schedules.put(
            Schedule(name=f"{prefix}-{number:05d}", expression=expression, type="report", queue="reports")
        )


def calls_of(counting, runner) -> list[str]:
    counting.calls.clear()
    runner.run()
    return list(counting.calls)


@pytest.mark.parametrize("existing", [0, 300])
def test_a_tick_without_due_work_is_one_scan(counted, existing):
    counting, app = counted
    put(app, existing, LATER, "later")
    runner = CronRunner(app)
    runner.run()
    assert calls_of(counting, runner) == ["write", "scan"]  # the write reads the clock: the loop does it once a minute


@pytest.mark.parametrize("existing", [0, 300])
@pytest.mark.parametrize(("due", "scans"), [(1, 1), (15, 1), (40, 2)])
def test_a_tick_with_due_work_is_three_calls_and_one_more_for_each_page(counted, clock, existing, due, scans):
    counting, app = counted
    put(app, existing, LATER, "later")
    put(app, due, "0 6 * * *", "due")
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    assert calls_of(counting, runner) == ["write", *["scan"] * scans, "read", "enqueue"]


def test_schedules_of_code_are_read_when_a_scheduler_starts_and_not_in_every_tick(counted, clock):
    counting, app = counted
    for number in range(50):
        app.cron(f"code-{number}").expression(LATER).queue("reports").run("report", None)
    runner = CronRunner(app)
    assert calls_of(counting, runner) == ["write", "read", "write", "scan"]
    assert calls_of(counting, CronRunner(app)) == ["write", "read", "scan"]  # they are stored already
    clock.advance(timedelta(seconds=50))
    assert calls_of(counting, runner) == ["write", "scan"]


def test_more_schedules_than_one_round_takes_fire_in_one_tick(counted, clock, monkeypatch):
    _, app = counted
    monkeypatch.setattr(runners, "MAX_DUE_KEYS", 20)
    put(app, 100, "0 6 * * *", "due")
    runner = CronRunner(app)
    runner.run()
    clock.advance(MINUTE)
    assert len(runner.run()) == 100


def test_a_page_of_the_index_is_bounded_on_every_driver(tmp_path, clock):
    """The first page of the index has a few entries: an idle tick reads no more."""
    with connect(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as store:
        app = Holdfast(driver=store, clock=clock)
        put(app, 40, LATER, "later")
        read = []
        runner = CronRunner(app)
        runner.run()
        do = store.do

        def count(request):
            answer = do(request)
            if isinstance(request, Scan):
                read.append(len(answer))
            return answer

        store.do = count
        runner.run()
        assert read == [16]
