"""Seed 000: the flow of a job from its enqueue to its end, under leases and heartbeats.

A case cites the line of the seed that it proves. Where the seed has a trap, the case shows what Holdfast does instead:
tokens are never rotated (94), a crash uses an attempt (114), a type without a handler waits for one (96). Handlers run
in child processes under ``Worker.run``; a store in memory has none, so those cases run on the other stores.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from holdfast import Client, JobRequest, Unrecoverable, Worker
from holdfast.clock import HOUR, SECOND, to_datetime
from holdfast.driver import Ack, Fail, Lease, Retry, State
from holdfast.drivers.requests import Inspect, Reap
from holdfast.errors import InvalidInput, JobNotInflight, LeaseExpired, LeaseMismatch
from holdfast.retry import Fixed, NoDelay
from holdfast.testing.drivers.harness import LEASE, START
from tests.harnesses import SHARED_STORES
from tests.waiting import wait_until

in_child_processes = pytest.mark.parametrize("harness", SHARED_STORES, indirect=True)

VERBS = {
    "ExtendLease": lambda h, lease: h.extend(lease),
    "Ack": lambda h, lease: h.settle(Ack(lease)),
    "Retry": lambda h, lease: h.settle(Retry(lease)),
    "Fail": lambda h, lease: h.settle(Fail(lease, reason="broken")),
}
every_verb = pytest.mark.parametrize("call", VERBS.values(), ids=VERBS)


# Enqueue ------------------------------------------------------------------------------------------------------


def test_driver_client_worker_register_enqueue(h):
    """64-68: choose a driver, NewClient, NewWorker, Register, Enqueue."""
    client, worker = Client(h.store), Worker(h.store)
    worker.register("double", lambda payload: payload * 2)
    job = client.enqueue(JobRequest(type="double", payload=21))
    assert worker.process_once().status == "acked"
    assert client.result(job.id) == 42


def test_the_client_validates_a_request(app):
    """11: validate request."""
    for wrong in ({"type": ""}, {"type": "t", "max_attempts": 0}, {"type": "t", "timeout": timedelta(seconds=-1)}):
        with pytest.raises(InvalidInput):
            app.client.enqueue(JobRequest(**wrong))
    assert app.driver.counts() == []


def test_the_client_fills_in_id_queue_time_and_attempts(app):
    """11: normalize defaults, generate ID, set CreatedAt, Attempts=0."""
    first, second = (app.client.get(app.client.enqueue(JobRequest(type="t")).id) for _ in range(2))
    assert first.id != second.id
    assert (first.queue, first.attempts, first.run_at) == ("default", 0, None)
    assert abs(datetime.now(UTC) - to_datetime(first.created_at)) < timedelta(hours=1)


def test_any_payload_is_stored_as_json_bytes(app):
    """12: encoded by codec, JSON by default."""
    for payload in ({"a": [1, None]}, "text", 3.5, None):
        job = app.client.enqueue(JobRequest(type="t", payload=payload))
        assert isinstance(app.client.get(job.id).payload, bytes)
    assert app.client.get(job.id).payload == b"null"


def test_the_record_keeps_what_the_request_says(app):
    """13: Type, Queue, RunAt, Timeout, MaxAttempts."""
    job = app.client.enqueue(
        JobRequest(type="t", queue="q", run_at=to_datetime(START), timeout=timedelta(seconds=5), max_attempts=3)
    )
    record = app.client.get(job.id)
    assert (record.type, record.queue, record.run_at) == ("t", "q", START)
    assert (record.timeout, record.max_attempts) == (5 * SECOND, 3)


# Reserve ------------------------------------------------------------------------------------------------------


def test_runnable_jobs_are_reserved_in_the_order_of_arrival(h):
    """73: runnable FIFO."""
    jobs = [h.enqueue_job().id for _ in range(3)]
    assert [h.reserve_one().job.id for _ in jobs] == jobs


def test_a_scheduled_job_is_reserved_once_it_is_due(h):
    """74, 79: RunAt is in the future; promote due scheduled jobs."""
    later = h.enqueue_job(run_at=h.now + 2 * SECOND).id
    sooner = h.enqueue_job(run_at=h.now + SECOND).id
    assert h.reserve(2) == []
    h.advance(SECOND)
    assert h.reserve_ids(2) == [sooner]
    h.advance(SECOND)
    assert h.reserve_ids(2) == [later]


def test_reserve_returns_the_record_and_a_lease(h):
    """84-86: Token (random), ExpiresAt = now + leaseDuration."""
    first, second = h.reserve_new_job(), h.reserve_new_job()
    assert first.job.state is State.INFLIGHT
    assert first.lease.expires_at == h.now + LEASE
    assert first.lease.token != second.lease.token


def test_an_empty_queue_gives_nothing(h):
    """83: pop 1 runnable job (if any)."""
    h.enqueue_job(queue="other")
    assert h.reserve() == []


def test_a_leased_job_is_not_reserved_again(h):
    """59: no double processing during a valid lease."""
    h.reserve_new_job()
    h.advance(LEASE - 1)
    assert h.reserve() == []


def test_a_job_is_reservable_again_the_moment_its_lease_expires(h):
    """60, 81: worker dies, lease.ExpiresAt <= now, job becomes runnable immediately."""
    dead_worker = h.reserve_new_job()
    h.advance(LEASE)
    again = h.reserve_one()
    assert again.job.id == dead_worker.job.id
    assert again.job.attempts == 2


# Validation ---------------------------------------------------------------------------------------------------


@every_verb
def test_a_call_for_a_job_that_is_not_in_flight_changes_nothing(h, call):
    """44: ErrJobNotInflight."""
    lease = Lease(job_id=h.enqueue_job().id, token="1.0", fence=1, expires_at=h.now + LEASE)
    with h.assert_unchanged():
        assert isinstance(call(h, lease)[0], JobNotInflight)


@every_verb
def test_a_stale_worker_changes_nothing(h, call):
    """44, 61: ErrLeaseMismatch; old worker cannot Ack/Retry/Fail/ExtendLease."""
    old = h.reserve_new_job().lease
    h.advance(LEASE)
    h.reserve_one()
    with h.assert_unchanged():
        assert isinstance(call(h, old)[0], LeaseMismatch)


@every_verb
def test_a_call_after_the_end_of_the_lease_changes_nothing(h, call):
    """44: ErrLeaseExpired."""
    lease = h.reserve_new_job().lease
    h.advance(LEASE)
    with h.assert_unchanged():
        assert isinstance(call(h, lease)[0], LeaseExpired)


# Heartbeat ----------------------------------------------------------------------------------------------------


def test_extend_moves_the_end_of_the_lease(h):
    """62, 93: ExpiresAt = now + leaseDuration, return updated Lease."""
    lease = h.reserve_new_job().lease
    h.advance(LEASE - 1)
    extended = h.must_extend(lease)
    assert extended.expires_at == h.now + LEASE
    h.advance(LEASE - 1)
    assert h.reserve() == []


def test_the_token_is_never_rotated(h):
    """94, 101: may rotate token. Here the lease before and the lease after an extend both prove the ownership."""
    lease = h.reserve_new_job().lease
    extended = h.must_extend(lease)
    assert extended.token == lease.token
    h.must_settle(Ack(lease))
    h.must_settle(Ack(extended))  # the same settlement again


def test_a_heartbeat_keeps_the_lease_of_a_long_job(app):
    """36, 99-103: every HeartbeatInterval ExtendLease; stop heartbeat, Ack with the latest lease."""

    @app.handler("long")
    def long(_payload, ctx):
        def end():
            return app.driver.do(Inspect(job_ids=[ctx.job.id]))[ctx.job.id].expires_at

        first = end()
        wait_until(lambda: end() > first)

    job = long.enqueue()
    assert app.worker(lease=timedelta(seconds=2)).process_once().status == "acked"
    assert app.client.get(job.id).attempts == 1


@in_child_processes
def test_a_handler_whose_lease_is_lost_is_stopped(app, tmp_path):
    """95: ExtendLease returns error, cancel jobCtx."""

    @app.handler("long", max_attempts=1)
    def long(_payload):
        (tmp_path / "started").touch()
        try:
            while True:
                time.sleep(0.01)
        finally:
            (tmp_path / "stopped").touch()

    long.enqueue()
    worker = app.worker(processes=1, lease=timedelta(seconds=2), until_drained=True, name="w")
    running = threading.Thread(target=worker.run)
    worker.prepare()
    running.start()
    wait_until((tmp_path / "started").exists)
    assert app.driver.do(Reap(worker="w")).count == 1
    running.join()
    assert (tmp_path / "stopped").exists()


# Execution ----------------------------------------------------------------------------------------------------


def test_a_handler_sees_the_job(app):
    """30: Job.ID, Type, Payload, Queue, RunAt, Timeout, CreatedAt."""
    seen = []
    run_at = datetime(2020, 1, 1, tzinfo=UTC)
    handler = app.handler("t", queue="q", timeout=timedelta(minutes=1))(lambda _payload, ctx: seen.append(ctx.job))
    job = handler.enqueue({"a": 1}, run_at=run_at)
    assert app.worker().process_once().status == "acked"
    [got] = seen
    assert (got.id, got.type, got.payload, got.queue) == (job.id, "t", {"a": 1}, "q")
    assert (got.run_at, got.timeout) == (run_at, timedelta(minutes=1))
    assert got.created_at == to_datetime(app.client.get(job.id).created_at)


def test_middleware_wraps_the_handler(app):
    """32: user middleware chain."""
    calls = []
    for name in ("outer", "inner"):

        @app.middleware
        def note(_ctx, call_next, name=name):
            calls.append(name)
            return call_next()

    app.handler("t")(lambda _: calls.append("handler")).enqueue()
    app.worker().process_once()
    assert calls == ["outer", "inner", "handler"]


def test_an_exception_is_a_failed_attempt(app):
    """32, 98: Recover (panic -> error)."""
    job = app.handler("t")(lambda _: 1 / 0).enqueue()
    assert app.worker().process_once().status == "retried"
    assert "ZeroDivisionError" in app.client.get(job.id).last_error


@in_child_processes
def test_a_job_that_exceeds_its_timeout_fails(app):
    """32: Timeout (ctx cancel on job.Timeout)."""
    job = app.handler("t", max_attempts=1)(lambda _: time.sleep(60)).enqueue(timeout=timedelta(milliseconds=50))
    assert app.worker(processes=1, until_drained=True).run() == {"dead": 1}
    assert "timed out" in app.client.get(job.id).last_error


def test_a_job_without_a_handler_waits_for_a_worker_that_has_one(h):
    """88, 96: no handler registered. A worker of an older release must not end the jobs of a newer one."""
    job = Client(h.store).enqueue(JobRequest(type="new"))
    old, new = Worker(h.store), Worker(h.store)
    old.register("old", lambda _: None)
    new.register("new", lambda _: None)
    assert old.process_once().status == "empty"
    assert new.process_once().job_id == job.id


@in_child_processes
def test_a_worker_runs_as_many_jobs_at_once_as_it_may(app):
    """21: concurrency-limited."""
    running, pair = [], threading.Barrier(2)

    @app.handler("t")
    def count(payload):
        running.append(payload)
        at_once = len(running)
        pair.wait(60)
        running.remove(payload)
        return at_once

    jobs = count.enqueue_many(range(4))
    assert app.worker(processes=1, concurrency=2, until_drained=True).run() == {"acked": 4}
    assert max(app.client.result(job.id) for job in jobs) == 2


@in_child_processes
def test_a_worker_stops_when_it_is_told_to(app):
    """21: obeys ctx cancellation."""
    stop = threading.Event()
    job = app.handler("t")(lambda _: "done").enqueue()
    worker = app.worker(processes=1)
    worker.prepare()
    running = threading.Thread(target=worker.run, args=(stop,))
    running.start()
    app.client.wait(job.id, timeout=60)
    stop.set()
    running.join()
    assert worker.tally.statuses == {"acked": 1}


# Settlement ---------------------------------------------------------------------------------------------------


def test_a_job_that_succeeds_is_done(h):
    """103-106: Ack, terminal success."""
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.advance(LEASE)
    assert h.state(reservation.job.id) is State.DONE
    assert h.reserve() == []


def test_a_failed_job_runs_again_after_the_delay_of_its_policy(app):
    """109, 114: nextAttempts = attempts+1, nextRunAt = now + delay."""
    job = app.handler("t", retry=Fixed(timedelta(hours=1)))(lambda _: 1 / 0).enqueue()
    worker = app.worker()
    assert [worker.process_once().status for _ in range(2)] == ["retried", "empty"]
    record = app.client.get(job.id)
    assert (record.state, record.attempts) == (State.READY, 1)
    assert record.run_at == record.failed_at + HOUR


def test_a_retry_updates_the_record(h):
    """53, 117, 119: RetryUpdate {RunAt, Attempts, LastError, FailedAt}; RunAt future, scheduled."""
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, delay=HOUR, error="no answer"))
    record = h.get(reservation.job.id)
    wanted = replace(record, run_at=h.now + HOUR, attempts=1, last_error="no answer", failed_at=h.now)
    assert record == wanted
    assert h.reserve() == []
    h.advance(HOUR)
    assert h.reserve_one().job.attempts == 2


def test_a_retry_without_a_delay_is_runnable_at_once(h):
    """118: RunAt==0, runnable."""
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease))
    assert h.reserve_one().job.id == reservation.job.id


def test_a_job_without_attempts_left_is_a_dead_letter(app):
    """108: attempts exhausted."""
    job = app.handler("t", max_attempts=2, retry=NoDelay())(lambda _: 1 / 0).enqueue()
    worker = app.worker()
    assert [worker.process_once().status for _ in range(3)] == ["retried", "dead", "empty"]
    record = app.client.get(job.id)
    assert (record.state, record.dead_reason) == (State.DEAD, "attempts exhausted")


def test_an_unrecoverable_job_is_a_dead_letter_at_once(app):
    """108: unrecoverable."""

    @app.handler("t")
    def never(_payload):
        raise Unrecoverable("no such customer")

    job = never.enqueue()
    assert app.worker().process_once().status == "dead"
    assert app.client.get(job.id).attempts == 1


def test_fail_stores_a_dead_letter_with_its_reason(h):
    """110-112: Fail(id, token, now, reason), store DLQ entry."""
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="broken", error="ValueError"))
    record = h.get(reservation.job.id)
    assert (record.state, record.dead_reason, record.last_error) == (State.DEAD, "broken", "ValueError")
    assert h.reserve() == []
