"""Who comes first (L10)."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.model.settlement import Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SCHEDULING = {Feature.SCHEDULING}


@case("L10", needs={Feature.PRIORITIES})
def priority_9_comes_first_and_0_last(h: Harness) -> None:
    jobs = {priority: h.put(priority=priority).id for priority in (0, 5, 9, 1, 8, 3)}
    equal(h.taken(10), [jobs[priority] for priority in (9, 8, 5, 3, 1, 0)], "the order")


@case("L10")
def jobs_of_one_priority_come_in_the_order_they_became_available(h: Harness) -> None:
    jobs = []
    for _ in range(4):
        jobs.append(h.put().id)
        h.advance(1)
    equal(h.taken(10), jobs, "the order")


@case("L10")
def jobs_of_one_instant_come_in_the_order_of_their_arrival(h: Harness) -> None:
    jobs = [h.job(id=name) for name in ("d", "a", "c", "b")]
    h.enqueue(*jobs[:3])
    h.enqueue(jobs[3])
    equal(h.taken(10), ["d", "a", "c", "b"], "the order")


@case("L10")
def one_at_a_time_or_in_a_batch_the_order_is_the_same(h: Harness) -> None:
    for queue in ("one", "batch"):
        for priority, run_at in ((0, None), (3, h.now - 5), (3, None), (9, None), (0, h.now - 9)):
            h.put(queue=queue, priority=priority, run_at=run_at, name=f"{priority} {run_at}")
    singly = [h.take(queues=["one"]).job.name for _ in range(5)]
    batch = [held.job.name for held in h.reserve(5, queues=["batch"])]
    equal(batch, singly, "the order of a batch")


@case("L10", needs=SCHEDULING)
def a_scheduled_job_stands_where_its_run_at_says(h: Harness) -> None:
    early = h.put(run_at=h.now + 5).id
    h.advance(3)
    before = h.put().id
    h.advance(5)
    after = h.put().id
    equal(h.taken(10), [before, early, after], "the order")


@case("L10", needs=SCHEDULING)
def a_run_at_in_the_past_goes_in_front(h: Harness) -> None:
    first = h.put().id
    older = h.put(run_at=h.now - SECOND).id
    equal(h.taken(10), [older, first], "the order")


@case("L10", needs=SCHEDULING)
def jobs_scheduled_for_later_hold_nobody_up(h: Harness) -> None:
    for _ in range(20):
        h.put(priority=9, run_at=h.now + SECOND)
        h.put(run_at=h.now + SECOND)
    due = h.put().id
    equal(h.taken(10), [due], "what is due")


@case("L10", needs={Feature.TYPES})
def jobs_of_other_types_hold_nobody_up(h: Harness) -> None:
    for _ in range(20):
        h.put(type="unknown", priority=9)
    wanted = h.put(type="known").id
    equal(h.taken(10, types={"known"}), [wanted], "jobs of the asked type")


@case("L10")
def one_order_runs_over_all_asked_queues(h: Harness) -> None:
    jobs = []
    for queue in ("b", "a", "c", "a", "b"):
        jobs.append(h.put(queue=queue).id)
        h.advance(1)
    equal(h.taken(10, queues=["c", "b", "a"]), jobs, "the order over three queues")


@case("L10")
def a_batch_over_queues_stops_at_its_limit_in_that_order(h: Harness) -> None:
    jobs = []
    for queue in ("b", "a", "b", "a"):
        jobs.append(h.put(queue=queue).id)
        h.advance(1)
    equal(h.taken(3, queues=["a", "b"]), jobs[:3], "the first three")


@case("L10", needs={Feature.PRIORITIES})
def priority_counts_over_all_asked_queues(h: Harness) -> None:
    low, high = h.put(queue="a", priority=1).id, h.put(queue="b", priority=2).id
    equal(h.taken(10, queues=["a", "b"]), [high, low], "the order over two queues")


@case("L10", needs={Feature.TYPES})
def one_order_runs_over_all_types(h: Harness) -> None:
    jobs = []
    for type_ in ("b", "a", "c", "a", "b"):
        jobs.append(h.put(type=type_).id)
        h.advance(1)
    equal(h.taken(10, types=["a", "b", "c"]), jobs, "the order over three types")


@case("L10")
def a_retried_job_goes_behind_those_who_came_before_its_retry(h: Harness) -> None:
    held = h.held()
    h.advance(1)
    waiting = h.put().id
    h.advance(1)
    h.settled(Retry(held.lease))
    h.advance(1)
    later = h.put().id
    equal(h.taken(10), [waiting, held.job.id, later], "the order")


@case("L10", needs=SCHEDULING)
def a_retried_job_stands_where_its_run_at_says(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease, run_at=h.now + 10))
    h.advance(5)
    before = h.put().id
    h.advance(10)
    after = h.put().id
    equal(h.taken(10), [before, held.job.id, after], "the order")


@case("L10", "L8")
def a_released_job_keeps_its_place(h: Harness) -> None:
    held = h.held()
    h.advance(1)
    waiting = h.put().id
    h.advance(1)
    h.settled(Release(held.lease))
    equal(h.inspect(held.job.id).available_at, h.now - 2, "available_at")
    equal(h.taken(10), [held.job.id, waiting], "the order")


@case("L10", "L8", needs=SCHEDULING)
def a_job_released_for_later_stands_there(h: Harness) -> None:
    held = h.held()
    h.settled(Release(held.lease, delay=10))
    equal(h.inspect(held.job.id).available_at, h.now + 10, "available_at")
    h.advance(5)
    before = h.put().id
    h.advance(4)
    equal(h.taken(10), [before], "a microsecond before the delay is over")
    h.advance(1)
    equal(h.taken(10), [held.job.id], "when the delay is over")


@case("L10", "L7")
def a_job_whose_lease_expired_stands_at_that_instant(h: Harness) -> None:
    held = h.held()
    h.advance_to(held.lease.expires_at - 1)
    before = h.put().id
    h.advance_to(held.lease.expires_at + 1)
    after = h.put().id
    h.advance(SECOND)
    equal(h.reap(), 1, "reaped")
    equal(h.inspect(held.job.id).available_at, held.lease.expires_at, "available_at")
    equal(h.taken(10), [before, held.job.id, after], "the order")


@case("L10")
def a_job_of_a_worker_known_to_be_dead_stands_at_the_instant_of_its_reaping(h: Harness) -> None:
    held = h.held()
    h.advance(SECOND)
    h.reap(worker="w")
    equal(h.inspect(held.job.id).available_at, h.now, "available_at")


@case("L10", "L9")
def a_requeued_job_goes_to_the_end_of_the_line(h: Harness) -> None:
    held = h.held()
    h.settled(Fail(held.lease, reason="no"))
    h.advance(1)
    waiting = h.put().id
    h.requeue(held.job.id)
    equal(h.inspect(held.job.id).available_at, h.now, "available_at")
    equal(h.taken(10), [waiting, held.job.id], "the order")


@case("L10", needs={Feature.PRIORITIES})
def an_expired_job_keeps_its_priority(h: Harness) -> None:
    held = h.held(priority=5)
    waiting = h.put(priority=4).id
    h.advance(LEASE)
    equal(h.taken(10), [held.job.id, waiting], "the order")


@case("L10", needs={Feature.PRIORITIES, Feature.SCHEDULING})
def a_scheduled_job_of_high_priority_comes_first_once_it_is_due(h: Harness) -> None:
    high = h.put(priority=9, run_at=h.now + 10).id
    low = h.put().id
    equal(h.taken(1), [low], "before it is due")
    other = h.put().id
    h.advance(10)
    equal(h.taken(10, queues=[QUEUE]), [high, other], "once it is due")
