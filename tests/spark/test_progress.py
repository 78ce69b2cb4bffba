"""The progress of a run, from the counts of the store and the status of the slots."""

import msgspec
import pytest

import holdfast
import holdfast.driver
from holdfast.app import Holdfast
from holdfast.clock import MINUTE
from holdfast.drivers.requests import Cancel, Write
from holdfast.model.registry import Change
from holdfast.spark.execution import progress
from holdfast.spark.execution.progress import ProgressMonitor
from holdfast.spark.execution.run_spec import SLOT_STATUS_KIND, RunSpec, SlotStatus
from holdfast.worker.options import WorkerOptions


@pytest.fixture
def store():
    with holdfast.connect("memory://") as opened:
        yield opened


@pytest.fixture
def monitor(store, monkeypatch):
    """The monitor of a run over ten jobs. The store has counted them, and does not count again."""
    monkeypatch.setattr(progress, "COUNT_PAUSE_FACTOR", 1e9)
    app = Holdfast(driver=store)
    handle = app.handler("t")(lambda payload: payload)
    app.client.enqueue([handle.request(number) for number in range(10)])
    return ProgressMonitor(
        store, RunSpec(run="r", url="", space="main", catalogue=app.catalogue, options=WorkerOptions())
    )


def report(store, slot, **status):
    value = msgspec.json.encode(SlotStatus(**status))
    store.do(Write(changes=[Change(kind=SLOT_STATUS_KIND, key=f"r/1/{slot}/0", value=value, ttl=MINUTE)]))


def numbers(seen):
    return seen.ready + seen.inflight, seen.done, seen.dead


def test_between_two_counts_the_slots_report_what_has_ended(store, monitor):
    assert numbers(monitor.read()) == (10, 0, 0)
    report(store, 0, settled={"acked": 3, "retried": 5}, held=2, executor="host:17")
    report(store, 1, settled={"dead": 1, "rejected": 1})
    seen = monitor.read()
    assert numbers(seen) == (5, 3, 2)
    assert seen.settled["retried"] == 5
    assert [(slot.executor, slot.held) for slot in seen.slots] == [("host:17", 2), ("", 0)]
    assert seen.busy == 1
    assert seen.rate > 0


def test_late_reports_of_slots_do_not_lower_the_numbers(store, monitor):
    for each in store.reserve(["default"], limit=5, lease_for=MINUTE):
        holdfast.driver.ack(store, each.lease)
    report(store, 0, settled={"acked": 2})
    assert numbers(monitor.read()) == (8, 2, 0)
    assert numbers(monitor.read(final=True)) == (5, 5, 0)
    report(store, 0, settled={"acked": 4})
    assert numbers(monitor.read()) == (5, 5, 0)


def test_a_slot_that_ended_is_not_listed_but_its_attempts_count(store, monitor):
    report(store, 0, settled={"acked": 4}, alive=False)
    seen = monitor.read()
    assert (seen.slots, seen.done) == ((), 4)


def test_the_final_progress_is_exact(store, monitor):
    reservations = store.reserve(["default"], limit=2, lease_for=MINUTE)
    holdfast.driver.ack(store, reservations[0].lease)
    assert numbers(monitor.read()) == (10, 0, 0)
    seen = monitor.read(final=True)
    assert (seen.ready, seen.inflight, seen.done, seen.dead) == (8, 1, 1, 0)


def test_slots_of_other_runs_and_jobs_of_other_types_do_not_count(store, monitor):
    store.do(
        Write(changes=[Change(kind=SLOT_STATUS_KIND, key="rest/1/0/0", value=b'{"settled":{"acked":5}}', ttl=MINUTE)])
    )
    holdfast.Client(store).enqueue([holdfast.JobRequest(type="other")])
    assert numbers(monitor.read(final=True)) == (10, 0, 0)


def test_rows_that_are_not_stored_yet_count_as_ready(store, monitor):
    with_rows = ProgressMonitor(store, monitor._spec, rows=100)
    assert numbers(with_rows.read()) == (100, 0, 0)
    report(store, 0, settled={"acked": 30})
    assert numbers(with_rows.read()) == (70, 30, 0)
    for each in store.reserve(["default"], limit=10, lease_for=MINUTE):
        holdfast.driver.ack(store, each.lease)
    report(store, 0, settled={"acked": 10})
    assert numbers(with_rows.read(final=True)) == (0, 10, 0)  # the other rows were equal to these


def test_cancelled_jobs_are_not_dead(store, monitor):
    report(store, 0, settled={"acked": 1, "dead": 1, "cancelled": 3})
    seen = monitor.read()
    assert (seen.done, seen.dead, seen.cancelled, seen.ended) == (1, 1, 3, 5)
    store.do(Cancel(job_ids=[job.id for job in store.find(limit=4).items]))
    seen = monitor.read(final=True)
    assert (seen.dead, seen.cancelled, seen.ready) == (1, 4, 4)


@pytest.fixture
def clock(monkeypatch):
    """The time that the monitor reads: a list with one number of seconds."""
    now = [1000.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    return now


def test_no_time_is_estimated_before_enough_jobs_have_ended(store, clock, monitor):
    """The first jobs end long after the start: Spark starts executors, and slots import the handlers."""
    with_rows = ProgressMonitor(store, monitor._spec, rows=10_000)
    seen = {}
    for second, acked in [(0, 0), (20, 1), (20.5, 3), (21, 40), (22, 140), (24, 340), (26, 540)]:
        clock[0] = 1000.0 + second
        report(store, 0, settled={"acked": acked})
        seen[second] = with_rows.read().left
    assert [second for second, left in seen.items() if left is not None] == [24, 26]
    assert seen[26] == pytest.approx((10_000 - 540) / 100, rel=0.1)


def test_the_time_of_slow_jobs_is_estimated_from_all_of_them(store, clock, monitor):
    with_rows = ProgressMonitor(store, monitor._spec, rows=100)
    for minute in range(12):
        clock[0] = 1000.0 + 60 * minute
        report(store, 0, settled={"acked": minute})
        seen = with_rows.read()
    assert seen.left == pytest.approx(89 * 60, rel=0.1)
