"""The table of transitions in docs/explanation/states.md, row by row."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

import holdfast
from holdfast.driver import HOUR, MINUTE, SECOND, Ack, Fail, JobRecord, Lease, ManualClock, Release, Retry, Settlement
from holdfast.drivers.requests import Cancel, Inspect, Reap, Requeue, Reserve

EXPIRY = MINUTE - SECOND - HOUR  # the end of the lease, relative to the reap an hour later


class Jobs:
    """A store whose jobs are each alone in a queue that has the name of the job."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = holdfast.connect("memory://", clock=self.clock)
        self.numbers = count()

    def enqueue(self, **fields: Any) -> str:
        job_id = f"job-{next(self.numbers)}"
        record = JobRecord(id=job_id, type="t", queue=job_id, payload=b"", created_at=self.clock.now(), **fields)
        self.store.enqueue([record])
        return job_id

    def reserve(self, *, prefetch: bool = False, cancel: bool = False, **fields: Any) -> Lease:
        """Return the lease of a new job, a second after its reservation."""
        job_id = self.enqueue(**fields)
        [reservation] = self.store.do(
            Reserve(queues=[job_id], limit=1, lease_for=MINUTE, prefetch=prefetch)
        ).reservations
        if cancel:
            assert self.store.do(Cancel(job_ids=[job_id])) == ["inflight"]
        self.clock.advance(SECOND)
        return reservation.lease

    def expire(self, lease: Lease) -> None:
        self.clock.advance(HOUR)
        assert self.store.reap([lease.job_id]) == 1

    def row(self, job_id: str) -> tuple[object, ...]:
        """Return state, attempts, crashes, run_at and available_at relative to now, ending, and reason of death."""
        inspection = self.store.do(Inspect(job_ids=[job_id]))[job_id]
        assert inspection is not None
        job, now = inspection.job, self.clock.now()
        run_at = None if job.run_at is None else job.run_at - now
        ending = self.store.ledger().items[-1].ending
        return job.state, job.attempts, job.crashes, run_at, inspection.available_at - now, ending, job.dead_reason


@pytest.fixture
def jobs():
    jobs = Jobs()
    yield jobs
    jobs.store.close()


def retry(**options: Any) -> Callable[[Lease], Settlement]:
    return lambda lease: Retry(lease, **options)


def release(**options: Any) -> Callable[[Lease], Settlement]:
    return lambda lease: Release(lease, **options)


def fail(lease: Lease) -> Settlement:
    return Fail(lease, reason="no")


@pytest.mark.parametrize(
    ("settlement", "job", "row"),
    [
        (Ack, {}, ("done", 1, 0, None, -SECOND, "acked", None)),
        (Ack, {"cancel": True}, ("done", 1, 0, None, -SECOND, "acked", None)),
        (retry(), {}, ("ready", 1, 0, None, 0, "retried", None)),
        (retry(delay=HOUR), {}, ("ready", 1, 0, HOUR, HOUR, "retried", None)),
        (retry(), {"max_attempts": 1}, ("dead", 1, 0, None, -SECOND, "retried", "attempts exhausted")),
        (retry(), {"crashes": 2}, ("ready", 1, 0, None, 0, "retried", None)),
        (retry(), {"cancel": True}, ("cancelled", 1, 0, None, -SECOND, "cancelled", None)),
        (retry(crashed=True), {"crashes": 1}, ("ready", 1, 2, None, 0, "retried", None)),
        (retry(crashed=True), {"crashes": 2}, ("dead", 1, 3, None, -SECOND, "retried", "poison")),
        (
            retry(crashed=True),
            {"crashes": 2, "max_attempts": 1},
            ("dead", 1, 3, None, -SECOND, "retried", "attempts exhausted"),
        ),
        (fail, {}, ("dead", 1, 0, None, -SECOND, "failed", "no")),
        (fail, {"cancel": True}, ("cancelled", 1, 0, None, -SECOND, "cancelled", None)),
        (release(), {"crashes": 2}, ("ready", 0, 2, None, -SECOND, "released", None)),
        (release(), {"cancel": True}, ("cancelled", 0, 0, None, -SECOND, "cancelled", None)),
        (release(delay=HOUR), {}, ("ready", 0, 0, HOUR, HOUR, "released", None)),
        (release(budget=0), {}, ("dead", 0, 0, None, -SECOND, "released", "released too long")),
    ],
)
def test_a_settlement(jobs, settlement, job, row):
    lease = jobs.reserve(**job)
    assert jobs.store.settle([settlement(lease)]) == [None]
    assert jobs.row(lease.job_id) == row


@pytest.mark.parametrize(
    ("job", "row"),
    [
        ({}, ("ready", 1, 1, None, EXPIRY, "expired", None)),
        ({"crashes": 9, "max_crashes": None}, ("ready", 1, 10, None, EXPIRY, "expired", None)),
        ({"prefetch": True, "max_attempts": 1}, ("ready", 0, 0, None, EXPIRY, "expired", None)),
    ],
)
def test_an_expiry_that_makes_the_job_ready_again(jobs, job, row):
    lease = jobs.reserve(run_at=jobs.clock.now(), **job)
    jobs.expire(lease)
    assert jobs.row(lease.job_id) == row


@pytest.mark.parametrize(
    ("job", "state", "ending", "reason"),
    [
        ({"max_attempts": 1}, "dead", "expired", "lease expired"),
        ({"max_attempts": 1, "crashes": 2}, "dead", "expired", "lease expired"),
        ({"crashes": 2}, "dead", "expired", "poison"),
        ({"max_attempts": 1, "cancel": True}, "cancelled", "cancelled", None),
    ],
)
def test_an_expiry_that_ends_the_job(jobs, job, state, ending, reason):
    lease = jobs.reserve(**job)
    jobs.expire(lease)
    ended = jobs.row(lease.job_id)
    assert (ended[0], *ended[-2:]) == (state, ending, reason)


def test_a_report_of_an_outage(jobs):
    lease = jobs.reserve()
    jobs.clock.advance(HOUR)
    assert jobs.store.do(Reap(leases=[lease])).reported == [True]
    assert jobs.row(lease.job_id) == ("ready", 1, 0, None, EXPIRY, "expired", None)


def test_a_cancel_and_a_requeue(jobs):
    job_id = jobs.enqueue(run_at=jobs.clock.now() + HOUR)
    assert jobs.store.do(Cancel(job_ids=[job_id])) == ["cancelled"]
    assert jobs.row(job_id) == ("cancelled", 0, 0, HOUR, HOUR, "cancelled", None)
    jobs.clock.advance(SECOND)
    assert jobs.store.do(Requeue(job_ids=[job_id])) == [True]
    assert jobs.row(job_id) == ("ready", 0, 0, None, 0, "requeued", None)
