"""Domains with offsets: the order in which their jobs run (L11)."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.model.job import State
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import (
    OFFSETS,
    ask,
    end_offsets,
    enqueue_at,
    job_at,
    run_all,
)
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


@case("L11", needs=OFFSETS)
def a_domain_runs_in_the_order_of_offsets(h: Harness) -> None:
    enqueue_at(h, 7, 3, 100, 5)
    assert_equal(run_all(h), [3, 5, 7, 100], "the order")


@case("L11", needs=OFFSETS)
def the_offsets_of_one_batch_are_sorted(h: Harness) -> None:
    h.enqueue(*[job_at(h, offset) for offset in (2, 0, 9, 1)])
    assert_equal(run_all(h), [0, 1, 2, 9], "the order")


@case("L11", needs=OFFSETS)
def jobs_without_an_offset_run_after_those_with_one_in_the_order_of_arrival(h: Harness) -> None:
    first, second = enqueue_at(h, None, None)
    enqueue_at(h, 5)
    third = enqueue_at(h, None)[0]
    enqueue_at(h, 2)
    ran = []
    while reservations := h.reserve(10):
        ran.append(reservations[0].job.offset if reservations[0].job.offset is not None else reservations[0].job.id)
        h.must_settle(Ack(reservations[0].lease))
    assert_equal(ran, [2, 5, first, second, third], "the order")


@case("L11", needs=OFFSETS)
def a_smaller_offset_takes_the_turn_from_a_ready_head(h: Harness) -> None:
    larger = enqueue_at(h, 5)[0]
    h.must_settle(Release(h.reserve_one().lease))  # the store has given it the turn
    smaller = enqueue_at(h, 3)[0]
    assert_equal(h.reserve_ids(9), [smaller], "reserved")
    assert_equal(h.state(larger), State.READY, "the larger offset")


@case("L11", needs=OFFSETS)
def a_smaller_offset_waits_for_a_head_in_flight_and_runs_next(h: Harness) -> None:
    enqueue_at(h, 5, 6)
    running = h.reserve_one()
    late = enqueue_at(h, 3)[0]
    assert_equal(h.reserve(9), [], "reserved while the head runs")
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(9), [late], "the next job")


@case("L11", needs=OFFSETS)
def a_smaller_offset_runs_before_a_head_that_is_retried(h: Harness) -> None:
    retried = enqueue_at(h, 5)[0]
    running = h.reserve_one()
    late = enqueue_at(h, 3)[0]
    h.must_settle(Retry(running.lease))
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, late, "after the retry")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve_ids(9), [retried], "the next job")


@case("L11", needs=OFFSETS | {Feature.SCHEDULE})
def a_smaller_offset_runs_before_a_head_in_backoff(h: Harness) -> None:
    enqueue_at(h, 5)
    h.must_settle(Retry(h.reserve_one().lease, delay=10 * SECOND))
    assert_equal(h.reserve(9), [], "during the backoff")
    late = enqueue_at(h, 3)[0]
    assert_equal(h.reserve_ids(9), [late], "reserved")
    h.advance(10 * SECOND)
    assert_equal(h.reserve(9), [], "after the backoff, while the smaller offset runs")


@case("L11", needs=OFFSETS)
def a_larger_offset_waits_for_a_head_that_is_retried(h: Harness) -> None:
    head = enqueue_at(h, 3, 5)[0]
    h.must_settle(Retry(h.reserve_one().lease))
    assert_equal(h.reserve_ids(9), [head], "after the retry")


@case("L11", needs=OFFSETS | {Feature.SCHEDULE})
def a_scheduled_smaller_offset_blocks_its_domain(h: Harness) -> None:
    enqueue_at(h, 5)
    h.must_settle(Release(h.reserve_one().lease))
    late = enqueue_at(h, 3, run_at=h.now + SECOND)[0]
    assert_equal(h.reserve(9), [], "reserved before the smaller offset is due")
    h.advance(SECOND)
    assert_equal(h.reserve_ids(9), [late], "reserved when it is due")


@case("L11", needs=OFFSETS | {Feature.LIMITS, Feature.LIMIT_KEY, Feature.JOBS})
def a_smaller_offset_takes_the_turn_from_a_head_whose_key_is_full(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=1)))
    running = h.reserve_new_job(limit_key="k")
    full = enqueue_at(h, 5, limit_key="k")[0]
    assert_equal(h.reserve(9), [], "reserved while the key is full")
    late = enqueue_at(h, 3)[0]
    reservation = h.reserve_one()
    assert_equal(reservation.job.id, late, "the smaller offset, which has no key")
    other = h.enqueue_job(limit_key="k").id
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(1), [other], "the place of the key, while the head waits for its turn")
    h.must_settle(Ack(reservation.lease))
    assert_equal(h.reserve(9), [], "the head, while its key is full again")
    assert_equal(h.cancel(other), [State.INFLIGHT], "the other job of the key")
    h.advance(LEASE)
    assert_equal(h.reserve_ids(9), [full], "the head, when its key has a place")


@case("L11", "L9", needs=OFFSETS)
def an_offset_that_was_never_seen_is_accepted_and_runs_next_however_late_it_is(h: Harness) -> None:
    end_offsets(h, *range(1, 20))
    enqueue_at(h, 50)
    late = enqueue_at(h, 0)[0]
    assert_equal(h.reserve_ids(9), [late], "reserved")


@case("L11", needs=OFFSETS | {Feature.JOBS})
def a_requeued_offset_runs_next(h: Harness) -> None:
    dead = enqueue_at(h, 3, 5, 6)[0]
    h.must_settle(Fail(h.reserve_one().lease, reason="no"))
    running = h.reserve_one()
    assert_equal(running.job.offset, 5, "the next offset")
    assert_equal(h.requeue(dead), [True], "requeued")
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve_ids(9), [dead], "reserved after the requeue")


@case("L11", needs=OFFSETS)
def offsets_belong_to_their_domain(h: Harness) -> None:
    end_offsets(h, 1)
    assert not ask(h, 1, domain="e").existed, "wanted a new job in another domain"
    assert_equal(len(h.reserve(9)), 1, "reserved")


@case("L11", needs=OFFSETS)
def offsets_belong_to_their_queue(h: Harness) -> None:
    end_offsets(h, 1)
    other = job_at(h, 1, queue="other")
    assert_equal(h.enqueue(other), [Enqueued(id=other.id, existed=False)], "the same offset in another queue")
    assert_equal(h.reserve_ids(9, queues=["other"]), [other.id], "reserved")


@case("L11", needs=OFFSETS | {Feature.SPACES})
def offsets_belong_to_their_space(h: Harness) -> None:
    end_offsets(h, 1)
    other, job = h.open_other_space(), job_at(h, 1)
    assert_equal(other.enqueue([job], now=h.now_or_none), [Enqueued(id=job.id, existed=False)], "in another space")
