"""Asking a job to stop."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.errors import JobNotInflight
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, refused
from holdfast.testing.drivers.conformance.settle import VERBS
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L9")
def a_waiting_job_is_cancelled_at_once(h: Harness) -> None:
    job = h.put()
    h.advance(SECOND)
    equal(h.cancel(job.id), [State.CANCELLED], "the answer")
    equal(h.state(job.id), State.CANCELLED, "the state")
    equal(h.inspect(job.id).ended_at, h.now, "ended_at")
    equal(h.reserve(), [], "reserved afterwards")


@case("L9", needs={Feature.SCHEDULING})
def a_scheduled_job_is_cancelled_at_once(h: Harness) -> None:
    job = h.put(run_at=h.now + SECOND)
    equal(h.cancel(job.id), [State.CANCELLED], "the answer")
    h.advance(SECOND)
    equal(h.reserve(), [], "reserved when it would have been due")


@case("L9", needs={Feature.SCHEDULING})
def a_job_in_backoff_is_cancelled_at_once(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease, delay=SECOND))
    equal(h.cancel(held.job.id), [State.CANCELLED], "the answer")
    h.advance(SECOND)
    equal(h.reserve(), [], "reserved when it would have been due")


@case("L5")
def a_running_job_goes_on_and_its_worker_is_told(h: Harness) -> None:
    held = h.held()
    assert not h.inspect(held.job.id).cancel_requested, "wanted no request before the cancel"
    equal(h.cancel(held.job.id), [State.INFLIGHT], "the answer")
    found = h.inspect(held.job.id)
    equal((found.cancel_requested, found.fence), (True, held.lease.fence), "cancel_requested and fence")
    assert h.extended(held.lease).cancel_requested, "wanted extend to tell of the request"
    equal(h.ledger(), [], "the ledger")


@case("L5")
def a_job_nobody_cancelled_is_not_told_to_stop(h: Harness) -> None:
    first, second = h.held(), h.held()
    h.cancel(first.job.id)
    assert not h.extended(second.lease).cancel_requested, "wanted extend to tell the other nothing"


@case("L5")
def an_ack_wins_over_a_cancel(h: Harness) -> None:
    held = h.held()
    h.cancel(held.job.id)
    h.settled(Ack(held.lease, result=b"1"))
    job = h.get(held.job.id)
    equal((job.state, job.result), (State.DONE, b"1"), "state and result")
    equal([row.ending for row in h.ledger()] or [Ending.ACKED], [Ending.ACKED], "the ledger")


def _cancelled_by(h: Harness, verb: str) -> None:
    held = h.held()
    h.cancel(held.job.id)
    h.settled(VERBS[verb](held.lease))
    job = h.get(held.job.id)
    equal((job.state, job.dead_reason, job.dead_at), (State.CANCELLED, None, None), "the job")
    equal(h.inspect(held.job.id).ended_at, h.now, "ended_at")
    endings = [(row.ending, row.state, row.fence) for row in h.ledger()]
    wanted = [(Ending.CANCELLED, State.CANCELLED, held.lease.fence)]
    equal(endings or wanted, wanted, "the ledger")
    equal(h.reserve(), [], "reserved afterwards")


@case("L13")
def a_retry_of_a_job_that_was_asked_to_stop_makes_it_cancelled(h: Harness) -> None:
    _cancelled_by(h, "retry")


@case("L13")
def a_fail_of_a_job_that_was_asked_to_stop_makes_it_cancelled(h: Harness) -> None:
    _cancelled_by(h, "fail")


@case("L13")
def a_release_of_a_job_that_was_asked_to_stop_makes_it_cancelled(h: Harness) -> None:
    _cancelled_by(h, "release")


@case("L13")
def an_expired_lease_of_a_job_that_was_asked_to_stop_makes_it_cancelled(h: Harness) -> None:
    held = h.held(max_attempts=1)
    h.cancel(held.job.id)
    equal(h.lapse(), 1, "reaped")
    equal((h.state(held.job.id), h.get(held.job.id).dead_reason), (State.CANCELLED, None), "state and reason")
    wanted = [(Ending.CANCELLED, State.CANCELLED, held.lease.fence)]
    equal([(row.ending, row.state, row.fence) for row in h.ledger()] or wanted, wanted, "the ledger")


@case("L13")
def the_last_attempt_of_a_job_that_was_asked_to_stop_makes_no_dead_letter(h: Harness) -> None:
    held = h.held(max_attempts=1)
    h.cancel(held.job.id)
    h.settled(Retry(held.lease, error="stopped"))
    equal(h.state(held.job.id), State.CANCELLED, "the state")


@case("L5")
def a_cancel_of_an_expired_job_takes_effect_when_it_is_reaped(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    equal(h.cancel(held.job.id), [State.INFLIGHT], "the answer")
    equal(h.reserve(), [], "reserved")
    equal(h.state(held.job.id), State.CANCELLED, "the state")


@case("L9")
def a_cancel_answers_with_the_state_of_each_job_in_order(h: Harness) -> None:
    done, dead, running = h.held(), h.held(), h.held()
    h.settled(Ack(done.lease), Fail(dead.lease, reason="no"))
    waiting = h.put()
    answers = h.cancel(running.job.id, "unknown", dead.job.id, waiting.id, done.job.id)
    wanted = [State.INFLIGHT, None, State.DEAD, State.CANCELLED, State.DONE]
    equal(answers, wanted, "the answers")


@case("L9")
def a_cancel_of_an_ended_job_changes_nothing(h: Harness) -> None:
    done, dead, cancelled = h.held(), h.held(), h.put()
    h.settled(Ack(done.lease), Fail(dead.lease, reason="no"))
    h.cancel(cancelled.id)
    with h.unchanged():
        h.cancel(done.job.id, dead.job.id, cancelled.id, cancelled.id)


@case("L9")
def a_cancel_twice_in_one_batch_cancels_once(h: Harness) -> None:
    job = h.put()
    equal(h.cancel(job.id, job.id), [State.CANCELLED, State.CANCELLED], "the answers")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L9")
def a_requeued_job_is_no_longer_asked_to_stop(h: Harness) -> None:
    held = h.held()
    h.cancel(held.job.id)
    h.settled(Release(held.lease))
    equal(h.requeue(held.job.id), [True], "requeued")
    again = h.take()
    assert not h.extended(again.lease).cancel_requested, "wanted the request forgotten"
    h.settled(Retry(again.lease))
    equal(h.state(held.job.id), State.READY, "the state")


@case("L5")
def a_cancelled_waiting_job_cannot_be_settled_by_its_former_holder(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease))
    h.cancel(held.job.id)
    with h.unchanged():
        refused(h.settle(Ack(held.lease)), JobNotInflight)
        refused(h.extend(held.lease), JobNotInflight)


@case("L9")
def an_empty_cancel_is_answered_with_nothing(h: Harness) -> None:
    equal(h.cancel(), [], "the answers")
