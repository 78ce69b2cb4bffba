"""Retries, releases, crashes: how runs are counted, and when they are used up (L7, L8, L9)."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clock import DAY, SECOND
from holdfast.drivers.contract import Feature
from holdfast.model import transition
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, Harness

SCHEDULING = {Feature.SCHEDULING}


@case("L7")
def a_retry_makes_the_job_ready_and_keeps_its_error(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    h.settled(Retry(held.lease, error="Timeout: ü"))
    wanted = replace(held.job, state=State.READY, last_error="Timeout: ü", failed_at=h.now)
    equal(h.get(held.job.id), wanted, "the job")
    equal(h.inspect(held.job.id).available_at, h.now, "available_at")


@case("L7", "L1", needs=SCHEDULING)
def a_retry_waits_for_its_delay_by_the_stores_clock(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    h.settled(Retry(held.lease, delay=10))
    equal(h.get(held.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    equal(h.reserve(), [], "a microsecond before the delay is over")
    h.advance(1)
    equal(h.taken(), [held.job.id], "when the delay is over")


@case("L7", needs=SCHEDULING)
def a_retry_waits_for_its_run_at(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease, run_at=h.now + 10))
    equal(h.get(held.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    equal(h.reserve(), [], "a microsecond before run_at")
    h.advance(1)
    equal(h.taken(), [held.job.id], "at run_at")


@case("L7", needs=SCHEDULING)
def a_retry_without_delay_clears_the_old_run_at(h: Harness) -> None:
    held = h.held(run_at=h.now - 5)
    h.settled(Retry(held.lease))
    equal(h.get(held.job.id).run_at, None, "run_at")
    equal(h.inspect(held.job.id).available_at, h.now, "available_at")


@case("L7", "L9")
def a_retry_with_no_attempts_left_makes_a_dead_letter(h: Harness) -> None:
    held = h.held(max_attempts=1)
    h.advance(SECOND)
    h.settled(Retry(held.lease, error="boom", delay=10))
    job = h.get(held.job.id)
    equal((job.state, job.dead_reason), (State.DEAD, transition.ATTEMPTS_EXHAUSTED), "state and reason")
    equal((job.last_error, job.failed_at, job.dead_at), ("boom", h.now, h.now), "error and instants")
    equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    h.advance(DAY)
    equal((h.reap(), h.reserve()), (0, []), "reaped and reserved afterwards")


@case("L7")
def a_job_runs_exactly_max_attempts_times(h: Harness) -> None:
    job = h.put(max_attempts=3)
    runs = 0
    while found := h.reserve():
        runs += 1
        equal(found[0].job.attempts, runs, "attempts")
        h.settled(Retry(found[0].lease))
    equal((runs, h.state(job.id)), (3, State.DEAD), "runs, and the state after them")


@case("L7")
def an_expired_lease_has_used_its_attempt_and_counts_as_a_crash(h: Harness) -> None:
    held = h.held()
    equal(h.lapse(), 1, "reaped")
    equal(h.get(held.job.id), replace(held.job, state=State.READY, crashes=1), "the job")
    equal(h.take().job.attempts, 2, "attempts of the next run")


@case("L7", needs=SCHEDULING)
def an_expired_lease_clears_run_at(h: Harness) -> None:
    held = h.held(run_at=h.now - 5)
    h.lapse()
    equal(h.get(held.job.id).run_at, None, "run_at")


@case("L7")
def an_expired_lease_keeps_the_error_of_the_attempt_before(h: Harness) -> None:
    held = h.held()
    failed_at = h.now
    h.settled(Retry(held.lease, error="first"))
    h.take()
    h.lapse()
    job = h.get(held.job.id)
    equal((job.last_error, job.failed_at), ("first", failed_at), "last_error and failed_at")


@case("L7", "L9")
def a_last_lease_that_expires_makes_a_dead_letter(h: Harness) -> None:
    held = h.held(max_attempts=1)
    h.lapse()
    job = h.get(held.job.id)
    equal((job.state, job.dead_reason, job.dead_at), (State.DEAD, transition.LEASE_EXPIRED, h.now), "the dead letter")
    equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    equal(h.reserve(), [], "reserved afterwards")


@case("L7", "L9")
def max_crashes_in_a_row_are_poison(h: Harness) -> None:
    job = h.put(max_crashes=3)
    for crashes in (1, 2, 3):
        h.take()
        h.lapse()
        equal(h.get(job.id).crashes, crashes, "crashes")
        equal(h.state(job.id), State.DEAD if crashes == 3 else State.READY, f"the state after crash {crashes}")
    equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def one_crash_may_be_the_limit(h: Harness) -> None:
    held = h.held(max_crashes=1)
    h.lapse()
    equal(h.get(held.job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def a_job_without_max_crashes_is_never_poison(h: Harness) -> None:
    job = h.put(max_crashes=None, max_attempts=10)
    for _ in range(6):
        h.take()
        h.lapse()
    equal((h.state(job.id), h.get(job.id).crashes), (State.READY, 6), "state and crashes")


@case("L7")
def exhaustion_is_told_before_poison(h: Harness) -> None:
    held = h.held(max_attempts=1, max_crashes=1)
    h.lapse()
    equal(h.get(held.job.id).dead_reason, transition.LEASE_EXPIRED, "the reason")


@case("L7")
def a_retry_ends_the_crashes_in_a_row(h: Harness) -> None:
    job = h.put(max_crashes=2)
    for _ in range(3):
        h.take()
        h.lapse()
        equal(h.get(job.id).crashes, 1, "crashes after an expiry")
        h.settled(Retry(h.take().lease))
        equal(h.get(job.id).crashes, 0, "crashes after a retry")


@case("L7")
def a_retry_that_tells_of_a_crash_counts_it(h: Harness) -> None:
    """A worker whose child died settles at once instead of letting the lease expire; the job is as suspicious."""
    job = h.put(max_crashes=3)
    h.take(lease_for=1)
    h.advance(1)
    for crashes, state in ((2, State.READY), (3, State.DEAD)):
        held = h.take()
        h.settled(Retry(held.lease, error="signal 11", crashed=True))
        equal((h.get(job.id).crashes, h.state(job.id)), (crashes, state), "crashes and state")
    equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L7")
def a_crash_that_uses_the_last_attempt_is_exhaustion(h: Harness) -> None:
    held = h.held(max_attempts=1, max_crashes=1)
    h.settled(Retry(held.lease, crashed=True))
    equal(h.get(held.job.id).dead_reason, transition.ATTEMPTS_EXHAUSTED, "the reason")


@case("L7", "L8")
def a_release_keeps_the_crashes_in_a_row(h: Harness) -> None:
    job = h.put(max_crashes=2)
    h.take()
    h.lapse()
    h.settled(Release(h.take().lease))
    equal(h.get(job.id).crashes, 1, "crashes")
    h.take()
    h.lapse()
    equal(h.get(job.id).dead_reason, transition.POISON, "the reason")


@case("L8")
def a_release_refunds_the_attempt_and_leaves_no_error(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    h.settled(Release(held.lease))
    equal(h.get(held.job.id), replace(held.job, state=State.READY, attempts=0), "the job")
    equal(h.take().job.attempts, 1, "attempts of the next run")


@case("L8")
def any_number_of_releases_uses_no_attempt(h: Harness) -> None:
    job = h.put(max_attempts=1)
    for _ in range(5):
        held = h.take()
        equal(held.job.attempts, 1, "attempts")
        h.settled(Release(held.lease))
    h.settled(Ack(h.take().lease))
    equal(h.state(job.id), State.DONE, "the state")


@case("L8", needs=SCHEDULING)
def a_release_waits_for_its_delay(h: Harness) -> None:
    held = h.held()
    h.settled(Release(held.lease, delay=10))
    equal(h.get(held.job.id).run_at, h.now + 10, "run_at")
    h.advance(9)
    equal(h.reserve(), [], "a microsecond before the delay is over")
    h.advance(1)
    equal(h.taken(), [held.job.id], "when the delay is over")


@case("L8", needs=SCHEDULING)
def a_release_without_delay_keeps_run_at(h: Harness) -> None:
    held = h.held(run_at=h.now - 5)
    h.settled(Release(held.lease))
    equal(h.get(held.job.id).run_at, h.now - 5, "run_at")


@case("L8")
def a_release_keeps_the_error_of_the_attempt_before(h: Harness) -> None:
    held = h.held()
    failed_at = h.now
    h.settled(Retry(held.lease, error="first"))
    h.settled(Release(h.take().lease))
    job = h.get(held.job.id)
    equal((job.last_error, job.failed_at), ("first", failed_at), "last_error and failed_at")


@case("L8", "L9", needs=SCHEDULING)
def a_job_released_beyond_its_budget_becomes_a_dead_letter(h: Harness) -> None:
    held = h.held()
    h.advance(3)  # held for 3, delayed by 4, held for 2, delayed by 1: ten in all
    h.settled(Release(held.lease, delay=4, budget=10))
    h.advance(4)
    held = h.take()
    h.advance(2)
    h.settled(Release(held.lease, delay=1, budget=10))
    equal(h.state(held.job.id), State.READY, "the state at its budget")
    h.advance(1)
    held = h.take()
    h.advance(1)
    h.settled(Release(held.lease, budget=10))
    job = h.get(held.job.id)
    equal((job.state, job.dead_reason), (State.DEAD, transition.RELEASED_TOO_LONG), "state and reason beyond it")
    equal((job.dead_at, h.inspect(job.id).ended_at), (h.now, h.now), "dead_at and ended_at")


@case("L8")
def a_counted_run_starts_the_budget_anew(h: Harness) -> None:
    held = h.held()
    h.advance(8)
    h.settled(Release(held.lease, budget=10))
    h.settled(Retry(h.take().lease))
    held = h.take()
    h.advance(8)
    h.settled(Release(held.lease, budget=10))
    equal(h.state(held.job.id), State.READY, "the state")


@case("L9")
def a_fail_ends_a_job_that_has_attempts_left(h: Harness) -> None:
    held = h.held(max_attempts=25)
    h.settled(Fail(held.lease, reason="unknown type"))
    job = h.get(held.job.id)
    equal((job.state, job.attempts, job.dead_reason), (State.DEAD, 1, "unknown type"), "the dead letter")


@case("L9")
def a_dead_letter_keeps_the_whole_envelope(h: Harness) -> None:
    held = h.held(
        payload=b"\x00\x01",
        meta={"k": ["v"]},
        name="n",
        domain="d",
        idempotency_key="k",
        webhook="https://example.com/",
        signature="s",
        max_attempts=1,
        timeout=LEASE,
    )
    h.settled(Retry(held.lease, error="e"))
    kept = h.get(held.job.id)
    wanted = replace(
        held.job,
        state=State.DEAD,
        last_error="e",
        failed_at=h.now,
        dead_reason=transition.ATTEMPTS_EXHAUSTED,
        dead_at=h.now,
    )
    equal(kept, wanted, "the dead letter")
