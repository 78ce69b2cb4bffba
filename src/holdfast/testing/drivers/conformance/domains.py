"""One at a time, in order (L11)."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.contract import Feature
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, Harness

DOMAINS = {Feature.DOMAINS}


def _pair(h: Harness, **fields: object) -> tuple[str, str]:
    """A head and the job behind it."""
    return h.put(domain="d", **fields).id, h.put(domain="d").id


@case("L11", needs=DOMAINS)
def many_jobs_alike_of_a_domain_run_one_at_a_time(h: Harness) -> None:
    jobs = h.alike([b"1"] * 600, domain="d")
    h.store.enqueue(jobs, now=h.stamp)
    for job_id in jobs.ids[:3]:
        [held] = h.reserve(10)
        equal(held.job.id, job_id, "the only job that may run")
        h.settled(Ack(held.lease))


@case("L11", needs=DOMAINS)
def one_job_of_a_domain_is_in_flight_at_a_time(h: Harness) -> None:
    first, _ = _pair(h)
    equal(h.taken(1), [first], "the head")
    equal(h.reserve(5), [], "what stands behind it")


@case("L11", needs=DOMAINS)
def a_batch_never_holds_two_jobs_of_a_domain(h: Harness) -> None:
    first, _ = _pair(h)
    free = h.put().id
    other = h.put(domain="e").id
    equal(h.taken(10), [first, free, other], "one batch")


@case("L11", needs=DOMAINS)
def a_domain_runs_in_the_order_of_arrival(h: Harness) -> None:
    jobs = [h.put(domain="d").id for _ in range(4)]
    ran = []
    while found := h.reserve(5):
        ran += [held.job.id for held in found]
        h.settled(*[Ack(held.lease) for held in found])
    equal(ran, jobs, "the order")


@case("L11", needs=DOMAINS | {Feature.PRIORITIES, Feature.SCHEDULING})
def neither_priority_nor_run_at_overtakes_in_a_domain(h: Harness) -> None:
    first = h.put(domain="d").id
    second = h.put(domain="d", priority=9, run_at=h.now - SECOND).id
    held = h.take()
    equal(held.job.id, first, "the head")
    h.settled(Ack(held.lease))
    equal(h.taken(1), [second], "the next")


@case("L11", needs=DOMAINS | {Feature.SCHEDULING})
def a_scheduled_head_holds_its_domain_up(h: Harness) -> None:
    first, _ = _pair(h, run_at=h.now + 10)
    equal(h.reserve(5), [], "before the head is due")
    h.advance(10)
    equal(h.taken(5), [first], "when it is due")


@case("L11", needs=DOMAINS | {Feature.SCHEDULING})
def a_head_in_backoff_holds_its_domain_up_without_a_lease(h: Harness) -> None:
    first, _ = _pair(h)
    h.settled(Retry(h.take().lease, delay=10))
    equal(h.state(first), State.READY, "the head")
    equal(h.inspect(first).fence, None, "its fence")
    h.advance(9)
    equal(h.reserve(5), [], "during the backoff")
    h.advance(1)
    equal(h.taken(5), [first], "after the backoff")


@case("L11", needs=DOMAINS)
def a_retried_head_runs_again_before_the_next(h: Harness) -> None:
    first, _ = _pair(h)
    h.advance(SECOND)
    h.settled(Retry(h.take().lease))
    equal(h.taken(5), [first], "after the retry")


@case("L11", "L8", needs=DOMAINS)
def a_released_head_keeps_its_turn(h: Harness) -> None:
    first, _ = _pair(h)
    h.settled(Release(h.take().lease))
    equal(h.taken(5), [first], "after the release")


@case("L11", "L7", needs=DOMAINS)
def an_expired_head_keeps_its_turn(h: Harness) -> None:
    first, _ = _pair(h)
    h.take()
    h.advance(LEASE)
    equal(h.taken(5), [first], "after the lease expired")


@case("L11", needs=DOMAINS)
def an_ack_hands_the_turn_on(h: Harness) -> None:
    _, second = _pair(h)
    h.settled(Ack(h.take().lease))
    equal(h.taken(5), [second], "after the ack")


@case("L11", needs=DOMAINS)
def a_fail_hands_the_turn_on(h: Harness) -> None:
    _, second = _pair(h)
    h.settled(Fail(h.take().lease, reason="no"))
    equal(h.taken(5), [second], "after the fail")


@case("L11", needs=DOMAINS)
def a_retry_with_no_attempts_left_hands_the_turn_on(h: Harness) -> None:
    _, second = _pair(h, max_attempts=1)
    h.settled(Retry(h.take().lease))
    equal(h.taken(5), [second], "after the last attempt")


@case("L11", needs=DOMAINS)
def a_release_beyond_its_budget_hands_the_turn_on(h: Harness) -> None:
    _, second = _pair(h)
    held = h.take()
    h.advance(1)
    h.settled(Release(held.lease, budget=0))
    equal(h.taken(5), [second], "after the release")


@case("L11", needs=DOMAINS)
def a_last_lease_that_expires_hands_the_turn_on_in_the_same_call(h: Harness) -> None:
    first, second = _pair(h, max_attempts=1)
    h.take()
    h.advance(LEASE)
    equal(h.taken(5), [second], "the reserve that ended the head")
    equal(h.state(first), State.DEAD, "the head")


@case("L11", needs=DOMAINS)
def poison_hands_the_turn_on(h: Harness) -> None:
    first, second = _pair(h, max_crashes=1)
    h.take()
    equal(h.lapse(), 1, "reaped")
    equal(h.state(first), State.DEAD, "the head")
    equal(h.taken(5), [second], "after the poison")


@case("L11", needs=DOMAINS)
def cancelling_a_waiting_head_hands_the_turn_on(h: Harness) -> None:
    first, second = _pair(h)
    h.cancel(first)
    equal(h.taken(5), [second], "after the cancel")


@case("L11", needs=DOMAINS)
def cancelling_a_running_head_hands_the_turn_on_when_it_ends(h: Harness) -> None:
    first, second = _pair(h)
    held = h.take()
    h.cancel(first)
    equal(h.reserve(5), [], "while the head runs")
    h.settled(Retry(held.lease, delay=SECOND))
    equal(h.taken(5), [second], "after the head has ended")


@case("L11", needs=DOMAINS)
def cancelling_a_job_in_the_middle_leaves_the_head_alone(h: Harness) -> None:
    first, middle, last = (h.put(domain="d").id for _ in range(3))
    h.cancel(middle)
    held = h.take()
    equal(held.job.id, first, "the head")
    equal(h.reserve(5), [], "what stands behind it")
    h.settled(Ack(held.lease))
    equal(h.taken(5), [last], "the next")


@case("L11", needs=DOMAINS)
def cancelling_behind_a_running_head_leaves_it_alone(h: Harness) -> None:
    _, second = _pair(h)
    held = h.take()
    h.cancel(second)
    equal(h.reserve(5), [], "what may run")
    h.settled(Ack(held.lease))
    equal(h.reserve(5), [], "what is left")


@case("L11", needs=DOMAINS)
def domains_do_not_wait_for_one_another(h: Harness) -> None:
    heads = [h.put(domain=name).id for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        h.put(domain=name)
    equal(h.taken(10), heads, "the heads")


@case("L11", needs=DOMAINS)
def a_domain_belongs_to_its_queue(h: Harness) -> None:
    jobs = [h.put(domain="d", queue=queue).id for queue in ("a", "b")]
    equal(h.taken(10, queues=["a", "b"]), jobs, "one job of each queue")


@case("L11", needs=DOMAINS | {Feature.SPACES})
def a_domain_belongs_to_its_space(h: Harness) -> None:
    held, other = h.held(domain="d"), h.elsewhere()
    other.enqueue([h.job(domain="d")], now=h.stamp)
    found = other.reserve([held.job.queue], limit=5, lease_for=LEASE, now=h.stamp)
    equal(len(found), 1, "jobs reserved in the other space")


@case("L11", needs=DOMAINS)
def a_requeued_job_goes_to_the_end_of_its_domain(h: Harness) -> None:
    first, second = _pair(h)
    h.settled(Fail(h.take().lease, reason="no"))
    third = h.put(domain="d").id
    h.requeue(first)
    ran = []
    for _ in range(3):
        held = h.take()
        ran.append(held.job.id)
        h.settled(Ack(held.lease))
    equal(ran, [second, third, first], "the order")


@case("L11", needs=DOMAINS)
def a_requeued_job_has_the_turn_of_an_empty_domain(h: Harness) -> None:
    held = h.held(domain="d")
    h.settled(Fail(held.lease, reason="no"))
    h.requeue(held.job.id)
    equal(h.taken(5), [held.job.id], "the requeued job")


@case("L11", needs=DOMAINS)
def purging_an_ended_job_leaves_its_domain_alone(h: Harness) -> None:
    held = h.held(domain="d")
    h.settled(Ack(held.lease))
    first, second = _pair(h)
    h.purge(held.job.id)
    running = h.take()
    equal(running.job.id, first, "the head")
    equal(h.reserve(5), [], "what stands behind it")
    h.settled(Ack(running.lease))
    equal(h.taken(5), [second], "the next")


@case("L11", "L6", needs=DOMAINS)
def a_repeated_ack_hands_the_turn_on_only_once(h: Harness) -> None:
    jobs = [h.put(domain="d").id for _ in range(3)]
    ack = Ack(h.take().lease)
    h.settled(ack, ack)
    h.settled(ack)
    equal(h.taken(5), [jobs[1]], "the next")
    h.settled(ack)
    equal(h.reserve(5), [], "what stands behind it")


@case("L11", needs=DOMAINS | {Feature.TYPES})
def a_head_of_another_type_holds_its_domain_up(h: Harness) -> None:
    h.put(domain="d", type="a")
    h.put(domain="d", type="b")
    equal(h.reserve(5, types={"b"}), [], "jobs of the type behind the head")


@case("L11", needs=DOMAINS)
def a_job_that_comes_to_a_running_domain_waits(h: Harness) -> None:
    held = h.held(domain="d")
    later = h.put(domain="d").id
    equal(h.reserve(5), [], "while the head runs")
    h.settled(Ack(held.lease))
    equal(h.taken(5), [later], "after it has ended")


@case("L11", needs=DOMAINS)
def a_batch_of_a_domain_stands_in_the_order_given(h: Harness) -> None:
    jobs = [h.job(id=name, domain="d") for name in ("c", "a", "b")]
    h.enqueue(*jobs)
    ran = []
    for _ in jobs:
        held = h.take()
        ran.append(held.job.id)
        h.settled(Ack(held.lease))
    equal(ran, ["c", "a", "b"], "the order")
