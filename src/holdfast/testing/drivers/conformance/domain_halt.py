"""Domains that halt when a job of them fails for good, and how they go on (L11)."""

from __future__ import annotations

from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Resume
from holdfast.model.domain import ResumeAction
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import enqueue_at
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

HALT = {Feature.DOMAIN, Feature.LIMITS, Feature.DOMAINS}
HALT_BY_OFFSET = HALT | {Feature.OFFSET}


def _halt_on_exhaustion(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(on_exhausted=OnExhausted.HALT)))


def _reserve_first(h: Harness, **fields: Any) -> tuple[Reservation, str]:
    """Enqueue two jobs of a domain that halts on exhaustion, and reserve the first; return both."""
    _halt_on_exhaustion(h)
    h.enqueue_job(domain="d", **fields)
    second = h.enqueue_job(domain="d").id
    return h.reserve_one(), second


def _halt(h: Harness) -> tuple[str, str]:
    """Halt the domain ``d``; return the id of the dead job and that of the next."""
    first, second = _reserve_first(h)
    h.must_settle(Fail(first.lease, reason="no"))
    return first.job.id, second


def _assert_halted(h: Harness, dead: str) -> None:
    assert_equal(h.state(dead), State.DEAD, "the state of the job")
    assert_equal(h.reserve(9), [], "reserved of a halted domain")


def _resume(h: Harness, action: ResumeAction) -> None:
    assert h.store.do(Resume(queue=QUEUE, domain="d", action=action, now=h.now_or_none)), "wanted the domain resumed"


# What halts a domain --------------------------------------------------------------------------------------------------


@case("L11", needs=HALT)
def a_fail_halts_its_domain(h: Harness) -> None:
    dead, _ = _halt(h)
    _assert_halted(h, dead)


@case("L11", needs=HALT)
def a_retry_with_no_attempts_left_halts_its_domain(h: Harness) -> None:
    first, _ = _reserve_first(h, max_attempts=1)
    h.must_settle(Retry(first.lease))
    _assert_halted(h, first.job.id)


@case("L11", "L7", needs=HALT)
def a_last_attempt_that_expires_halts_its_domain(h: Harness) -> None:
    first, _ = _reserve_first(h, max_attempts=1)
    h.advance(LEASE)
    _assert_halted_by_reserve(h, first)


def _assert_halted_by_reserve(h: Harness, first: Reservation) -> None:
    assert_equal(h.reserve(9), [], "the reserve that ended the lease")
    _assert_halted(h, first.job.id)


@case("L11", "L7", needs=HALT)
def a_poison_job_halts_its_domain(h: Harness) -> None:
    first, _ = _reserve_first(h, max_crashes=1)
    assert_equal(h.expire_leases(), 1, "reaped")
    _assert_halted(h, first.job.id)


@case("L11", "L8", needs=HALT)
def a_release_beyond_its_budget_halts_its_domain(h: Harness) -> None:
    first, _ = _reserve_first(h)
    h.advance(1)
    h.must_settle(Release(first.lease, budget=0))
    _assert_halted(h, first.job.id)


@case("L11", needs=HALT | {Feature.JOBS})
def a_cancel_does_not_halt_its_domain(h: Harness) -> None:
    first, second = _reserve_first(h)
    h.cancel(first.job.id)
    h.must_settle(Fail(first.lease, reason="no"))
    assert_equal(h.state(first.job.id), State.CANCELLED, "the state of the job")
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", needs=HALT)
def an_ack_and_a_retry_do_not_halt_their_domain(h: Harness) -> None:
    first, second = _reserve_first(h)
    h.must_settle(Retry(first.lease))
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", needs=HALT)
def a_dead_job_without_a_domain_halts_nothing(h: Harness) -> None:
    _halt_on_exhaustion(h)
    h.must_settle(Fail(h.reserve_new_job().lease, reason="no"))
    job = h.enqueue_job(domain="d").id
    assert_equal(h.reserve_ids(9), [job], "reserved")


@case("L11", needs=HALT)
def a_halt_stops_only_its_domain(h: Harness) -> None:
    _halt(h)
    others = [h.enqueue_job(domain="e").id, h.enqueue_job().id, h.enqueue_job(domain="d", queue="other").id]
    assert_equal(h.reserve_ids(9, queues=[QUEUE, "other"]), others, "reserved")


@case("L11", "L9", needs=HALT)
def a_halted_domain_accepts_jobs_and_runs_none(h: Harness) -> None:
    _, second = _halt(h)
    third = h.enqueue_job(domain="d").id
    assert_equal(h.reserve(9), [], "reserved")
    _resume(h, ResumeAction.SKIP)
    for job in (second, third):
        reservation = h.reserve_one()
        assert_equal(reservation.job.id, job, "reserved after the halt")
        h.must_settle(Ack(reservation.lease))


@case("L11", needs=HALT)
def a_domain_without_other_jobs_halts_too(h: Harness) -> None:
    _halt_on_exhaustion(h)
    h.must_settle(Fail(h.reserve_new_job(domain="d").lease, reason="no"))
    later = h.enqueue_job(domain="d").id
    assert_equal(h.reserve(9), [], "reserved")
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [later], "reserved after the halt")


@case("L11", "L6", needs=HALT)
def a_repeated_fail_halts_once(h: Harness) -> None:
    first, second = _reserve_first(h)
    fail = Fail(first.lease, reason="no")
    h.must_settle(fail)
    _resume(h, ResumeAction.SKIP)
    h.must_settle(fail)
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", needs=HALT)
def a_halted_domain_stays_halted_when_the_queue_does_not_halt_any_more(h: Harness) -> None:
    dead, second = _halt(h)
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings()))
    _assert_halted(h, dead)
    _resume(h, ResumeAction.RESUME)
    running = h.reserve_one()
    assert_equal(running.job.id, second, "reserved")
    last = h.enqueue_job(domain="d").id
    h.must_settle(Fail(running.lease, reason="no"))
    assert_equal(h.reserve_ids(9), [last], "after a fail that does not halt")


@case("L11", needs=HALT)
def a_halt_is_seen_by_another_connection(h: Harness) -> None:
    _, second = _halt(h)
    other = h.connect_again()
    assert_equal(other.reserve([QUEUE], limit=9, lease_for=LEASE, now=h.now_or_none), [], "reserved")
    assert other.do(Resume(queue=QUEUE, domain="d", action=ResumeAction.SKIP, now=h.now_or_none)), (
        "wanted the domain resumed"
    )
    assert_equal(h.reserve_ids(9), [second], "reserved after the halt")


@case("L11", needs=HALT_BY_OFFSET)
def a_smaller_offset_does_not_run_in_a_halted_domain(h: Harness) -> None:
    _halt_on_exhaustion(h)
    enqueue_at(h, 5, 6)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    late = enqueue_at(h, 3)[0]
    assert_equal(h.reserve(9), [], "reserved")
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [late], "reserved after the halt")


# How it goes on -------------------------------------------------------------------------------------------------------


@case("L11", needs=HALT)
def skip_leaves_the_job_dead_and_passes_the_turn(h: Harness) -> None:
    dead, second = _halt(h)
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [second], "reserved")
    assert_equal(h.state(dead), State.DEAD, "the state of the job")


@case("L11", needs=HALT)
def resume_passes_the_turn(h: Harness) -> None:
    dead, second = _halt(h)
    _resume(h, ResumeAction.RESUME)
    assert_equal(h.reserve_ids(9), [second], "reserved")
    assert_equal(h.state(dead), State.DEAD, "the state of the job")


@case("L11", "L7", needs=HALT)
def retry_runs_the_job_at_its_old_place_with_all_its_attempts(h: Harness) -> None:
    first, second = _reserve_first(h, max_attempts=2)
    h.must_settle(Retry(first.lease))
    h.must_settle(Retry(h.reserve_one().lease))
    h.advance(SECOND)
    _resume(h, ResumeAction.RETRY)
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts, again.job.crashes), (first.job.id, 1, 0), "the retried job")
    assert_equal(again.job.dead_reason, None, "why it is dead")
    assert again.lease.fence > first.lease.fence, "wanted a larger fence"
    h.must_settle(Ack(again.lease))
    assert_equal(h.reserve_ids(9), [second], "the next job")


@case("L11", "L13", needs=HALT | {Feature.LEDGER})
def a_retry_of_the_halting_job_has_a_ledger_row(h: Harness) -> None:
    dead, _ = _halt(h)
    _resume(h, ResumeAction.RETRY)
    [row] = [row for row in h.ledger() if row.ending is Ending.REQUEUED]
    assert_equal((row.job_id, row.state, row.domain), (dead, State.READY, "d"), "the ledger row")


@case("L11", needs=HALT_BY_OFFSET)
def retry_runs_an_offset_at_its_place(h: Harness) -> None:
    _halt_on_exhaustion(h)
    dead = enqueue_at(h, 5, 6)[0]
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    late = enqueue_at(h, 3)[0]
    _resume(h, ResumeAction.RETRY)
    ran = []
    for _ in range(2):
        reservation = h.reserve_one()
        ran.append(reservation.job.id)
        h.must_settle(Ack(reservation.lease))
    assert_equal(ran, [late, dead], "the order")


@case("L11", needs=HALT)
def a_retried_job_that_fails_again_halts_its_domain_again(h: Harness) -> None:
    dead, second = _halt(h)
    _resume(h, ResumeAction.RETRY)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    _assert_halted(h, dead)
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [second], "reserved after the second halt")


@case("L11", "L9", needs=HALT | {Feature.JOBS})
def requeueing_the_halting_job_is_a_retry(h: Harness) -> None:
    dead, second = _halt(h)
    assert_equal(h.requeue(dead), [True], "requeued")
    again = h.reserve_one()
    assert_equal(again.job.id, dead, "reserved after the requeue")
    h.must_settle(Ack(again.lease))
    assert_equal(h.reserve_ids(9), [second], "the next job")
    assert not h.store.do(Resume(queue=QUEUE, domain="d", now=h.now_or_none)), "wanted nothing to resume"


@case("L11", needs=HALT | {Feature.JOBS})
def requeueing_another_job_does_not_end_the_halt(h: Harness) -> None:
    dead, second = _halt(h)
    h.cancel(second)
    assert_equal(h.requeue(second), [True], "requeued")
    _assert_halted(h, dead)
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [second], "reserved after the halt")


@case("L11", needs=HALT | {Feature.JOBS})
def purging_the_halting_job_is_a_skip(h: Harness) -> None:
    dead, second = _halt(h)
    assert_equal(h.purge(dead), [True], "purged")
    assert_equal(h.reserve_ids(9), [second], "reserved")
    assert not h.store.do(Resume(queue=QUEUE, domain="d", action=ResumeAction.RETRY, now=h.now_or_none)), (
        "wanted nothing to resume"
    )


@case("L11", needs=HALT | {Feature.JOBS})
def cancelling_a_job_of_a_halted_domain_does_not_end_the_halt(h: Harness) -> None:
    dead, second = _halt(h)
    third = h.enqueue_job(domain="d").id
    h.cancel(second)
    _assert_halted(h, dead)
    _resume(h, ResumeAction.SKIP)
    assert_equal(h.reserve_ids(9), [third], "reserved after the halt")


@case("L11", needs=HALT)
def a_domain_that_is_not_halted_cannot_be_resumed(h: Harness) -> None:
    first, _ = _reserve_first(h)
    for action in ResumeAction:
        assert not h.store.do(Resume(queue=QUEUE, domain="d", action=action, now=h.now_or_none)), (
            f"wanted nothing to {action}"
        )
        assert not h.store.do(Resume(queue=QUEUE, domain="unknown", action=action, now=h.now_or_none)), (
            f"wanted no domain to {action}"
        )
    assert_equal(h.reserve(9), [], "reserved while the first job runs")
    h.must_settle(Ack(first.lease))


@case("L11", needs=HALT)
def one_of_two_callers_resumes_a_domain(h: Harness) -> None:
    _, second = _halt(h)
    stores = [h.connect_again() for _ in range(2)]
    now = h.now_or_none
    answers = h.run_concurrently(
        *[
            lambda store=store: store.do(Resume(queue=QUEUE, domain="d", action=ResumeAction.RETRY, now=now))
            for store in stores
        ]
    )
    assert_equal(sorted(answers), [False, True], "the answers")
    running = h.reserve(9)
    assert_equal(len(running), 1, "jobs of the domain in flight")
    h.must_settle(Ack(running[0].lease))
    assert_equal(h.reserve_ids(9), [second], "the next job")
