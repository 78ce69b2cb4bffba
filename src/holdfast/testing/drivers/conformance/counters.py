"""Counters and instants at the ends of their ranges: no job can make a verb fail for the jobs beside it (L5, L7)."""

from __future__ import annotations

from holdfast.clock import DAY
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.model.bounds import MAX_COUNT, MAX_DURATION, MAX_INSTANT
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


def _reserve_pair(h: Harness) -> tuple[Reservation, Reservation]:
    """Reserve a job whose counters are one below their ends, and a job of the same queue beside it."""
    h.enqueue_job(attempts=MAX_COUNT - 2, max_attempts=MAX_COUNT, crashes=MAX_COUNT, max_crashes=None)
    h.enqueue_job()
    extreme, other = h.reserve(2)
    return extreme, other


@case("L7", "L5")
def a_job_with_the_most_crashes_expires_without_harm_to_other_jobs(h: Harness) -> None:
    extreme, other = _reserve_pair(h)
    assert_equal(extreme.job.attempts, MAX_COUNT - 1, "attempts of the extreme job")
    h.advance(LEASE)
    assert_equal(
        [one.job.id for one in h.reserve(5)], [extreme.job.id, other.job.id], "the jobs reserved after the expiry"
    )
    job = h.get(extreme.job.id)
    assert_equal((job.attempts, job.crashes), (MAX_COUNT, MAX_COUNT), "attempts and crashes after the expiry")
    assert_equal(h.expire_leases(), 2, "leases that ended")
    assert_equal(h.get(extreme.job.id).state, State.DEAD, "the state when no attempts are left")
    assert_equal(h.reserve_ids(5), [other.job.id], "the jobs reserved afterwards")


@case("L7", "L5")
def a_job_with_the_most_crashes_is_retried_without_harm_to_other_jobs(h: Harness) -> None:
    extreme, other = _reserve_pair(h)
    h.must_settle(Retry(extreme.lease, crashed=True), Retry(other.lease, crashed=True))
    job = h.get(extreme.job.id)
    assert_equal((job.state, job.crashes), (State.READY, MAX_COUNT), "state and crashes of the extreme job")
    assert_equal(h.get(other.job.id).crashes, 1, "crashes of the other job")


@case("L7")
def a_job_with_the_most_crashes_and_a_limit_of_as_many_is_poison(h: Harness) -> None:
    reservation = h.reserve_new_job(crashes=MAX_COUNT, max_crashes=MAX_COUNT)
    assert_equal(h.expire_leases(), 1, "leases that ended")
    assert_equal(h.get(reservation.job.id).state, State.DEAD, "the state")


@case("L8", needs={Feature.SCHEDULE})
def the_longest_delays_and_leases_fit_into_every_instant(h: Harness) -> None:
    h.advance_to(MAX_INSTANT - 1)
    extreme, other = h.reserve_new_job(lease_for=MAX_DURATION), h.reserve_new_job(lease_for=MAX_DURATION)
    h.must_extend(other.lease, lease_for=MAX_DURATION)
    h.must_settle(Release(extreme.lease, delay=MAX_DURATION, budget=MAX_DURATION), Retry(other.lease, delay=1))
    assert_equal(h.get(extreme.job.id).run_at, h.now + MAX_DURATION, "run_at after the longest delay")
    h.advance(1)
    h.must_settle(Ack(h.reserve_one().lease))


@case("L3", needs={Feature.LIMITS})
def a_rate_limit_can_be_idle_for_any_length(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(rate=1_000_000, burst=MAX_COUNT)))
    for idle in (DAY, 1000 * DAY, MAX_DURATION):
        h.must_settle(Ack(h.reserve_new_job().lease))
        h.advance(idle)
    h.reserve_new_job()
