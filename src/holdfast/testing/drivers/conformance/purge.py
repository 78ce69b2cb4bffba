"""Purge: remove ended jobs."""

from __future__ import annotations

from holdfast.drivers.capabilities import Feature
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.settlement import Ack, Fail
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import Harness

JOBS = {Feature.JOBS}


@case("L9", needs=JOBS)
def ended_jobs_are_removed(h: Harness) -> None:
    done, dead, cancelled = h.reserve_new_job(), h.reserve_new_job(), h.enqueue_job()
    h.must_settle(Ack(done.lease), Fail(dead.lease, reason="no"))
    h.cancel(cancelled.id)
    ids = [done.job.id, dead.job.id, cancelled.id]
    assert_equal(h.purge(*ids), [True] * 3, "the answers")
    assert_equal([h.store.get(job_id) for job_id in ids], [None] * 3, "the jobs")
    assert_equal(h.store.find().items, [], "the list")
    assert_equal(h.requeue(*ids), [False] * 3, "requeued")


@case("L9", needs=JOBS)
def ready_running_and_unknown_jobs_are_not_purged(h: Harness) -> None:
    running, waiting = h.reserve_new_job(), h.enqueue_job()
    with h.assert_unchanged():
        assert_equal(h.purge(running.job.id, waiting.id, "unknown"), [False] * 3, "the answers")
    h.must_settle(Ack(running.lease))


@case("L9", needs=JOBS)
def a_job_that_appears_twice_in_a_purge_batch_is_purged_once(h: Harness) -> None:
    job = h.enqueue_job()
    h.cancel(job.id)
    assert_equal(h.purge(job.id, job.id), [True, False], "the answers")


@case("L6", needs=JOBS)
def the_id_of_a_purged_job_can_be_enqueued_again(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.purge(reservation.job.id)
    assert_equal(
        h.enqueue(h.job(id=reservation.job.id)), [Enqueued(id=reservation.job.id, existed=False)], "the answer"
    )
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (reservation.job.id, 1), "the new job")
    h.must_settle(Ack(again.lease))
    assert_equal(h.state(again.job.id), State.DONE, "the state")


@case("L9", needs=JOBS)
def an_empty_purge_returns_an_empty_list(h: Harness) -> None:
    assert_equal(h.purge(), [], "the answers")
