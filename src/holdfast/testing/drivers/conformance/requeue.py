"""Requeue dead and cancelled jobs (L9)."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

JOBS = {Feature.JOBS}


@case("L9", needs={Feature.JOBS, Feature.PRIORITY})
def a_requeued_dead_letter_is_ready_and_available_at_once(h: Harness) -> None:
    reservation = h.reserve_new_job(meta={"a": 1}, priority=3)
    failed_at = h.now
    h.must_settle(Fail(reservation.lease, reason="no", error="boom"))
    h.advance(SECOND)
    assert_equal(h.requeue(reservation.job.id), [True], "the answer")
    wanted = replace(reservation.job, state=State.READY, attempts=0, last_error="boom", failed_at=failed_at)
    assert_equal(h.get(reservation.job.id), wanted, "the job")
    inspection = h.inspect(reservation.job.id)
    assert_equal((inspection.available_at, inspection.ended_at), (h.now, None), "available_at and ended_at")


@case("L9", "L7", needs=JOBS)
def a_requeued_job_has_all_its_attempts_again(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=2)
    h.must_settle(Retry(reservation.lease))
    h.must_settle(Retry(h.reserve_one().lease))
    assert_equal(h.state(reservation.job.id), State.DEAD, "the state")
    h.requeue(reservation.job.id)
    for attempt in (1, 2):
        again = h.reserve_one()
        assert_equal(again.job.attempts, attempt, "attempts")
        h.must_settle(Retry(again.lease))
    assert_equal(h.state(reservation.job.id), State.DEAD, "the state")


@case("L9", "L7", needs=JOBS)
def a_requeued_poison_job_starts_without_crashes(h: Harness) -> None:
    reservation = h.reserve_new_job(max_crashes=1)
    h.expire_leases()
    h.requeue(reservation.job.id)
    again = h.reserve_one()
    assert_equal((again.job.attempts, again.job.crashes, again.job.dead_reason), (1, 0, None), "the job")


@case("L9", needs=JOBS)
def a_cancelled_job_can_be_requeued(h: Harness) -> None:
    job = h.enqueue_job()
    h.cancel(job.id)
    assert_equal(h.requeue(job.id), [True], "the answer")
    assert_equal(h.reserve_ids(), [job.id], "reserved")


@case("L9", needs=JOBS)
def jobs_that_are_not_dead_or_cancelled_are_not_requeued(h: Harness) -> None:
    done, running = h.reserve_new_job(), h.reserve_new_job()
    h.must_settle(Ack(done.lease))
    waiting = h.enqueue_job()
    with h.assert_unchanged():
        answers = h.requeue(done.job.id, running.job.id, waiting.id, "unknown")
        assert_equal(answers, [False] * 4, "the answers")


@case("L9", needs=JOBS)
def a_job_that_appears_twice_in_a_requeue_batch_is_requeued_once(h: Harness) -> None:
    job = h.enqueue_job()
    h.cancel(job.id)
    assert_equal(h.requeue(job.id, "unknown", job.id), [True, False, False], "the answers")
    assert_equal(h.reserve_ids(5), [job.id], "the jobs reserved")


@case("L9", needs=JOBS)
def a_requeued_job_can_become_dead_and_be_requeued_again(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=1)
    for _ in range(3):
        reservation = h.reserve_one()
        assert_equal(reservation.job.attempts, 1, "attempts")
        h.must_settle(Retry(reservation.lease))
        assert_equal(h.requeue(job.id), [True], "the answer")
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.state(job.id), State.DONE, "the state")


@case("L9", "L5", needs=JOBS)
def a_requeued_job_gets_a_new_lease_with_a_larger_fence(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.requeue(reservation.job.id)
    again = h.reserve_one()
    assert again.lease.fence > reservation.lease.fence, "wanted a larger fence"
    h.advance(LEASE - 1)
    h.must_settle(Ack(again.lease))


@case("L9", needs=JOBS)
def an_empty_requeue_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.requeue(), [], "the answers")
