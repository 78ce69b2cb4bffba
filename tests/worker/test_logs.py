"""The log of a worker: what happened to every job, lease, child process and call to the store."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from datetime import timedelta

import pytest

from holdfast import Retry, Snooze, Unrecoverable
from holdfast.drivers.requests import Cancel, Reserve
from holdfast.errors import LeaseExpired, StoreUnavailable
from holdfast.log.events import EVENTS, WORKER_LOGGER
from holdfast.model.fingerprint import MAX_FRAME_CHARACTERS, MAX_FRAMES, failure_frames
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import make_reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.retry import Fixed
from holdfast.model.settlement import Ack, Fail
from holdfast.observability.log_format import JsonFormatter, TerminalFormatter
from holdfast.observability.logs import LogObserver
from holdfast.worker.expired_leases import ExpiredLease
from holdfast.worker.outcome import NOT_STARTED
from holdfast.worker.processes.running import ExitedChild, Run, StopReason
from holdfast.worker.status import Settled
from tests.waiting import wait_until

KNOWN = {event.name: event for event in EVENTS}
LEASE = timedelta(minutes=1)  # no lease is lost, however slow the machine is
STANDARD = set(vars(logging.makeLogRecord({}))) | {"message", "event"}


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in STANDARD}


@pytest.fixture
def logged(caplog):
    """The records of the worker; each is a known event with fields of that event."""

    def records(*names: str, job_id: str | None = None) -> list[logging.LogRecord]:
        own = [record for record in caplog.records if record.name == WORKER_LOGGER]
        for record in own:
            event = KNOWN[record.event]
            assert fields_of(record).keys() <= set(event.fields), record
            assert record.levelno in {event.level, logging.INFO}, record
        return [
            record
            for record in own
            if record.event in names and (job_id is None or getattr(record, "job_id", None) == job_id)
        ]

    with caplog.at_level(logging.DEBUG, WORKER_LOGGER):
        yield records


def test_every_ending_of_an_attempt_is_logged_with_its_job_and_its_reason(app, drain, logged):
    @app.handler("fails", queue="mail", max_attempts=2)
    def fails(_payload):
        raise ValueError("no such user\nin the list")

    @app.handler("crashes", max_attempts=1)
    def crashes(_payload):
        os._exit(3)

    @app.handler("snoozes")
    def snoozes(_payload, ctx):
        if not ctx.checkpoint:
            ctx.checkpoint = True
            raise Snooze(timedelta(milliseconds=10))

    @app.handler("asks")
    def asks(_payload, ctx):
        if ctx.attempt == 1:
            raise Retry(timedelta(milliseconds=10), "not yet")

    @app.handler("hopeless")
    def hopeless(_payload):
        raise Unrecoverable("gone")

    @app.handler("typed")
    def typed(payload: list[int]):
        pass

    @app.handler("hangs", max_attempts=1, timeout=timedelta(milliseconds=100))
    def hangs(_payload):
        os.read(os.pipe()[0], 1)

    ids = {task.definition.type: task.enqueue().id for task in (fails, crashes, snoozes, asks, hopeless, hangs)}
    ids["typed"] = app.client.enqueue(typed.definition.request({"a": 1})).id
    drain(name="w", lease=LEASE)

    def endings(type_: str) -> list[tuple[str, ...]]:
        names = [name for name in KNOWN if name.startswith("job.") and name != "job.reserved"]
        records = logged(*names, job_id=ids[type_])
        return [
            (record.event, record.levelname, record.reason) if hasattr(record, "reason") else (record.event,)
            for record in records
            if getattr(record, "reason", "") != NOT_STARTED  # a job that no child could start within a second
        ]

    assert endings("fails") == [
        ("job.retried", "WARNING", "ValueError"),
        ("job.dead", "ERROR", "attempts exhausted"),
    ]
    assert endings("crashes") == [
        ("job.crashed", "ERROR", "the process that ran it ended: exit code 3"),
        ("job.dead", "ERROR", "attempts exhausted"),
    ]
    assert endings("snoozes") == [("job.released", "INFO", "snoozed"), ("job.done",)]
    assert endings("asks") == [("job.retried", "WARNING", "retry asked for"), ("job.done",)]
    assert endings("hopeless") == [("job.dead", "ERROR", "gone")]
    assert endings("typed") == [("job.rejected", "ERROR", "bad payload")]
    assert endings("hangs") == [("job.dead", "ERROR", "attempts exhausted")]

    first, last = logged("job.retried", "job.dead", job_id=ids["fails"])
    assert (first.type, first.queue, first.attempt, first.max_attempts, first.worker) == ("fails", "mail", 1, 2, "w")
    assert (first.error, first.delay) == ("ValueError: no such user", 0.001)
    assert 0 <= first.duration < 60
    assert last.attempt == 2
    assert last.fence > first.fence
    assert [record.delay for record in logged("job.retried", job_id=ids["asks"])] == [0.01]
    [timed_out] = logged("job.dead", job_id=ids["hangs"])
    assert timed_out.error == "timed out after 100ms"
    assert timed_out.duration >= 0.1
    reserved = logged("job.reserved")
    assert {record.job_id for record in reserved} == set(ids.values())
    crashed = [record for record in logged("child.replaced") if record.reason == "crashed"]
    assert [record.exit for record in crashed] == ["exit code 3"]
    [started], [stopped] = logged("worker.started"), logged("worker.stopped")
    assert set(started.queues) == {"mail", "default"}
    assert stopped.statuses.pop("released") >= 1
    assert stopped.statuses == {"retried": 2, "dead": 4, "acked": 2, "rejected": 1}


def test_a_failure_is_logged_with_the_last_frames_of_the_handler(app, drain, logged):
    """At most a few short texts, and none in the text of the record, which stays one short line."""

    def dig(depth):
        dig_on(depth - 1)

    def dig_on(depth):  # Python would shorten a recursion of one function
        if depth > 0:
            dig(depth - 1)
        raise ValueError("x" * 10_000)

    @app.handler("deep", max_attempts=2, retry=Fixed(timedelta(0)))
    def deep(_payload):
        dig(30)

    @app.handler("short", max_attempts=1)
    async def short(_payload):
        raise KeyError("k") from OSError("the cause")

    deep.enqueue()
    short.enqueue()
    drain(lease=LEASE)
    retried, dead, dead_too = logged("job.retried", "job.dead")
    if dead.type == "short":
        dead, dead_too = dead_too, dead
    for record in (retried, dead):
        assert len(record.frames) == MAX_FRAMES
        assert all(re.fullmatch(r".*test_logs\.py:\d+ in .*dig(_on)?: .*", frame) for frame in record.frames)
        assert record.frames[-1].endswith('raise ValueError("x" * 10_000)')
    [frame] = dead_too.frames
    assert frame.endswith('short: raise KeyError("k") from OSError("the cause")')
    assert "frames" not in retried.getMessage()
    assert "raise" not in TerminalFormatter().format(retried)
    assert json.loads(JsonFormatter().format(retried))["frames"] == retried.frames


@pytest.mark.parametrize(
    ("error", "frames"),
    [
        ("", []),
        ("ValueError: no frames", []),
        (
            'E: x\n  File "/a.py", line 3, in f\n    g(1)\n    ~^^^\nfrom K: y\n  File "/b.py", line 1, in h',
            ["/a.py:3 in f: g(1)"],
        ),
        ('E: x\n  File "/a b.py", line 3, in <module>', ["/a b.py:3 in <module>"]),
        (
            'E: x\n  File "/a.py", line 3, in f\n  [Previous line repeated 7 more times]\n  File "/a.py", line 4, in g',
            ["/a.py:3 in f", "/a.py:4 in g"],
        ),
        (f'E: x\n  File "/a.py", line 3, in f\n    {"y" * 999}', [f"/a.py:3 in f: {'y' * 999}"[:MAX_FRAME_CHARACTERS]]),
    ],
)
def test_the_frames_of_an_error_text(error, frames):
    assert failure_frames(error) == frames


def test_a_stop_is_logged_with_its_reason_before_the_running_jobs_have_ended(app, logged):
    app.handler("long")(lambda _payload: time.sleep(60)).enqueue()
    options = {"processes": 1, "drain": timedelta(seconds=1), "grace": timedelta(seconds=1), "lease": LEASE}
    worker = app.worker(name="w", **options)
    running = threading.Thread(target=worker.run)
    running.start()
    wait_until(lambda: worker.running == 1)
    worker.stop()
    running.join(30)

    [stopping], [released] = logged("worker.stopping"), logged("job.released")
    assert (stopping.levelname, stopping.reason, stopping.running, stopping.drain) == (
        "INFO",
        "stop() was called",
        1,
        1.0,
    )
    assert stopping.created < released.created
    assert released.reason == "shutdown"


def test_a_recycled_child_is_logged(app, drain, logged):
    app.handler("t")(lambda payload: payload).enqueue_many(range(3))
    drain(processes=1, recycle_after=1, lease=LEASE)
    replaced = logged("child.replaced")
    assert replaced
    assert {(record.levelname, record.reason, record.exit, record.jobs) for record in replaced} == {
        ("INFO", "recycled", "exit code 0", 1)
    }


def test_a_level_that_is_off_makes_no_records(app, drain, caplog):
    app.handler("t", max_attempts=1)(lambda payload: 1 / payload).enqueue_many([1, 0])
    with caplog.at_level(logging.WARNING, WORKER_LOGGER):
        drain(lease=LEASE)
    assert [record.event for record in caplog.records] == ["job.dead"]


# Reports that a test cannot cause at will -------------------------------------------------------------------


@pytest.fixture
def observer():
    observer = LogObserver()
    observer.started("w", ["default"])
    return observer


def make_run() -> Run:
    job = JobRecord(id="j", type="t", queue="q", payload=b"1", created_at=0, attempts=1)
    return Run(1, make_reservation(job, "token", 7, 10))


def test_a_refused_settlement_and_a_lost_lease_are_logged(observer, logged):
    run = make_run()
    refused = LeaseExpired("j", expires_at=10, now=20)
    observer.settled([Settled(run, Ack(run.reservation.lease), refused, "lost")])
    observer.lease_lost(run, refused)
    observer.lease_lost(run, None)
    run.stop_reason = StopReason.LOST
    observer.lease_lost(run, refused)
    settled, beat, deadline = logged("job.lost", "lease.lost")
    assert (settled.verb, settled.fence, settled.job_id) == ("ack", 7, "j")
    assert settled.reason == beat.reason == f"LeaseExpired: {refused}"
    assert deadline.reason == "the store did not extend the lease in time"


def test_a_cancelled_job_and_reaped_leases_are_logged(observer, logged):
    run = make_run()
    observer.settled([Settled(run, Fail(run.reservation.lease, reason="cancelled"), None, "cancelled")])
    observer.reaped(3, [])
    cancelled, reaped = logged("job.cancelled", "lease.reaped")
    assert (cancelled.reason, reaped.leases, reaped.worker) == ("cancelled", 3, "w")


def test_leases_that_a_reserve_ends_are_logged_with_their_holder(app, drain, logged):
    task = app.handler("t")(lambda _payload: None)
    again, dead, cancelled = (task.enqueue(max_attempts=most).id for most in (2, 1, 2))
    app.driver.reserve(["default"], limit=3, lease_for=1, worker="gone")
    app.driver.do(Cancel(job_ids=[cancelled]))
    drain(processes=1, lease=LEASE, name="w")

    expired = logged("lease.expired")
    assert [record.job_id for record in expired] == [again, dead, cancelled]
    first = expired[0]
    assert (first.type, first.queue, first.attempt, first.fence) == ("t", "default", 1, 1)
    assert (first.holder, first.worker, first.levelname) == ("gone", "w", "WARNING")
    assert first.duration > 0
    [died] = logged("job.dead")
    assert (died.job_id, died.reason, died.worker, died.levelname) == (dead, "lease expired", "w", "ERROR")
    assert [record.job_id for record in logged("job.cancelled")] == [cancelled]
    assert [record.job_id for record in logged("job.done")] == [again]
    assert not logged("lease.reaped")


def test_leases_that_were_not_begun_are_logged_at_info(app, drain, logged):
    app.handler("t")(lambda _payload: None).enqueue()
    app.driver.do(Reserve(queues=["default"], limit=1, lease_for=1, worker="gone", prefetch=True))
    drain(processes=1, lease=LEASE)
    [expired] = logged("lease.expired")
    assert (expired.reason, expired.levelname) == ("not begun", "INFO")


def test_a_log_without_the_endings_of_jobs_only_counts_expired_leases(logged):
    row = LedgerRow(**dict.fromkeys(LedgerRow.__struct_fields__) | {"ending": Ending.EXPIRED, "state": State.DEAD})
    observer = LogObserver(statuses=["lost"])
    observer.started("w", ["q"])
    observer.reaped(2, [ExpiredLease(row=row)] * 2)
    assert not logged("lease.expired", "job.dead")
    assert [record.leases for record in logged("lease.reaped")] == [2]


def test_an_outage_of_the_store_is_logged_once_with_its_reason_and_once_with_its_length(observer, logged):
    for _ in range(5):
        observer.store_failed("reserve", StoreUnavailable("no route to the store"))
    observer.store_failed("settle", StoreUnavailable("no route to the store"))
    observer.reserved([], 0.1)
    observer.reserved([], 0.1)
    first, second, recovered = logged("store.failed", "store.recovered")
    assert (first.verb, first.reason) == ("reserve", "StoreUnavailable: no route to the store")
    assert second.verb == "settle"
    assert (recovered.event, recovered.verb, recovered.failures) == ("store.recovered", "reserve", 5)
    assert 0 <= recovered.duration < 60


def test_settlements_that_were_given_up_do_not_end_an_outage(observer, logged):
    run, error = make_run(), StoreUnavailable("no route to the store")
    observer.store_failed("settle", error)
    observer.settled([Settled(run, Ack(run.reservation.lease), error, "lost")])
    assert not logged("store.recovered")
    observer.settled([Settled(run, Ack(run.reservation.lease), None, "acked")])
    assert len(logged("store.recovered")) == 1


def test_a_heartbeat_without_leases_ends_its_outage_silently(observer, logged):
    for leases in (0, 2):
        observer.store_failed("extend", StoreUnavailable("no route to the store"))
        observer.extended(leases, 0.0)
    assert len(logged("store.failed")) == 2
    assert len(logged("store.recovered")) == 1


def test_a_killed_child_is_logged_with_its_signal(observer, logged):
    observer.child_exited(ExitedChild(17, -9, "killed", 3))
    [replaced] = logged("child.replaced")
    assert (replaced.pid, replaced.exit, replaced.reason, replaced.jobs) == (17, "killed by SIGKILL", "killed", 3)
