"""The order in which jobs are reserved (L10)."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.model.settlement import Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SCHEDULING = {Feature.SCHEDULE}


@case("L10", needs={Feature.PRIORITY})
def priority_9_is_reserved_first_and_0_last(h: Harness) -> None:
    jobs = {priority: h.enqueue_job(priority=priority).id for priority in (0, 5, 9, 1, 8, 3)}
    assert_equal(h.reserve_ids(10), [jobs[priority] for priority in (9, 8, 5, 3, 1, 0)], "the order")


@case("L10")
def jobs_of_one_priority_are_reserved_in_the_order_of_available_at(h: Harness) -> None:
    jobs = []
    for _ in range(4):
        jobs.append(h.enqueue_job().id)
        h.advance(1)
    assert_equal(h.reserve_ids(10), jobs, "the order")


@case("L10")
def jobs_of_one_instant_are_reserved_in_the_order_of_arrival(h: Harness) -> None:
    jobs = [h.job(id=name) for name in ("d", "a", "c", "b")]
    h.enqueue(*jobs[:3])
    h.enqueue(jobs[3])
    assert_equal(h.reserve_ids(10), ["d", "a", "c", "b"], "the order")


@case("L10", needs={Feature.PRIORITY, Feature.SCHEDULE})
def single_reserves_and_a_batch_have_the_same_order(h: Harness) -> None:
    for queue in ("one", "batch"):
        for priority, run_at in ((0, None), (3, h.now - 5), (3, None), (9, None), (0, h.now - 9)):
            h.enqueue_job(queue=queue, priority=priority, run_at=run_at, name=f"{priority} {run_at}")
    singly = [h.reserve_one(queues=["one"]).job.name for _ in range(5)]
    batch = [reservation.job.name for reservation in h.reserve(5, queues=["batch"])]
    assert_equal(batch, singly, "the order of a batch")


@case("L10", needs=SCHEDULING)
def a_scheduled_job_is_ordered_by_its_run_at(h: Harness) -> None:
    early = h.enqueue_job(run_at=h.now + 5).id
    h.advance(3)
    before = h.enqueue_job().id
    h.advance(5)
    after = h.enqueue_job().id
    assert_equal(h.reserve_ids(10), [before, early, after], "the order")


@case("L10", needs=SCHEDULING)
def a_run_at_in_the_past_is_reserved_before_jobs_enqueued_now(h: Harness) -> None:
    first = h.enqueue_job().id
    older = h.enqueue_job(run_at=h.now - SECOND).id
    assert_equal(h.reserve_ids(10), [older, first], "the order")


@case("L10", needs=SCHEDULING | {Feature.PRIORITY})
def scheduled_jobs_do_not_block_jobs_that_are_due(h: Harness) -> None:
    for _ in range(20):
        h.enqueue_job(priority=9, run_at=h.now + SECOND)
        h.enqueue_job(run_at=h.now + SECOND)
    due = h.enqueue_job().id
    assert_equal(h.reserve_ids(10), [due], "the job that is due")


@case("L10", needs={Feature.TYPES, Feature.PRIORITY})
def jobs_of_other_types_do_not_block_the_requested_types(h: Harness) -> None:
    for _ in range(20):
        h.enqueue_job(type="unknown", priority=9)
    wanted = h.enqueue_job(type="known").id
    assert_equal(h.reserve_ids(10, types={"known"}), [wanted], "jobs of the requested type")


@case("L10")
def one_order_applies_across_all_requested_queues(h: Harness) -> None:
    jobs = []
    for queue in ("b", "a", "c", "a", "b"):
        jobs.append(h.enqueue_job(queue=queue).id)
        h.advance(1)
    assert_equal(h.reserve_ids(10, queues=["c", "b", "a"]), jobs, "the order across three queues")


@case("L10")
def the_limit_applies_to_the_order_across_all_queues(h: Harness) -> None:
    jobs = []
    for queue in ("b", "a", "b", "a"):
        jobs.append(h.enqueue_job(queue=queue).id)
        h.advance(1)
    assert_equal(h.reserve_ids(3, queues=["a", "b"]), jobs[:3], "the first three")


@case("L10", needs={Feature.PRIORITY})
def priority_applies_across_all_requested_queues(h: Harness) -> None:
    low, high = h.enqueue_job(queue="a", priority=1).id, h.enqueue_job(queue="b", priority=2).id
    assert_equal(h.reserve_ids(10, queues=["a", "b"]), [high, low], "the order across two queues")


@case("L10", needs={Feature.TYPES})
def one_order_applies_across_all_types(h: Harness) -> None:
    jobs = []
    for type_ in ("b", "a", "c", "a", "b"):
        jobs.append(h.enqueue_job(type=type_).id)
        h.advance(1)
    assert_equal(h.reserve_ids(10, types=["a", "b", "c"]), jobs, "the order across three types")


@case("L10")
def a_retried_job_comes_after_jobs_that_were_enqueued_before_the_retry(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(1)
    waiting = h.enqueue_job().id
    h.advance(1)
    h.must_settle(Retry(reservation.lease))
    h.advance(1)
    later = h.enqueue_job().id
    assert_equal(h.reserve_ids(10), [waiting, reservation.job.id, later], "the order")


@case("L10", needs=SCHEDULING)
def a_retried_job_is_ordered_by_its_run_at(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, run_at=h.now + 10))
    h.advance(5)
    before = h.enqueue_job().id
    h.advance(10)
    after = h.enqueue_job().id
    assert_equal(h.reserve_ids(10), [before, reservation.job.id, after], "the order")


@case("L10", "L8")
def a_released_job_keeps_its_place_in_the_order(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(1)
    waiting = h.enqueue_job().id
    h.advance(1)
    h.must_settle(Release(reservation.lease))
    assert_equal(h.inspect(reservation.job.id).available_at, h.now - 2, "available_at")
    assert_equal(h.reserve_ids(10), [reservation.job.id, waiting], "the order")


@case("L10", "L8", needs=SCHEDULING)
def a_job_released_with_a_delay_is_ordered_by_the_end_of_the_delay(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Release(reservation.lease, delay=10))
    assert_equal(h.inspect(reservation.job.id).available_at, h.now + 10, "available_at")
    h.advance(5)
    before = h.enqueue_job().id
    h.advance(4)
    assert_equal(h.reserve_ids(10), [before], "a microsecond before the delay is over")
    h.advance(1)
    assert_equal(h.reserve_ids(10), [reservation.job.id], "when the delay is over")


@case("L10", "L7")
def a_job_whose_lease_expired_is_ordered_by_the_instant_of_the_expiry(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance_to(reservation.lease.expires_at - 1)
    before = h.enqueue_job().id
    h.advance_to(reservation.lease.expires_at + 1)
    after = h.enqueue_job().id
    h.advance(SECOND)
    assert_equal(h.reap(), 1, "reaped")
    assert_equal(h.inspect(reservation.job.id).available_at, reservation.lease.expires_at, "available_at")
    assert_equal(h.reserve_ids(10), [before, reservation.job.id, after], "the order")


@case("L10")
def a_job_reaped_from_a_dead_worker_is_ordered_by_the_instant_of_the_reap(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(SECOND)
    h.reap(worker="w")
    assert_equal(h.inspect(reservation.job.id).available_at, h.now, "available_at")


@case("L10", "L9", needs={Feature.JOBS})
def a_requeued_job_goes_to_the_end_of_the_queue(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.advance(1)
    waiting = h.enqueue_job().id
    h.requeue(reservation.job.id)
    assert_equal(h.inspect(reservation.job.id).available_at, h.now, "available_at")
    assert_equal(h.reserve_ids(10), [waiting, reservation.job.id], "the order")


@case("L10", needs={Feature.PRIORITY})
def a_job_whose_lease_expired_keeps_its_priority(h: Harness) -> None:
    reservation = h.reserve_new_job(priority=5)
    waiting = h.enqueue_job(priority=4).id
    h.advance(LEASE)
    assert_equal(h.reserve_ids(10), [reservation.job.id, waiting], "the order")


@case("L10", needs={Feature.PRIORITY, Feature.SCHEDULE})
def a_scheduled_job_of_high_priority_is_reserved_first_once_it_is_due(h: Harness) -> None:
    high = h.enqueue_job(priority=9, run_at=h.now + 10).id
    low = h.enqueue_job().id
    assert_equal(h.reserve_ids(1), [low], "before it is due")
    other = h.enqueue_job().id
    h.advance(10)
    assert_equal(h.reserve_ids(10, queues=[QUEUE]), [high, other], "once it is due")
