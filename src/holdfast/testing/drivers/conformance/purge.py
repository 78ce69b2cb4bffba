"""Removing ended jobs for good."""

from __future__ import annotations

from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import Harness


@case("L9")
def ended_jobs_are_forgotten(h: Harness) -> None:
    done, dead, cancelled = h.held(), h.held(), h.put()
    h.settled(Ack(done.lease), Fail(dead.lease, reason="no"))
    h.cancel(cancelled.id)
    ids = [done.job.id, dead.job.id, cancelled.id]
    equal(h.purge(*ids), [True] * 3, "the answers")
    equal([h.store.get(job_id) for job_id in ids], [None] * 3, "the jobs")
    equal(h.store.find().items, [], "the list")
    equal(h.requeue(*ids), [False] * 3, "requeued")


@case("L9")
def waiting_running_and_unknown_jobs_are_left_alone(h: Harness) -> None:
    running, waiting = h.held(), h.put()
    with h.unchanged():
        equal(h.purge(running.job.id, waiting.id, "unknown"), [False] * 3, "the answers")
    h.settled(Ack(running.lease))


@case("L9")
def a_purge_twice_in_one_batch_purges_once(h: Harness) -> None:
    job = h.put()
    h.cancel(job.id)
    equal(h.purge(job.id, job.id), [True, False], "the answers")


@case("L6")
def a_purged_id_may_come_again(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    h.purge(held.job.id)
    equal(h.enqueue(h.job(id=held.job.id)), [Enqueued(id=held.job.id, existed=False)], "the answer")
    again = h.take()
    equal((again.job.id, again.job.attempts), (held.job.id, 1), "the new job")
    h.settled(Ack(again.lease))
    equal(h.state(again.job.id), State.DONE, "the state")


@case("L9")
def an_empty_purge_is_answered_with_nothing(h: Harness) -> None:
    equal(h.purge(), [], "the answers")
