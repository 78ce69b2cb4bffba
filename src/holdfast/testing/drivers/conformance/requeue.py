"""Giving ended jobs another chance (L9)."""

from __future__ import annotations

from dataclasses import replace

from holdfast.clock import SECOND
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L9")
def a_dead_letter_becomes_ready_as_if_it_had_just_come(h: Harness) -> None:
    held = h.held(meta={"a": 1}, priority=3)
    failed_at = h.now
    h.settled(Fail(held.lease, reason="no", error="boom"))
    h.advance(SECOND)
    equal(h.requeue(held.job.id), [True], "the answer")
    wanted = replace(held.job, state=State.READY, attempts=0, last_error="boom", failed_at=failed_at)
    equal(h.get(held.job.id), wanted, "the job")
    found = h.inspect(held.job.id)
    equal((found.available_at, found.ended_at), (h.now, None), "available_at and ended_at")


@case("L9", "L7")
def a_requeued_job_has_all_its_attempts_again(h: Harness) -> None:
    held = h.held(max_attempts=2)
    h.settled(Retry(held.lease))
    h.settled(Retry(h.take().lease))
    equal(h.state(held.job.id), State.DEAD, "the state")
    h.requeue(held.job.id)
    for attempt in (1, 2):
        again = h.take()
        equal(again.job.attempts, attempt, "attempts")
        h.settled(Retry(again.lease))
    equal(h.state(held.job.id), State.DEAD, "the state")


@case("L9", "L7")
def requeued_poison_starts_without_crashes(h: Harness) -> None:
    held = h.held(max_crashes=1)
    h.lapse()
    h.requeue(held.job.id)
    again = h.take()
    equal((again.job.attempts, again.job.crashes, again.job.dead_reason), (1, 0, None), "the job")


@case("L9")
def a_cancelled_job_can_be_requeued(h: Harness) -> None:
    job = h.put()
    h.cancel(job.id)
    equal(h.requeue(job.id), [True], "the answer")
    equal(h.taken(), [job.id], "reserved")


@case("L9")
def jobs_that_are_not_dead_or_cancelled_are_left_alone(h: Harness) -> None:
    done, running = h.held(), h.held()
    h.settled(Ack(done.lease))
    waiting = h.put()
    with h.unchanged():
        answers = h.requeue(done.job.id, running.job.id, waiting.id, "unknown")
        equal(answers, [False] * 4, "the answers")


@case("L9")
def a_requeue_twice_in_one_batch_requeues_once(h: Harness) -> None:
    job = h.put()
    h.cancel(job.id)
    equal(h.requeue(job.id, "unknown", job.id), [True, False, False], "the answers")
    equal(h.taken(5), [job.id], "the jobs to run")


@case("L9")
def a_requeued_job_can_die_and_be_requeued_again(h: Harness) -> None:
    job = h.put(max_attempts=1)
    for _ in range(3):
        held = h.take()
        equal(held.job.attempts, 1, "attempts")
        h.settled(Retry(held.lease))
        equal(h.requeue(job.id), [True], "the answer")
    h.settled(Ack(h.take().lease))
    equal(h.state(job.id), State.DONE, "the state")


@case("L9", "L5")
def a_requeued_job_is_leased_anew(h: Harness) -> None:
    held = h.held()
    h.settled(Fail(held.lease, reason="no"))
    h.requeue(held.job.id)
    again = h.take()
    assert again.lease.fence > held.lease.fence, "wanted a larger fence"
    h.advance(LEASE - 1)
    h.settled(Ack(again.lease))


@case("L9")
def an_empty_requeue_is_answered_with_nothing(h: Harness) -> None:
    equal(h.requeue(), [], "the answers")
