"""Jobs that were prefetched, jobs that run alone, and outages of the store (L7)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.model import bounds, transition
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Note, Reservation
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, Harness

SCHEDULE = {Feature.SCHEDULE}

NOTES = {Feature.NOTES}
LEDGER = {Feature.LEDGER}
PRIORITIES = {Feature.PRIORITY}


# Prefetched jobs ------------------------------------------------------------------------------------------------


@case("L7", needs={Feature.NOTES})
def a_prefetched_job_counts_its_attempt_like_any_other(h: Harness) -> None:
    h.enqueue_job()
    assert_equal(h.reserve_one(prefetch=True).job.attempts, 1, "attempts")


@case("L7", needs={Feature.NOTES})
def an_expired_lease_of_a_prefetched_job_costs_neither_attempt_nor_crash(h: Harness) -> None:
    job = h.enqueue_job()
    reservation = h.reserve_one(prefetch=True)
    assert_equal(h.expire_leases(), 1, "reaped")
    assert_equal(h.get(job.id), replace(reservation.job, state=State.READY, attempts=0), "the job")
    assert_equal(h.inspect(job.id).available_at, reservation.lease.expires_at, "available_at")


@case("L7", needs={Feature.NOTES})
def a_job_can_be_prefetched_with_one_attempt_left_and_is_not_dead_when_its_lease_expires(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=1, max_crashes=1)
    h.reserve_one(prefetch=True)
    h.expire_leases()
    assert_equal((h.state(job.id), h.get(job.id).attempts), (State.READY, 0), "state and attempts")


@case("L7", "L13", needs=LEDGER | {Feature.NOTES})
def the_ledger_tells_that_a_prefetched_job_had_not_begun(h: Harness) -> None:
    h.enqueue_job()
    h.reserve_one(prefetch=True)
    h.expire_leases()
    rows = h.ledger()
    got = [(row.ending, row.attempt, row.detail) for row in rows]
    assert_equal(got, [(Ending.EXPIRED, 1, transition.NOT_BEGUN)], "the rows")


@case("L7", needs=NOTES)
def a_prefetched_job_that_has_started_by_its_note_uses_its_attempt(h: Harness) -> None:
    job = h.enqueue_job()
    reservation = h.reserve_one(prefetch=True)
    h.must_extend(reservation.lease, note=Note(started_at=h.now))
    h.expire_leases()
    assert_equal((h.get(job.id).attempts, h.get(job.id).crashes), (1, 1), "attempts and crashes")


@case("L7", needs=NOTES)
def a_last_attempt_whose_start_was_reported_is_dead_when_its_lease_expires(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=1)
    reservation = h.reserve_one(prefetch=True)
    h.must_extend(reservation.lease, note=Note(started_at=h.now))
    h.expire_leases()
    assert_equal((h.state(job.id), h.get(job.id).dead_reason), (State.DEAD, transition.LEASE_EXPIRED), "the job")


@case("L7", needs=NOTES)
def an_extend_without_a_start_leaves_a_prefetched_job_not_begun(h: Harness) -> None:
    job = h.enqueue_job()
    reservation = h.reserve_one(prefetch=True)
    h.must_extend(reservation.lease, note=Note(progress=b"0"))
    h.expire_leases()
    assert_equal((h.get(job.id).attempts, h.get(job.id).crashes), (0, 0), "attempts and crashes")


@case("L7", needs={Feature.NOTES})
def a_job_that_was_prefetched_once_counts_again_when_it_is_reserved_without_prefetch(h: Harness) -> None:
    job = h.enqueue_job()
    h.must_settle(Release(h.reserve_one(prefetch=True).lease))
    h.reserve_one()
    h.expire_leases()
    assert_equal((h.get(job.id).attempts, h.get(job.id).crashes), (1, 1), "attempts and crashes")


@case("L7", needs={Feature.JOBS, Feature.NOTES})
def a_cancelled_job_that_had_not_begun_gets_its_attempt_back(h: Harness) -> None:
    job = h.enqueue_job()
    h.reserve_one(prefetch=True)
    h.cancel(job.id)
    h.expire_leases()
    assert_equal((h.state(job.id), h.get(job.id).attempts), (State.CANCELLED, 0), "state and attempts")


# Which jobs are isolated ----------------------------------------------------------------------------------------


def assert_isolated(reservation: Reservation, *, is_isolated: bool) -> None:
    """Assert that the job of a reservation is isolated, or that it is not."""
    assert_equal(reservation.isolated, is_isolated, "isolated")


def enqueue_isolated(h: Harness, *, delay: int = 0, **fields: Any) -> str:
    """Enqueue a job that crashes in its first attempt, and is due again after ``delay``; return its id.

    No other job is due in its queue.
    """
    reservation = h.reserve_new_job(**fields)
    h.must_settle(Retry(reservation.lease, crashed=True, delay=delay))
    return reservation.job.id


def isolated_and_other(h: Harness) -> tuple[str, str]:
    """Return the ids of an isolated job and of a job behind it that is not."""
    isolated = enqueue_isolated(h)
    h.advance(1)
    return isolated, h.enqueue_job().id


@case("L7")
def a_new_job_is_not_isolated(h: Harness) -> None:
    h.enqueue_job(max_attempts=2)
    assert_isolated(h.reserve_one(), is_isolated=False)


@case("L7")
def a_job_on_its_last_attempt_is_not_isolated(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=2)
    h.must_settle(Retry(reservation.lease))
    assert_isolated(h.reserve_one(), is_isolated=False)


@case("L7")
def a_job_that_crashed_is_isolated_until_an_attempt_ends_without_a_crash(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, crashed=True))
    reservation = h.reserve_one()
    assert_isolated(reservation, is_isolated=True)
    h.must_settle(Retry(reservation.lease))
    assert_isolated(h.reserve_one(), is_isolated=False)


@case("L7", needs={Feature.NOTES})
def a_job_whose_lease_expired_before_it_had_begun_is_isolated(h: Harness) -> None:
    h.enqueue_job()
    h.reserve_one(prefetch=True)
    h.expire_leases()
    suspect = h.reserve_one()
    assert_isolated(suspect, is_isolated=True)
    h.must_settle(Release(suspect.lease))
    suspect = h.reserve_one()
    assert_isolated(suspect, is_isolated=True)
    h.must_settle(Retry(suspect.lease))
    assert_isolated(h.reserve_one(), is_isolated=False)


@case("L7", "L9", needs={Feature.JOBS, Feature.NOTES})
def a_requeued_job_is_not_isolated(h: Harness) -> None:
    job = h.enqueue_job(max_attempts=3)
    h.reserve_one(prefetch=True)
    h.expire_leases()
    h.cancel(job.id)
    h.requeue(job.id)
    assert_isolated(h.reserve_one(), is_isolated=False)


# What reserve does with isolated jobs ---------------------------------------------------------------------------


@case("L7", needs=SCHEDULE)
def without_isolation_isolated_jobs_are_returned_like_others(h: Harness) -> None:
    second = enqueue_isolated(h, delay=2)
    isolated, other = isolated_and_other(h)
    h.advance(1)
    assert_equal(h.reserve_ids(10), [isolated, other, second], "the jobs")


@case("L7")
def an_isolated_job_that_comes_first_is_returned_alone(h: Harness) -> None:
    isolated, other = isolated_and_other(h)
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [isolated], "the first answer")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [other], "the second answer")


@case("L7", needs=SCHEDULE)
def two_isolated_jobs_are_never_in_one_answer(h: Harness) -> None:
    second = enqueue_isolated(h, delay=1)
    first = enqueue_isolated(h)
    h.advance(1)
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [first], "the first answer")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [second], "the second answer")


@case("L7", "L10", needs=SCHEDULE)
def jobs_before_an_isolated_one_are_returned_without_it(h: Harness) -> None:
    isolated = enqueue_isolated(h, delay=1)
    first, second = h.enqueue_job(), h.enqueue_job()
    h.advance(2)
    last = h.enqueue_job().id
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [first.id, second.id], "the first answer")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [isolated], "the second answer")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [last], "the third answer")


@case("L7", "L10", needs=SCHEDULE)
def jobs_of_other_lanes_behind_an_isolated_one_wait_for_it(h: Harness) -> None:
    isolated = enqueue_isolated(h, delay=1, type="a")
    before = h.enqueue_job(type="b")
    h.advance(2)
    behind = h.enqueue_job(type="c")
    assert_equal(h.reserve_ids(10, isolation=Isolation.STOP), [before.id], "for a caller that holds leases")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [isolated], "for a caller that holds none")
    assert_equal(h.reserve_ids(10, isolation=Isolation.STOP), [behind.id], "afterwards")


@case("L7", "L10", needs=PRIORITIES)
def an_isolated_job_of_a_higher_priority_comes_first(h: Harness) -> None:
    isolated = enqueue_isolated(h, priority=5)
    h.enqueue_job(priority=1)
    high = h.enqueue_job(priority=9)
    assert_equal(h.reserve_ids(10, isolation=Isolation.STOP), [high.id], "for a caller that holds leases")
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [isolated], "for a caller that holds none")


@case("L7")
def jobs_on_their_last_attempt_share_an_answer_and_are_taken_beside_others(h: Harness) -> None:
    ids = [h.enqueue_job(max_attempts=max_attempts).id for max_attempts in (1, 25, 1, 1)]
    for isolation in Isolation:
        reserved = h.reserve(10, isolation=isolation)
        assert_equal([reservation.job.id for reservation in reserved], ids, f"the answer to {isolation}")
        h.must_settle(*[Release(reservation.lease) for reservation in reserved])


@case("L7")
def a_caller_that_holds_leases_gets_no_isolated_job(h: Harness) -> None:
    isolated_and_other(h)
    assert_equal(h.reserve_ids(10, isolation=Isolation.STOP), [], "the answer")


@case("L7")
def isolated_jobs_can_be_passed_over(h: Harness) -> None:
    isolated, other = isolated_and_other(h)
    assert_equal(h.reserve_ids(10, isolation=Isolation.SKIP), [other], "the answer")
    assert_equal(h.reserve_ids(10, isolation=Isolation.SKIP), [], "the next answer")
    assert_equal(h.reserve_ids(10), [isolated], "what is left")


@case("L7", needs={Feature.LIMITS})
def an_isolated_job_of_a_paused_queue_stops_nobody(h: Harness) -> None:
    enqueue_isolated(h, queue="paused")
    h.store.do(Configure(queue="paused", settings=QueueSettings(paused_until=bounds.MAX_INSTANT)))
    other = h.enqueue_job()
    queues = ["paused", other.queue]
    assert_equal(h.reserve_ids(10, queues=queues, isolation=Isolation.STOP), [other.id], "the answer")


@case("L7", "L11", needs={Feature.OFFSET, Feature.TYPES, Feature.DOMAIN})
def an_isolated_job_that_waits_for_its_domain_stops_nobody(h: Harness) -> None:
    """It waits behind an earlier offset that came late, in a lane behind that of a job that can run."""
    enqueue_isolated(h, domain="d", offset=5, type="b")
    head = h.enqueue_job(domain="d", offset=4, type="a").id
    other = h.enqueue_job(type="c").id
    assert_equal(h.reserve_ids(1), [head], "the head of the domain")
    for types in (None, ["a", "b", "c"]):
        reserved = h.reserve(10, types=types, isolation=Isolation.STOP)
        assert_equal([reservation.job.id for reservation in reserved], [other], f"the answer for the types {types}")
        h.must_settle(*[Release(reservation.lease) for reservation in reserved])


@case("L7", "L11", needs={Feature.OFFSET, Feature.SCHEDULE, Feature.DOMAIN})
def an_isolated_job_that_waits_for_its_domain_is_not_returned_instead_of_one_behind_it(h: Harness) -> None:
    isolated = enqueue_isolated(h, delay=1)
    enqueue_isolated(h, domain="d", offset=5)
    h.enqueue_job(domain="d", offset=4)
    h.reserve_one()
    h.advance(1)
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE), [isolated], "the answer")


@case("L7", needs={Feature.NOTES})
def an_isolated_job_is_never_prefetched(h: Harness) -> None:
    isolated = enqueue_isolated(h)
    assert_equal(h.reserve_ids(10, isolation=Isolation.ALONE, prefetch=True), [isolated], "the answer")
    h.expire_leases()
    assert_equal((h.get(isolated).attempts, h.get(isolated).crashes), (2, 2), "attempts and crashes")


# Outages --------------------------------------------------------------------------------------------------------


@case("L7")
def a_lease_that_expired_in_an_outage_uses_its_attempt_and_is_no_crash(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    assert_equal(h.report_outage(reservation.lease), [True], "the answer")
    assert_equal(h.get(reservation.job.id), replace(reservation.job, state=State.READY), "the job")
    assert_equal(h.reap(), 0, "reaped afterwards")
    again = h.reserve_one()
    assert_equal((again.job.attempts, again.isolated), (2, False), "attempts and isolation at the next reservation")


@case("L7", "L13", needs=LEDGER)
def the_ledger_tells_of_the_outage(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    h.report_outage(reservation.lease)
    rows = h.ledger()
    got = [(row.ending, row.attempt, row.detail) for row in rows]
    assert_equal(got, [(Ending.EXPIRED, 1, transition.OUTAGE)], "the rows")


@case("L7")
def a_crash_that_a_reap_counted_is_taken_back(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.expire_leases()
    assert_equal(h.report_outage(reservation.lease), [True], "the answer")
    assert_equal(h.get(reservation.job.id), replace(reservation.job, state=State.READY), "the job")
    assert_isolated(h.reserve_one(), is_isolated=False)


@case("L7")
def a_crash_is_taken_back_while_the_job_is_in_flight_again(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.expire_leases()
    h.reserve_one()
    assert_equal(h.report_outage(reservation.lease), [True], "the answer")
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.crashes, job.attempts), (State.INFLIGHT, 0, 2), "state, crashes and attempts")


@case("L7", "L6")
def an_outage_is_reported_once(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=9)
    h.reserve_one()
    h.expire_leases()
    reservation = h.reserve_one()
    h.expire_leases()
    assert_equal(h.report_outage(reservation.lease, reservation.lease), [True, False], "the answers")
    assert_equal(h.report_outage(reservation.lease), [False], "a later answer")
    assert_equal(h.get(job.id).crashes, 1, "crashes")


@case("L7")
def only_the_crash_of_the_reported_lease_is_taken_back(h: Harness) -> None:
    reservation = h.reserve_new_job(max_crashes=9)
    h.expire_leases()
    h.reserve_one()
    h.expire_leases()
    assert_equal(h.report_outage(reservation.lease), [False], "the answer")
    assert_equal(h.get(reservation.job.id).crashes, 2, "crashes")


@case("L7", needs={Feature.NOTES})
def an_expiry_that_counted_no_crash_has_none_to_take_back(h: Harness) -> None:
    job = h.enqueue_job(max_crashes=9)
    h.reserve_one()
    h.expire_leases()
    reservation = h.reserve_one(prefetch=True)
    h.expire_leases()
    assert_equal(h.report_outage(reservation.lease), [False], "the answer")
    assert_equal(h.get(job.id).crashes, 1, "crashes")


@case("L7", "L5")
def an_outage_changes_nothing_for_a_valid_settled_or_unknown_lease(h: Harness) -> None:
    valid = h.reserve_new_job()
    settled = h.reserve_new_job()
    h.must_settle(Ack(settled.lease))
    unknown = replace(valid.lease, job_id="no-such-job")
    forged = replace(valid.lease, token="1.0")
    assert_equal(
        h.report_outage(valid.lease, settled.lease, unknown, forged), [False, False, False, False], "the answers"
    )
    assert_equal(h.get(valid.job.id), valid.job, "the job in flight")
    h.advance(LEASE)
    assert_equal(h.report_outage(forged), [False], "the answer for a forged token")
    assert_equal(h.state(valid.job.id), State.INFLIGHT, "the state")


@case("L7", "L9")
def an_outage_in_the_last_attempt_makes_a_dead_letter(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.advance(LEASE)
    h.report_outage(reservation.lease)
    job = h.get(reservation.job.id)
    assert_equal((job.state, job.dead_reason, job.crashes), (State.DEAD, transition.LEASE_EXPIRED, 0), "the job")


@case("L7")
def a_dead_job_stays_dead_after_the_report_of_an_outage(h: Harness) -> None:
    reservation = h.reserve_new_job(max_crashes=1)
    h.expire_leases()
    assert_equal(h.report_outage(reservation.lease), [False], "the answer")
    assert_equal(h.get(reservation.job.id).dead_reason, transition.POISON, "the reason")


@case("L7", "L9", needs={Feature.JOBS})
def a_requeued_job_has_no_crash_to_take_back(h: Harness) -> None:
    reservation = h.reserve_new_job(max_crashes=1)
    h.expire_leases()
    h.requeue(reservation.job.id)
    requeued = h.get(reservation.job.id)
    assert_equal(h.report_outage(reservation.lease), [False], "the answer")
    assert_equal(h.get(reservation.job.id), requeued, "the job")


@case("L7", needs={Feature.DOMAIN})
def an_outage_that_ends_a_job_passes_the_turn_of_its_domain(h: Harness) -> None:
    reservation = h.reserve_new_job(domain="d", max_attempts=1)
    following = h.enqueue_job(domain="d")
    h.advance(LEASE + SECOND)
    h.report_outage(reservation.lease)
    assert_equal(h.reserve_ids(), [following.id], "the next job of the domain")
