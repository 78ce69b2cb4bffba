"""Domains: one job at a time, in order (L11)."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Inspect
from holdfast.model.job import State
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

DOMAINS = {Feature.DOMAIN}


def _enqueue_two(h: Harness, **fields: object) -> tuple[str, str]:
    """Enqueue two jobs of one domain: the head and the job behind it."""
    return h.enqueue_job(domain="d", **fields).id, h.enqueue_job(domain="d").id


@case("L11", needs=DOMAINS)
def a_large_job_batch_of_one_domain_runs_one_job_at_a_time(h: Harness) -> None:
    jobs = h.job_batch([b"1"] * 600, domain="d")
    h.store.enqueue(jobs, now=h.now_or_none)
    for job_id in jobs.ids[:3]:
        [reservation] = h.reserve(10)
        assert_equal(reservation.job.id, job_id, "the only job that may run")
        h.must_settle(Ack(reservation.lease))


@case("L11", needs=DOMAINS)
def a_domain_has_at_most_one_job_in_flight(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    assert_equal(h.reserve_ids(1), [first], "the head")
    assert_equal(h.reserve(5), [], "the job behind the head")


@case("L11", needs=DOMAINS)
def one_reserve_never_returns_two_jobs_of_a_domain(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    free = h.enqueue_job().id
    other = h.enqueue_job(domain="e").id
    assert_equal(h.reserve_ids(10), [first, free, other], "one batch")


@case("L11", needs=DOMAINS)
def a_domain_runs_in_the_order_of_arrival(h: Harness) -> None:
    jobs = [h.enqueue_job(domain="d").id for _ in range(4)]
    ran = []
    while reservations := h.reserve(5):
        ran += [reservation.job.id for reservation in reservations]
        h.must_settle(*[Ack(reservation.lease) for reservation in reservations])
    assert_equal(ran, jobs, "the order")


def _arrivals(h: Harness, *job_ids: str) -> list[int]:
    """Return the places of these jobs in the order of arrival."""
    found = h.store.do(Inspect(job_ids=[*job_ids, "unknown"], payloads=False))
    assert_equal(set(found), set(job_ids), "the jobs")
    return [found[job_id].arrival for job_id in job_ids]


@case("L11", needs=DOMAINS | {Feature.JOBS})
def arrivals_are_the_order_in_which_a_domain_runs(h: Harness) -> None:
    jobs = h.job_batch([b"1"] * 3, domain="d")
    h.store.enqueue(jobs, now=h.now_or_none)
    first, second, third = jobs.ids
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, first, "the head")
    assert_equal(_arrivals(h, *jobs.ids), sorted(_arrivals(h, *jobs.ids)), "the places")
    h.must_settle(Fail(reservation.lease, reason="bad"))
    assert_equal(_arrivals(h, first, second, third), sorted(_arrivals(h, *jobs.ids)), "the places after an end")
    assert_equal(h.requeue(first), [True], "requeued")
    places = _arrivals(h, second, third, first)
    assert_equal(places, sorted(places), "the places after a requeue")


@case("L11", needs=DOMAINS | {Feature.PRIORITY, Feature.SCHEDULE})
def neither_priority_nor_run_at_changes_the_order_of_a_domain(h: Harness) -> None:
    first = h.enqueue_job(domain="d").id
    second = h.enqueue_job(domain="d", priority=9, run_at=h.now - SECOND).id
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, first, "the head")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve_ids(1), [second], "the next")


@case("L11", needs=DOMAINS | {Feature.SCHEDULE})
def a_scheduled_head_blocks_its_domain(h: Harness) -> None:
    first, _ = _enqueue_two(h, run_at=h.now + 10)
    assert_equal(h.reserve(5), [], "before the head is due")
    h.advance(10)
    assert_equal(h.reserve_ids(5), [first], "when it is due")


@case("L11", needs=DOMAINS | {Feature.SCHEDULE})
def a_head_in_backoff_blocks_its_domain_without_a_lease(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    h.must_settle(Retry(h.reserve_one().lease, delay=10))
    assert_equal(h.state(first), State.READY, "the head")
    assert_equal(h.inspect(first).fence, None, "its fence")
    h.advance(9)
    assert_equal(h.reserve(5), [], "during the backoff")
    h.advance(1)
    assert_equal(h.reserve_ids(5), [first], "after the backoff")


@case("L11", needs=DOMAINS)
def a_retried_head_runs_before_the_next_job_of_its_domain(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    h.advance(SECOND)
    h.must_settle(Retry(h.reserve_one().lease))
    assert_equal(h.reserve_ids(5), [first], "after the retry")


@case("L11", "L8", needs=DOMAINS)
def a_released_head_keeps_its_turn(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    h.must_settle(Release(h.reserve_one().lease))
    assert_equal(h.reserve_ids(5), [first], "after the release")


@case("L11", "L7", needs=DOMAINS)
def a_head_whose_lease_expired_keeps_its_turn(h: Harness) -> None:
    first, _ = _enqueue_two(h)
    h.reserve_one()
    h.advance(LEASE)
    assert_equal(h.reserve_ids(5), [first], "after the lease expired")


@case("L11", needs=DOMAINS)
def an_ack_passes_the_turn_to_the_next_job(h: Harness) -> None:
    _, second = _enqueue_two(h)
    h.must_settle(Ack(h.reserve_one().lease))
    assert_equal(h.reserve_ids(5), [second], "after the ack")


@case("L11", needs=DOMAINS)
def a_fail_passes_the_turn_to_the_next_job(h: Harness) -> None:
    _, second = _enqueue_two(h)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    assert_equal(h.reserve_ids(5), [second], "after the fail")


@case("L11", needs=DOMAINS)
def a_retry_with_no_attempts_left_passes_the_turn(h: Harness) -> None:
    _, second = _enqueue_two(h, max_attempts=1)
    h.must_settle(Retry(h.reserve_one().lease))
    assert_equal(h.reserve_ids(5), [second], "after the last attempt")


@case("L11", needs=DOMAINS)
def a_release_beyond_its_budget_passes_the_turn(h: Harness) -> None:
    _, second = _enqueue_two(h)
    reservation = h.reserve_one()
    h.advance(1)
    h.must_settle(Release(reservation.lease, budget=0))
    assert_equal(h.reserve_ids(5), [second], "after the release")


@case("L11", needs=DOMAINS)
def a_last_attempt_that_expires_passes_the_turn_in_the_same_call(h: Harness) -> None:
    first, second = _enqueue_two(h, max_attempts=1)
    h.reserve_one()
    h.advance(LEASE)
    assert_equal(h.reserve_ids(5), [second], "the reserve that ended the head")
    assert_equal(h.state(first), State.DEAD, "the head")


@case("L11", needs=DOMAINS)
def a_poison_job_passes_the_turn(h: Harness) -> None:
    first, second = _enqueue_two(h, max_crashes=1)
    h.reserve_one()
    assert_equal(h.expire_leases(), 1, "reaped")
    assert_equal(h.state(first), State.DEAD, "the head")
    assert_equal(h.reserve_ids(5), [second], "after the poison")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def cancelling_a_ready_head_passes_the_turn(h: Harness) -> None:
    first, second = _enqueue_two(h)
    h.cancel(first)
    assert_equal(h.reserve_ids(5), [second], "after the cancel")


@case("L11", needs=DOMAINS | {Feature.JOBS, Feature.SCHEDULE})
def cancelling_a_running_head_passes_the_turn_when_the_head_ends(h: Harness) -> None:
    first, second = _enqueue_two(h)
    reservation = h.reserve_one()
    h.cancel(first)
    assert_equal(h.reserve(5), [], "while the head runs")
    h.must_settle(Retry(reservation.lease, delay=SECOND))
    assert_equal(h.reserve_ids(5), [second], "after the head has ended")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def cancelling_a_job_in_the_middle_does_not_change_the_head(h: Harness) -> None:
    first, middle, last = (h.enqueue_job(domain="d").id for _ in range(3))
    h.cancel(middle)
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, first, "the head")
    assert_equal(h.reserve(5), [], "the job behind the head")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve_ids(5), [last], "the next")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def cancelling_the_job_behind_a_running_head_does_not_change_the_head(h: Harness) -> None:
    _, second = _enqueue_two(h)
    reservation = h.reserve_one()
    h.cancel(second)
    assert_equal(h.reserve(5), [], "jobs reserved")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve(5), [], "jobs reserved after the ack")


@case("L11", needs=DOMAINS)
def domains_do_not_block_each_other(h: Harness) -> None:
    heads = [h.enqueue_job(domain=name).id for name in ("a", "b", "c")]
    for name in ("a", "b", "c"):
        h.enqueue_job(domain=name)
    assert_equal(h.reserve_ids(10), heads, "the heads")


@case("L11", needs=DOMAINS)
def a_domain_belongs_to_its_queue(h: Harness) -> None:
    jobs = [h.enqueue_job(domain="d", queue=queue).id for queue in ("a", "b")]
    assert_equal(h.reserve_ids(10, queues=["a", "b"]), jobs, "one job of each queue")


@case("L11", needs=DOMAINS | {Feature.SPACES})
def a_domain_belongs_to_its_space(h: Harness) -> None:
    reservation, other = h.reserve_new_job(domain="d"), h.open_other_space()
    other.enqueue([h.job(domain="d")], now=h.now_or_none)
    reservations = other.reserve([reservation.job.queue], limit=5, lease_for=LEASE, now=h.now_or_none)
    assert_equal(len(reservations), 1, "jobs reserved in the other space")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def a_requeued_job_goes_to_the_end_of_its_domain(h: Harness) -> None:
    first, second = _enqueue_two(h)
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    third = h.enqueue_job(domain="d").id
    h.requeue(first)
    ran = []
    for _ in range(3):
        reservation = h.reserve_one()
        ran.append(reservation.job.id)
        h.must_settle(Ack(reservation.lease))
    assert_equal(ran, [second, third, first], "the order")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def a_requeued_job_gets_the_turn_of_an_empty_domain(h: Harness) -> None:
    reservation = h.reserve_new_job(domain="d")
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.requeue(reservation.job.id)
    assert_equal(h.reserve_ids(5), [reservation.job.id], "the requeued job")


@case("L11", needs=DOMAINS | {Feature.JOBS})
def purging_an_ended_job_does_not_change_its_domain(h: Harness) -> None:
    reservation = h.reserve_new_job(domain="d")
    h.must_settle(Ack(reservation.lease))
    first, second = _enqueue_two(h)
    h.purge(reservation.job.id)
    running = h.reserve_one()
    assert_equal(running.job.id, first, "the head")
    assert_equal(h.reserve(5), [], "the job behind the head")
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(5), [second], "the next")


@case("L11", "L6", needs=DOMAINS)
def a_repeated_ack_passes_the_turn_only_once(h: Harness) -> None:
    jobs = [h.enqueue_job(domain="d").id for _ in range(3)]
    ack = Ack(h.reserve_one().lease)
    h.must_settle(ack, ack)
    h.must_settle(ack)
    assert_equal(h.reserve_ids(5), [jobs[1]], "the next")
    h.must_settle(ack)
    assert_equal(h.reserve(5), [], "the job behind the head")


@case("L10", "L11", needs=DOMAINS)
def a_job_that_waits_for_its_turn_takes_no_place_of_another_job(h: Harness) -> None:
    """The jobs of two lanes compete, and the one that waits is the first of all."""
    h.reserve_new_job(domain="d", type="a")
    h.enqueue_job(domain="d", type="a")
    first, second = h.enqueue_job(type="b"), h.enqueue_job(type="a")
    assert_equal(h.reserve_ids(1), [first.id], "the first answer")
    assert_equal(h.reserve_ids(9), [second.id], "the second answer")


@case("L10", "L11", needs=DOMAINS | {Feature.LIMITS})
def a_job_that_waits_for_its_turn_uses_no_capacity_of_its_queue(h: Harness) -> None:
    head = h.reserve_new_job(domain="d", type="a")
    h.enqueue_job(domain="d", type="a")
    first = h.enqueue_job(type="b")
    h.enqueue_job(type="a")
    h.store.do(Configure(queue=head.job.queue, settings=QueueSettings(max_inflight=2)))
    assert_equal(h.reserve_ids(9), [first.id], "the answer")


@case("L11", needs=DOMAINS | {Feature.TYPES})
def a_head_of_another_type_blocks_its_domain(h: Harness) -> None:
    h.enqueue_job(domain="d", type="a")
    h.enqueue_job(domain="d", type="b")
    assert_equal(h.reserve(5, types={"b"}), [], "jobs of the type behind the head")


@case("L11", needs=DOMAINS)
def a_job_that_is_added_to_a_running_domain_waits(h: Harness) -> None:
    reservation = h.reserve_new_job(domain="d")
    later = h.enqueue_job(domain="d").id
    assert_equal(h.reserve(5), [], "while the head runs")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve_ids(5), [later], "after it has ended")


@case("L11", needs=DOMAINS)
def a_batch_of_one_domain_keeps_its_order(h: Harness) -> None:
    jobs = [h.job(id=name, domain="d") for name in ("c", "a", "b")]
    h.enqueue(*jobs)
    ran = []
    for _ in jobs:
        reservation = h.reserve_one()
        ran.append(reservation.job.id)
        h.must_settle(Ack(reservation.lease))
    assert_equal(ran, ["c", "a", "b"], "the order")
