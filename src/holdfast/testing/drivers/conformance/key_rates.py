"""The rate of each limit key, and keys that a retry holds."""

from __future__ import annotations

from typing import Any

from holdfast.clock import DAY, HOUR, MINUTE, SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Trim
from holdfast.errors import LeaseMismatch
from holdfast.model.job import State
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.key_limits import KEY_LIMITS, configure_keys, fill, reserve_some
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


def _hold(h: Harness, **fields: Any) -> str:
    """Reserve a job, and hold its key; return its id."""
    reservation = h.reserve_one()
    h.must_settle(Retry(reservation.lease, hold_key=True, **fields))
    return reservation.job.id


@case("L3", "L2", needs=KEY_LIMITS)
def the_rate_of_a_key_allows_its_next_job_exactly_when_it_is_due(h: Harness) -> None:
    configure_keys(h, rate=2, burst=1)
    a, b = fill(h, "a", 3), fill(h, "b", 1)
    assert_equal(h.reserve_ids(9), [a[0], *b], "reserved at first")
    h.advance(SECOND // 2 - 1)
    assert_equal(h.reserve(9), [], "reserved a microsecond early")
    h.advance(1)
    assert_equal(h.reserve_ids(9), a[1:2], "reserved in time")
    h.advance(SECOND // 2)
    assert_equal(h.reserve_ids(9), a[2:], "reserved half a second later")


@case("L3", needs=KEY_LIMITS)
def the_burst_of_a_key_is_the_number_of_its_jobs_allowed_at_once(h: Harness) -> None:
    configure_keys(h, rate=1, burst=4)
    a, b = fill(h, "a", 9), fill(h, "b", 5)
    assert_equal(h.reserve_ids(20, lease_for=DAY), [*a[:4], *b[:4]], "reserved at once")
    assert_equal(h.reserve(20), [], "reserved right after")
    h.advance(2 * SECOND)
    assert_equal(h.reserve_ids(20, lease_for=DAY), [*a[4:6], *b[4:]], "reserved two seconds later")
    h.advance(HOUR)
    assert_equal(h.reserve_ids(20), a[6:], "reserved after an idle hour")


@case("L3", needs=KEY_LIMITS)
def the_rate_of_a_key_is_exact_over_time(h: Harness) -> None:
    configure_keys(h, rate=3, burst=3)
    fill(h, "a", 40)
    total = 0
    for _ in range(50):
        total += len(h.reserve(9, lease_for=HOUR))
        h.advance(SECOND // 5)
    # The burst, and the 29.4 jobs of 9.8 seconds at three per second.
    assert_equal(total, 3 + 29, "jobs reserved in ten seconds")


@case("L3", needs=KEY_LIMITS)
def a_rate_and_max_inflight_of_a_key_apply_together(h: Harness) -> None:
    configure_keys(h, rate=1, burst=3, max_inflight=2)
    jobs = fill(h, "a", 9)
    first = h.reserve(9)
    assert_equal([one.job.id for one in first], jobs[:2], "within max_inflight")
    h.must_settle(*[Ack(one.lease) for one in first])
    [third] = reserve_some(h, 1, limit=9)
    assert_equal(third.job.id, jobs[2], "within the rest of the burst")
    h.must_settle(Ack(third.lease))
    assert_equal(h.reserve(9), [], "reserved beyond the rate")
    h.advance(5 * SECOND)
    assert_equal(h.reserve_ids(9), jobs[3:5], "reserved after five seconds: no more than max_inflight")


@case("L3", needs=KEY_LIMITS | {Feature.JOBS})
def the_rate_of_a_key_is_not_refunded_and_survives_trim(h: Harness) -> None:
    configure_keys(h, rate=0.1, burst=1)
    jobs = fill(h, "a", 3)
    h.must_settle(Ack(h.reserve_one().lease))
    h.store.do(Trim(now=h.now_or_none))
    assert_equal(h.reserve(9), [], "reserved right after an ack")
    h.advance(10 * SECOND)
    h.store.do(Trim(now=h.now_or_none))
    assert_equal(h.reserve_ids(9, lease_for=DAY), jobs[1:2], "reserved in time")
    h.advance(HOUR)
    h.store.do(Trim(now=h.now_or_none))
    assert_equal(h.reserve_ids(9), jobs[2:], "reserved after an hour")


@case("L3", needs=KEY_LIMITS)
def a_raised_rate_of_keys_applies_at_once(h: Harness) -> None:
    configure_keys(h, rate=0.001)
    jobs = fill(h, "a", 9)
    assert_equal(h.reserve_ids(9), jobs[:1], "reserved at the old rate")
    assert_equal(h.reserve(9), [], "reserved right after")
    configure_keys(h, rate=2)
    h.advance(SECOND)
    assert_equal(h.reserve_ids(9), jobs[1:3], "reserved a second after the rate was raised")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings()))
    assert_equal(h.reserve_ids(9), jobs[3:], "reserved without a rate")


@case("L3", "L2", needs=KEY_LIMITS | {Feature.SCHEDULE})
def a_held_key_is_not_reserved_before_the_retry_is_due(h: Harness) -> None:
    for fields in ({"delay": MINUTE}, {"run_at": h.now + 2 * MINUTE}):
        queue_jobs = fill(h, "a", 2)
        [other] = fill(h, "b", 1)
        held = _hold(h, **fields)
        assert_equal(held, queue_jobs[0], "the job that is retried")
        assert_equal(h.reserve_ids(9, lease_for=DAY), [other], "reserved meanwhile")
        h.advance(MINUTE - 1)
        assert_equal(h.reserve(9), [], "reserved a microsecond early")
        h.advance(1)
        reservations = h.reserve(9)
        ids = [reservation.job.id for reservation in reservations]
        assert_equal(ids, [queue_jobs[1], held], "reserved in time: the job that waited is older")
        h.must_settle(*[Ack(reservation.lease) for reservation in reservations])


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def a_hold_works_beside_key_limits(h: Harness) -> None:
    configure_keys(h, max_inflight=2, rate=10)
    jobs = fill(h, "a", 5)
    running = reserve_some(h, 2)
    h.must_settle(Retry(running[0].lease, delay=MINUTE, hold_key=True), Ack(running[1].lease))
    h.advance(MINUTE - 1)
    assert_equal(h.reserve(9), [], "reserved while held")
    h.advance(1)
    assert_equal(h.reserve_ids(9), jobs[2:4], "reserved after the hold, within the limit")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def the_longer_of_two_holds_applies(h: Harness) -> None:
    jobs = fill(h, "a", 3)
    first, second = reserve_some(h, 2, limit=2)
    h.must_settle(Retry(first.lease, delay=MINUTE, hold_key=True))
    h.must_settle(Retry(second.lease, delay=SECOND, hold_key=True))
    h.advance(MINUTE - 1)
    assert_equal(h.reserve(9), [], "reserved while held")
    h.advance(1)
    assert_equal(h.reserve_ids(9), [jobs[2], jobs[1], jobs[0]], "reserved after the longer hold")


@case("L3", "L6", needs=KEY_LIMITS | {Feature.SCHEDULE})
def a_refused_or_repeated_retry_holds_no_key(h: Harness) -> None:
    fill(h, "a", 1)
    stale = h.reserve_one()
    h.expire_leases()
    current = h.reserve_one()
    assert_answers(h.settle(Retry(stale.lease, delay=HOUR, hold_key=True)), LeaseMismatch)
    h.must_settle(Retry(current.lease, delay=SECOND, hold_key=True))
    h.advance(SECOND)
    h.must_settle(Retry(current.lease, delay=HOUR, hold_key=True))
    assert_equal(len(h.reserve()), 1, "jobs reserved after the first hold")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def a_retry_that_makes_the_job_dead_holds_its_key_too(h: Harness) -> None:
    last = h.enqueue_job(limit_key="a", max_attempts=1)
    [other] = fill(h, "a", 1)
    _hold(h, delay=MINUTE)
    assert_equal(h.state(last.id), State.DEAD, "the state of the retried job")
    assert_equal(h.reserve(9), [], "reserved while held")
    h.advance(MINUTE)
    assert_equal(h.reserve_ids(9), [other], "reserved after the hold")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def a_hold_touches_no_other_queue_and_needs_a_key(h: Harness) -> None:
    [first, second] = fill(h, None, 2)
    [other] = fill(h, "a", 1, queue="other")
    assert_equal(_hold(h, delay=MINUTE), first, "the job without a key")
    assert_equal(h.reserve_ids(9), [second], "reserved: no key, no hold")
    [held] = fill(h, "a", 1)
    assert_equal(_hold(h, delay=MINUTE), held, "the job with a key")
    assert_equal(h.reserve_ids(9, queues=[QUEUE, "other"]), [other], "reserved from the other queue")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def configure_of_key_limits_ends_the_holds_of_the_queue(h: Harness) -> None:
    jobs = fill(h, "a", 2)
    _hold(h, delay=HOUR)
    assert_equal(h.reserve(9), [], "reserved while held")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=50), only=("max_inflight",)))
    assert_equal(h.reserve(9), [], "reserved after a change of another setting")
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(), only=("key_max_inflight",)))
    assert_equal(h.reserve_ids(9), jobs[1:], "reserved after the hold was ended")


@case("L3", needs=KEY_LIMITS | {Feature.SPACES, Feature.SCHEDULE})
def the_keys_of_a_space_are_its_own(h: Harness) -> None:
    other = h.open_other_space()
    other.do(Configure(queue=QUEUE, settings=QueueSettings(key_rate=1)))
    configure_keys(h, rate=1)
    other.enqueue([h.job(limit_key="a") for _ in range(2)], now=h.now_or_none)
    fill(h, "a", 2)
    reservation = h.reserve_one()
    assert_equal(len(other.reserve([QUEUE], limit=9, lease_for=LEASE, now=h.now_or_none)), 1, "in the other space")
    h.must_settle(Retry(reservation.lease, delay=HOUR, hold_key=True))
    h.advance(SECOND)
    assert_equal(len(other.reserve([QUEUE], limit=9, lease_for=LEASE, now=h.now_or_none)), 1, "beside the hold")
