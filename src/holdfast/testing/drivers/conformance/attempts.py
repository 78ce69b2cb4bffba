"""Retries, releases and crashes: how attempts are counted and when they are exhausted (L7, L8, L9)."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import DAY, SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.model import transition
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

SCHEDULING = {Feature.SCHEDULE}


@case("L7")
def a_retry_makes_the_job_ready_and_stores_its_error(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    h.must_settle(Retry(reservation.lease, error="Timeout: ü"))
    wanted = replace(reservation.job, state=State.READY, last_error="Timeout: ü", failed_at=h.now)
    assert_equal(h.get(reservation.job.id), wanted, "the job")
    assert_equal(h.inspect(reservation.job.id).available_at, h.now, "available_at")


@case("L7", "L1", needs=SCHEDULING)
def a_retry_waits_for_its_delay_by_the_stores_clock(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    h.must_settle(Retry(reservation.lease, delay=10))
    assert_equal(h.get(reservation.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    assert_equal(h.reserve(), [], "a microsecond before the delay is over")
    h.advance(1)
    assert_equal(h.reserve_ids(), [reservation.job.id], "when the delay is over")


@case("L7", needs=SCHEDULING)
def a_retry_waits_for_its_run_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, run_at=h.now + 10))
    assert_equal(h.get(reservation.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    assert_equal(h.reserve(), [], "a microsecond before run_at")
    h.advance(1)
    assert_equal(h.reserve_ids(), [reservation.job.id], "at run_at")


@case("L7", needs=SCHEDULING)
def a_retry_without_delay_clears_the_old_run_at(h: Harness) -> None:
    reservation = h.reserve_new_job(run_at=h.now - 5)
    h.must_settle(Retry(reservation.lease))
    assert_equal(h.get(reservation.job.id).run_at, None, "run_at")
    assert_equal(h.inspect(reservation.job.id).available_at, h.now, "available_at")


@case("L7", "L9")
def a_retry_with_no_attempts_left_makes_a_dead_letter(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.advance(SECOND)
    h.must_settle(Retry(reservation.lease, error="boom"))
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.dead_reason), (State.DEAD, transition.ATTEMPTS_EXHAUSTED), "state and reason")
    assert_equal((job.last_error, job.failed_at, job.dead_at), ("boom", h.now, h.now), "error and instants")
    assert_equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    h.advance(DAY)
    assert_equal((h.reap(), h.reserve()), (0, []), "reaped and reserved afterwards")


@case("L7")
def a_job_runs_exactly_max_attempts_times(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=3)
    runs = 0
    while reservations := h.reserve():
        runs += 1
        assert_equal(reservations[0].job.attempts, runs, "attempts")
        h.must_settle(Retry(reservations[0].lease))
    assert_equal((runs, h.state(job.id)), (3, State.DEAD), "the number of runs and the final state")


@case("L7")
def an_expired_lease_uses_its_attempt_and_counts_as_a_crash(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_equal(h.expire_leases(), 1, "reaped")
    assert_equal(h.get(reservation.job.id), replace(reservation.job, state=State.READY, crashes=1), "the job")
    assert_equal(h.reserve_one().job.attempts, 2, "attempts at the next reservation")


@case("L7", needs=SCHEDULING)
def an_expired_lease_clears_run_at(h: Harness) -> None:
    reservation = h.reserve_new_job(run_at=h.now - 5)
    h.expire_leases()
    assert_equal(h.get(reservation.job.id).run_at, None, "run_at")


@case("L7")
def an_expired_lease_keeps_the_error_of_the_previous_attempt(h: Harness) -> None:
    reservation = h.reserve_new_job()
    failed_at = h.now
    h.must_settle(Retry(reservation.lease, error="first"))
    h.reserve_one()
    h.expire_leases()
    job = h.get(reservation.job.id)
    assert_equal((job.last_error, job.failed_at), ("first", failed_at), "last_error and failed_at")


@case("L7", "L9")
def a_last_attempt_that_expires_makes_a_dead_letter(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.expire_leases()
    job = h.get(reservation.job.id)
    assert_equal(
        (job.state, job.dead_reason, job.dead_at), (State.DEAD, transition.LEASE_EXPIRED, h.now), "the dead letter"
    )
    assert_equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    assert_equal(h.reserve(), [], "reserved afterwards")


@case("L7", "L9")
def max_crashes_in_a_row_make_a_dead_letter_as_poison(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=3)
    for crashes in (1, 2, 3):
        h.reserve_one()
        h.expire_leases()
        assert_equal(h.get(job.id).crashes, crashes, "crashes")
        assert_equal(h.state(job.id), State.DEAD if crashes == 3 else State.READY, f"the state after crash {crashes}")
    assert_equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def max_crashes_may_be_one(h: Harness) -> None:
    reservation = h.reserve_new_job(max_crashes=1)
    h.expire_leases()
    assert_equal(h.get(reservation.job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def a_job_without_max_crashes_is_never_poison(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=None, max_attempts=10)
    for _ in range(6):
        h.reserve_one()
        h.expire_leases()
    assert_equal((h.state(job.id), h.get(job.id).crashes), (State.READY, 6), "state and crashes")


@case("L7")
def exhaustion_is_reported_before_poison(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1, max_crashes=1)
    h.expire_leases()
    assert_equal(h.get(reservation.job.id).dead_reason, transition.LEASE_EXPIRED, "the reason")


@case("L7")
def a_retry_resets_the_crashes_in_a_row(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=2)
    for _ in range(3):
        h.reserve_one()
        h.expire_leases()
        assert_equal(h.get(job.id).crashes, 1, "crashes after an expiry")
        h.must_settle(Retry(h.reserve_one().lease))
        assert_equal(h.get(job.id).crashes, 0, "crashes after a retry")


@case("L7")
def a_retry_marked_as_crashed_counts_as_a_crash(h: Harness) -> None:
    """A worker whose child process died settles at once and does not wait until the lease expires."""
    job = h.enqueue_job(max_crashes=3)
    h.reserve_one(lease_for=1)
    h.advance(1)
    for crashes, state in ((2, State.READY), (3, State.DEAD)):
        reservation = h.reserve_one()
        h.must_settle(Retry(reservation.lease, error="signal 11", crashed=True))
        assert_equal((h.get(job.id).crashes, h.state(job.id)), (crashes, state), "crashes and state")
    assert_equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def a_crash_in_the_last_attempt_is_reported_as_exhaustion(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1, max_crashes=1)
    h.must_settle(Retry(reservation.lease, crashed=True))
    assert_equal(h.get(reservation.job.id).dead_reason, transition.ATTEMPTS_EXHAUSTED, "the reason")


@case("L7", "L8")
def a_release_keeps_the_crashes_in_a_row(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=2)
    h.reserve_one()
    h.expire_leases()
    h.must_settle(Release(h.reserve_one().lease))
    assert_equal(h.get(job.id).crashes, 1, "crashes")
    h.reserve_one()
    h.expire_leases()
    assert_equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L8")
def a_release_refunds_the_attempt_and_stores_no_error(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    h.must_settle(Release(reservation.lease))
    assert_equal(h.get(reservation.job.id), replace(reservation.job, state=State.READY, attempts=0), "the job")
    assert_equal(h.reserve_one().job.attempts, 1, "attempts at the next reservation")


@case("L8")
def releases_use_no_attempts(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=1)
    for _ in range(5):
        reservation = h.reserve_one()
        assert_equal(reservation.job.attempts, 1, "attempts")
        h.must_settle(Release(reservation.lease))
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.state(job.id), State.DONE, "the state")


@case("L8", needs=SCHEDULING)
def a_release_waits_for_its_delay(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Release(reservation.lease, delay=10))
    assert_equal(h.get(reservation.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    assert_equal(h.reserve(), [], "a microsecond before the delay is over")
    h.advance(1)
    assert_equal(h.reserve_ids(), [reservation.job.id], "when the delay is over")


@case("L8", needs=SCHEDULING)
def a_release_without_delay_keeps_run_at(h: Harness) -> None:
    reservation = h.reserve_new_job(run_at=h.now - 5)
    h.must_settle(Release(reservation.lease))
    assert_equal(h.get(reservation.job.id).run_at, h.now - 5, "run_at")


@case("L8")
def a_release_keeps_the_error_of_the_previous_attempt(h: Harness) -> None:
    reservation = h.reserve_new_job()
    failed_at = h.now
    h.must_settle(Retry(reservation.lease, error="first"))
    h.must_settle(Release(h.reserve_one().lease))
    job = h.get(reservation.job.id)
    assert_equal((job.last_error, job.failed_at), ("first", failed_at), "last_error and failed_at")


@case("L8", "L9", needs=SCHEDULING)
def a_job_released_beyond_its_budget_becomes_a_dead_letter(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(3)  # in flight for 3, delayed by 4, in flight for 2, delayed by 1: ten in total
    h.must_settle(Release(reservation.lease, delay=4, budget=10))
    h.advance(4)
    reservation = h.reserve_one()
    h.advance(2)
    h.must_settle(Release(reservation.lease, delay=1, budget=10))
    assert_equal(h.state(reservation.job.id), State.READY, "the state at the limit of the budget")
    h.advance(1)
    reservation = h.reserve_one()
    h.advance(1)
    h.must_settle(Release(reservation.lease, budget=10))
    job = h.get(reservation.job.id)
    assert_equal(
        (job.state, job.dead_reason), (State.DEAD, transition.RELEASED_TOO_LONG), "state and reason beyond the budget"
    )
    assert_equal((job.dead_at, h.inspect(job.id).ended_at), (h.now, h.now), "dead_at and ended_at")


@case("L8")
def a_counted_attempt_resets_the_release_budget(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(8)
    h.must_settle(Release(reservation.lease, budget=10))
    h.must_settle(Retry(h.reserve_one().lease))
    reservation = h.reserve_one()
    h.advance(8)
    h.must_settle(Release(reservation.lease, budget=10))
    assert_equal(h.state(reservation.job.id), State.READY, "the state")


@case("L9")
def a_fail_ends_a_job_that_has_attempts_left(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=25)
    h.must_settle(Fail(reservation.lease, reason="unknown type"))
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.attempts, job.dead_reason), (State.DEAD, 1, "unknown type"), "the dead letter")


@case("L9", needs={Feature.KEY, Feature.DOMAIN})
def a_dead_letter_keeps_every_field_of_the_job(h: Harness) -> None:
    reservation = h.reserve_new_job(
        payload=b"\x00\x01",
        meta={"k": ["v"]},
        name="n",
        domain="d",
        idempotency_key="k",
        signature="s",
        max_attempts=1,
        timeout=LEASE,
    )
    h.must_settle(Retry(reservation.lease, error="e"))
    dead_letter = h.get(reservation.job.id)
    wanted = replace(
        reservation.job,
        state=State.DEAD,
        last_error="e",
        failed_at=h.now,
        dead_reason=transition.ATTEMPTS_EXHAUSTED,
        dead_at=h.now,
    )
    assert_equal(dead_letter, wanted, "the dead letter")
