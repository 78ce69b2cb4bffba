"""Single instance: a lock with an owner, bound to the lease; the others are released and refunded."""

import threading
import time
from datetime import timedelta

import pytest
from msgspec.structs import replace

from holdfast import Holdfast, JobBuilder, JobRequest, connect
from holdfast.clock import SECOND, ManualClock
from holdfast.drivers.requests import Inspect, Reap, Scan, Write
from holdfast.errors import InvalidInput
from holdfast.model.registry import Change
from holdfast.model.request import META_SINGLE_INSTANCE
from holdfast.wire.guard_entries import LOCK_KIND, lock_key
from holdfast.worker.guard import Guard
from holdfast.worker.heartbeat import Heartbeat
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.running import Run
from holdfast.worker.timing import WorkerTiming
from holdfast.worker.worker import Worker

LEASE = timedelta(hours=1)


@pytest.fixture
def clock():
    return ManualClock(1_800_000_000 * SECOND)


@pytest.fixture
def app(clock):
    app = Holdfast(driver=connect("memory://", clock=clock), clock=clock)
    yield app
    app.close()


def locks(app):
    return app.driver.do(Scan(kind=LOCK_KIND))


@pytest.fixture
def work(app):
    """A function that runs job 0 of these requests while another worker tries the others; returns the statuses."""
    requests, statuses = [], []

    def run(payload):
        if payload == 0:
            statuses.extend(app.worker(lease=LEASE).process_once().status for _ in requests[1:])

    def start(*wanted):
        requests[:] = wanted
        statuses.clear()
        ids = [app.client.enqueue(each).id for each in wanted]
        statuses.append(app.worker(lease=LEASE).process_once().status)
        return statuses, ids

    return run, start


def test_one_job_of_a_queue_and_type_runs_at_a_time(app, work, clock):
    run, start = work
    app.handler("t", single_instance=True)(run)
    app.handler("u", single_instance=True)(run)
    statuses, ids = start(*(JobRequest(type=type_, payload=place) for place, type_ in enumerate("tut")))
    assert statuses == ["acked", "released", "acked"]  # u, the second t, and the first t at its end
    job = app.client.get(ids[2])
    assert (job.state, job.attempts) == ("ready", 0)
    row = next(row for row in app.driver.ledger().items if row.job_id == job.id)
    assert (row.ending, row.detail) == ("released", f"its single-instance lock is held by job {ids[0]}")
    assert locks(app) == []  # removed with the ack
    clock.advance(10 * SECOND)
    assert app.worker().process_once().status == "acked"


def test_jobs_carry_their_own_lock_and_share_a_named_one(app, work):
    run, start = work
    app.handler("t")(run)
    app.handler("u", single_instance="printer")(run)
    requests = [
        JobRequest(type="t", payload=0, single_instance="printer"),
        JobBuilder("t").single_instance("printer").build().request(1),
        JobRequest(type="u", payload=2),
        JobRequest(type="t", payload=3, single_instance=True),
        JobRequest(type="t", payload=4),
    ]
    statuses, ids = start(*requests)
    assert statuses == ["released", "released", "acked", "acked", "acked"]
    assert app.client.get(ids[1]).meta == {META_SINGLE_INSTANCE: "printer"}


def test_the_values_of_single_instance_are_checked(app):
    for wrong in ("", 1, None, "x" * 257):
        with pytest.raises(InvalidInput, match="single_instance"):
            JobRequest(type="t", single_instance=wrong)
        with pytest.raises(InvalidInput, match="single_instance"):
            app.handler("t", single_instance=wrong)(print)
    definition = JobBuilder("t").single_instance().build()
    assert definition.request(1).single_instance is True
    assert definition.with_single_instance("x").request(1).single_instance == "x"


def test_contention_ends_in_a_dead_letter_when_the_budget_is_spent(app, clock):
    other = Worker(
        app.driver,
        WorkerOptions(lease=LEASE),
        catalogue=app.catalogue,
        timing=WorkerTiming(contention_budget_seconds=10.0),
    )
    statuses = []

    @app.handler("t", single_instance=True)
    def work(payload):
        while payload == 0 and not app.client.get(second.id).state.has_ended:
            clock.advance(3 * SECOND)
            statuses.append(other.process_once().status)

    work.enqueue(0)
    second = work.enqueue(1)
    assert app.worker(lease=LEASE).process_once().status == "acked"
    assert app.client.get(second.id).dead_reason == "released too long"
    assert set(statuses) == {"released"}
    assert len(statuses) >= 3


@pytest.mark.parametrize("ending", ["failed", "crashed"])
def test_an_attempt_that_did_not_succeed_leaves_no_lock(app, clock, ending):
    class Killed(BaseException):
        pass

    @app.handler("t", single_instance=True)
    def work(_payload):
        raise ValueError if ending == "failed" else Killed

    job = work.enqueue(1)
    if ending == "failed":
        assert app.worker().process_once().status == "retried"
        assert locks(app) == []
        return
    with pytest.raises(Killed):
        app.worker(lease=LEASE).process_once()
    [left] = locks(app)
    assert left.expires_at == clock.now() + int(LEASE.total_seconds()) * SECOND  # as long as the lease
    app.driver.do(Reap(worker=app.driver.do(Inspect(job_ids=[job.id]))[job.id].worker))
    with pytest.raises(Killed):  # the next attempt takes the lock over
        app.worker(lease=LEASE).process_once()


def take(app, clock):
    """Reserve a job and take its lock; return the guard, the run and the entry."""
    [reservation] = app.driver.reserve(["default"], limit=1, lease_for=int(LEASE.total_seconds()) * SECOND)
    guard = Guard(app.driver, app.catalogue, WorkerOptions(lease=LEASE))
    run = Run(1, reservation)
    assert guard.admit([run]) == ([run], [])
    return guard, run, locks(app)[0]


def test_a_heartbeat_keeps_the_lock_and_reports_one_that_another_took(app, clock):
    app.handler("t", single_instance=True)(lambda payload: payload).enqueue(1)
    guard, run, taken = take(app, clock)
    lost = []
    heartbeat = Heartbeat(
        app.driver,
        lease_for=int(LEASE.total_seconds()) * SECOND,
        on_lost=lambda *_: None,
        on_cancel=lambda _: None,
        on_lock_lost=lost.append,
        extend_locks=guard.extend,
    )
    heartbeat.add([run])
    clock.advance(SECOND)
    assert heartbeat.beat() == 1
    [kept] = locks(app)
    assert (kept.expires_at, lost) == (taken.expires_at + SECOND, [])
    change = Change(kind=LOCK_KIND, key=lock_key("default", "t", None), value=kept.value)
    app.driver.do(Write(changes=[change]))  # a write of the worker whose answer was lost
    assert guard.extend([run]) == []
    app.driver.do(Write(changes=[replace(change, value=b'{"job_id": "another", "fence": 9}')]))
    heartbeat.beat()
    assert lost == [run]
    [left] = locks(app)
    assert b"another" in left.value


def test_only_its_owner_removes_a_lock(app):
    @app.handler("t", single_instance=True)
    def work(_payload):
        app.driver.do(Write(changes=[Change(kind=LOCK_KIND, key=lock_key("default", "t", None), value=b"of another")]))

    job = work.enqueue(1)
    assert app.worker().process_once().status == "acked"
    assert app.client.get(job.id).state == "done"
    assert [entry.value for entry in locks(app)] == [b"of another"]


def test_a_worker_with_many_children_runs_one_at_a_time(tmp_path):
    app, trace = Holdfast(f"sqlite:///{tmp_path}/jobs.db"), tmp_path / "trace"

    @app.handler("t", single_instance=True)
    def work(payload):
        with trace.open("a") as lines:
            lines.write(f"in {payload}\n")
            lines.flush()
            time.sleep(0.01)
            lines.write(f"out {payload}\n")

    work.enqueue_many(range(6))
    options = WorkerOptions(processes=2, lease=timedelta(seconds=30), until_drained=True)
    timing = WorkerTiming(contention_delay_seconds=0.02)
    tally = Worker(app.driver, options, catalogue=app.catalogue, timing=timing).run()
    assert tally["acked"] == 6
    lines = trace.read_text().split()
    assert [lines[place] for place in range(0, len(lines), 4)] == ["in"] * 6
    assert all(lines[place + 1] == lines[place + 3] for place in range(0, len(lines), 4))
    assert locks(app) == []
    app.close()


def test_a_worker_stops_an_attempt_whose_lock_is_gone(tmp_path):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.handler("t", single_instance=True)
    def work(_payload):
        while True:
            time.sleep(0.01)

    job = work.enqueue(1)
    worker = app.worker(processes=1, lease=timedelta(seconds=9), max_jobs=1)
    thread = threading.Thread(target=worker.run, daemon=True)
    worker.prepare()
    thread.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not worker.running:
        time.sleep(0.01)
    app.driver.do(Write(changes=[Change(kind=LOCK_KIND, key=lock_key("default", "t", None), value=b"of another")]))
    thread.join(60)
    assert not thread.is_alive()
    assert worker.tally.statuses == {"released": 1}
    assert app.client.get(job.id).attempts == 0
    app.close()
