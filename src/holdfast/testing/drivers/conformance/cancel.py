"""Cancel jobs: ready jobs at once, running jobs by a request to their worker."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.errors import JobNotInflight
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.settle import SETTLEMENTS
from holdfast.testing.drivers.harness import LEASE, Harness

JOBS = {Feature.JOBS}


@case("L9", needs=JOBS)
def a_ready_job_is_cancelled_at_once(h: Harness) -> None:
    job = h.enqueue_job()
    h.advance(SECOND)
    assert_equal(h.cancel(job.id), [State.CANCELLED], "the answer")
    assert_equal(h.state(job.id), State.CANCELLED, "the state")
    assert_equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    assert_equal(h.reserve(), [], "reserved afterwards")


@case("L9", needs={Feature.SCHEDULE, Feature.JOBS})
def a_scheduled_job_is_cancelled_at_once(h: Harness) -> None:
    job = h.enqueue_job(run_at=h.now + SECOND)
    assert_equal(h.cancel(job.id), [State.CANCELLED], "the answer")
    h.advance(SECOND)
    assert_equal(h.reserve(), [], "reserved when it would have been due")


@case("L9", needs={Feature.SCHEDULE, Feature.JOBS})
def a_job_in_backoff_is_cancelled_at_once(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, delay=SECOND))
    assert_equal(h.cancel(reservation.job.id), [State.CANCELLED], "the answer")
    h.advance(SECOND)
    assert_equal(h.reserve(), [], "reserved when it would have been due")


@case("L5", needs=JOBS)
def a_running_job_continues_and_extend_reports_the_cancel_request(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert not h.inspect(reservation.job.id).cancel_requested, "wanted no request before the cancel"
    assert_equal(h.cancel(reservation.job.id), [State.INFLIGHT], "the answer")
    inspection = h.inspect(reservation.job.id)
    assert_equal(
        (inspection.cancel_requested, inspection.fence), (True, reservation.lease.fence), "cancel_requested and fence"
    )
    assert h.must_extend(reservation.lease).cancel_requested, "wanted extend to report the request"
    assert_equal(h.ledger(), [], "the ledger")


@case("L5", needs=JOBS)
def extend_reports_no_cancel_request_for_other_jobs(h: Harness) -> None:
    first, second = h.reserve_new_job(), h.reserve_new_job()
    h.cancel(first.job.id)
    assert not h.must_extend(second.lease).cancel_requested, "wanted extend to report no request for the other job"


@case("L5", needs={Feature.JOBS, Feature.RESULT})
def an_ack_wins_over_a_cancel(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.cancel(reservation.job.id)
    h.must_settle(Ack(reservation.lease, result=b"1"))
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.result), (State.DONE, b"1"), "state and result")
    assert_equal([row.ending for row in h.ledger()] or [Ending.ACKED], [Ending.ACKED], "the ledger")


def _cancelled_by(h: Harness, verb: str) -> None:
    reservation = h.reserve_new_job()
    h.cancel(reservation.job.id)
    h.must_settle(SETTLEMENTS[verb](reservation.lease))
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.dead_reason, job.dead_at), (State.CANCELLED, None, None), "the job")
    assert_equal(h.inspect(reservation.job.id).ended_at, h.now, "ended_at")
    endings = [(row.ending, row.state, row.fence) for row in h.ledger()]
    wanted = [(Ending.CANCELLED, State.CANCELLED, reservation.lease.fence)]
    assert_equal(endings or wanted, wanted, "the ledger")
    assert_equal(h.reserve(), [], "reserved afterwards")


@case("L13", needs=JOBS)
def a_retry_after_a_cancel_request_makes_the_job_cancelled(h: Harness) -> None:
    _cancelled_by(h, "retry")


@case("L13", needs=JOBS)
def a_fail_after_a_cancel_request_makes_the_job_cancelled(h: Harness) -> None:
    _cancelled_by(h, "fail")


@case("L13", needs=JOBS)
def a_release_after_a_cancel_request_makes_the_job_cancelled(h: Harness) -> None:
    _cancelled_by(h, "release")


@case("L13", needs=JOBS)
def an_expired_lease_after_a_cancel_request_makes_the_job_cancelled(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.cancel(reservation.job.id)
    assert_equal(h.expire_leases(), 1, "reaped")
    assert_equal(
        (h.state(reservation.job.id), h.get(reservation.job.id).dead_reason),
        (State.CANCELLED, None),
        "state and reason",
    )
    wanted = [(Ending.CANCELLED, State.CANCELLED, reservation.lease.fence)]
    assert_equal([(row.ending, row.state, row.fence) for row in h.ledger()] or wanted, wanted, "the ledger")


@case("L13", needs=JOBS)
def the_last_attempt_after_a_cancel_request_makes_no_dead_letter(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.cancel(reservation.job.id)
    h.must_settle(Retry(reservation.lease, error="stopped"))
    assert_equal(h.state(reservation.job.id), State.CANCELLED, "the state")


@case("L5", needs=JOBS)
def a_cancel_after_the_lease_expired_takes_effect_at_the_reap(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    assert_equal(h.cancel(reservation.job.id), [State.INFLIGHT], "the answer")
    assert_equal(h.reserve(), [], "reserved")
    assert_equal(h.state(reservation.job.id), State.CANCELLED, "the state")


@case("L9", needs=JOBS)
def cancel_returns_the_state_of_each_job_in_order(h: Harness) -> None:
    done, dead, running = h.reserve_new_job(), h.reserve_new_job(), h.reserve_new_job()
    h.must_settle(Ack(done.lease), Fail(dead.lease, reason="no"))
    waiting = h.enqueue_job()
    answers = h.cancel(running.job.id, "unknown", dead.job.id, waiting.id, done.job.id)
    wanted = [State.INFLIGHT, None, State.DEAD, State.CANCELLED, State.DONE]
    assert_equal(answers, wanted, "the answers")


@case("L9", needs=JOBS)
def a_cancel_of_an_ended_job_changes_nothing(h: Harness) -> None:
    done, dead, cancelled = h.reserve_new_job(), h.reserve_new_job(), h.enqueue_job()
    h.must_settle(Ack(done.lease), Fail(dead.lease, reason="no"))
    h.cancel(cancelled.id)
    with h.assert_unchanged():
        h.cancel(done.job.id, dead.job.id, cancelled.id, cancelled.id)


@case("L9", needs=JOBS)
def a_job_that_appears_twice_in_a_cancel_batch_is_cancelled_once(h: Harness) -> None:
    job = h.enqueue_job()
    assert_equal(h.cancel(job.id, job.id), [State.CANCELLED, State.CANCELLED], "the answers")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L9", needs=JOBS)
def a_requeue_clears_the_cancel_request(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.cancel(reservation.job.id)
    h.must_settle(Release(reservation.lease))
    assert_equal(h.requeue(reservation.job.id), [True], "requeued")
    again = h.reserve_one()
    assert not h.must_extend(again.lease).cancel_requested, "wanted the request cleared"
    h.must_settle(Retry(again.lease))
    assert_equal(h.state(reservation.job.id), State.READY, "the state")


@case("L5", needs=JOBS)
def a_cancelled_job_cannot_be_settled_by_the_worker_that_had_it_before(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease))
    h.cancel(reservation.job.id)
    with h.assert_unchanged():
        assert_answers(h.settle(Ack(reservation.lease)), JobNotInflight)
        assert_answers(h.extend(reservation.lease), JobNotInflight)


@case("L9", needs=JOBS)
def an_empty_cancel_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.cancel(), [], "the answers")
