"""How long the idempotency key of a job is taken: ``unique_for`` of the job (L12)."""

from __future__ import annotations

from holdfast.clock import DAY, HOUR, MINUTE
from holdfast.drivers.answers import Trimmed
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Trim
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.model.unique import WHILE_OPEN, WHILE_QUEUED
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.enqueue_leased import enqueue_leased, large_batch
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

KEYS = {Feature.KEY}
LARGE_BATCH = 600  # jobs; a driver may store large batches in another way


def _ask(h: Harness, payload: bytes = b"1", unique_for: int | None = None) -> Enqueued:
    """Enqueue another job with the key."""
    [answer] = h.enqueue(h.job(idempotency_key="k", payload=payload, unique_for=unique_for))
    return answer


def _assert_taken(h: Harness, job_id: str, when: str) -> None:
    assert_equal(_ask(h), Enqueued(id=job_id, existed=True), f"the answer {when}")


def _assert_free(h: Harness, when: str) -> None:
    assert not _ask(h).existed, f"wanted a new job {when}"


def _reserve(h: Harness, unique_for: int | None) -> Reservation:
    return h.reserve_new_job(idempotency_key="k", payload=b"1", unique_for=unique_for)


def _trim(h: Harness) -> Trimmed:
    return h.store.do(Trim(now=h.now_or_none))


@case("L12", needs=KEYS)
def unique_for_is_stored_with_the_job(h: Harness) -> None:
    for unique_for in (None, WHILE_OPEN, WHILE_QUEUED, MINUTE, bounds.MAX_DURATION):
        job = h.enqueue_job(idempotency_key=f"{unique_for}", unique_for=unique_for)
        assert_equal(h.get(job.id).unique_for, unique_for, "unique_for")
        reservation = h.reserve_one()
        assert_equal(reservation.job.unique_for, unique_for, "unique_for, reserved")
        h.must_settle(Ack(reservation.lease))
        assert_equal(h.get(job.id).unique_for, unique_for, "unique_for, done")


@case("L12")
def unique_for_outside_of_its_bounds_is_refused(h: Harness) -> None:
    for unique_for in (WHILE_QUEUED - 1, bounds.MAX_DURATION + 1):
        with assert_raises(InvalidInput, f"an enqueue with unique_for {unique_for}"):
            h.enqueue(h.job(idempotency_key="k", unique_for=unique_for))


@case("L12", needs={Feature.KEY})
def unique_for_without_a_key_has_no_effect(h: Harness) -> None:
    first, second = h.enqueue_job(unique_for=WHILE_QUEUED), h.enqueue_job(unique_for=WHILE_QUEUED)
    assert_equal(h.reserve_ids(5), [first.id, second.id], "the jobs reserved")


# While open -------------------------------------------------------------------------------------------------------


@case("L12", needs=KEYS | {Feature.SCHEDULE})
def a_key_while_open_is_taken_while_its_job_is_ready_or_in_flight(h: Harness) -> None:
    job = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=WHILE_OPEN)
    _assert_taken(h, job.id, "while the job is ready")
    reservation = h.reserve_one()
    _assert_taken(h, job.id, "while the job is in flight")
    h.must_settle(Retry(reservation.lease, delay=HOUR))
    _assert_taken(h, job.id, "while the job waits for a retry")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_key_while_open_is_free_when_its_job_has_ended(h: Harness) -> None:
    h.must_settle(Ack(_reserve(h, WHILE_OPEN).lease))
    h.must_settle(Fail(_reserve(h, WHILE_OPEN).lease, reason="no"))
    h.cancel(h.enqueue_job(idempotency_key="k", unique_for=WHILE_OPEN).id)
    _assert_free(h, "after done, dead and cancelled jobs")


# While queued -----------------------------------------------------------------------------------------------------


@case("L12", needs=KEYS)
def a_key_while_queued_is_taken_while_its_job_is_ready(h: Harness) -> None:
    job = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=WHILE_QUEUED)
    _assert_taken(h, job.id, "at once")
    h.advance(10 * DAY)
    _assert_taken(h, job.id, "later")
    assert_equal(_ask(h, b"2"), Enqueued(id=job.id, existed=True, conflict=True), "the answer for another payload")


@case("L12", needs=KEYS | {Feature.SCHEDULE})
def a_key_while_queued_is_taken_while_its_job_is_scheduled(h: Harness) -> None:
    job = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=WHILE_QUEUED, run_at=h.now + HOUR)
    _assert_taken(h, job.id, "before run_at")


@case("L12", needs=KEYS)
def a_key_while_queued_is_free_while_its_job_is_in_flight(h: Harness) -> None:
    running = _reserve(h, WHILE_QUEUED)
    second = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=WHILE_QUEUED)
    _assert_taken(h, second.id, "while the second job is ready")
    h.must_settle(Ack(running.lease))
    _assert_taken(h, second.id, "after the first job")
    assert_equal(h.reserve_ids(5), [second.id], "the jobs reserved")
    _assert_free(h, "while the second job is in flight")


@case("L12", "L7", needs=KEYS | {Feature.SCHEDULE})
def a_key_while_queued_is_taken_again_when_its_job_is_ready_again(h: Harness) -> None:
    reservation = _reserve(h, WHILE_QUEUED)
    h.must_settle(Retry(reservation.lease, delay=HOUR))
    _assert_taken(h, reservation.job.id, "while the job waits for a retry")
    h.advance(HOUR)
    h.must_settle(Release(h.reserve_one().lease))
    _assert_taken(h, reservation.job.id, "after a release")
    h.reserve_one()
    h.expire_leases()
    h.reap()
    _assert_taken(h, reservation.job.id, "after an expired lease")


@case("L12", needs=KEYS)
def a_job_that_is_ready_again_does_not_take_its_key_back_from_a_newer_job(h: Harness) -> None:
    older = _reserve(h, WHILE_QUEUED)
    newer = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=WHILE_QUEUED)
    h.must_settle(Retry(older.lease))
    _assert_taken(h, newer.id, "while both jobs are ready")
    assert_equal(sorted(h.reserve_ids(5)), sorted([older.job.id, newer.id]), "the jobs reserved")
    _assert_free(h, "while both jobs are in flight")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_key_while_queued_is_free_when_its_job_has_ended(h: Harness) -> None:
    h.must_settle(Ack(_reserve(h, WHILE_QUEUED).lease))
    h.must_settle(Fail(_reserve(h, WHILE_QUEUED).lease, reason="no"))
    h.cancel(h.enqueue_job(idempotency_key="k", unique_for=WHILE_QUEUED).id)
    _assert_free(h, "after done, dead and cancelled jobs")


@case("L12", needs=KEYS)
def a_key_while_queued_that_appears_twice_in_a_batch_makes_one_job(h: Harness) -> None:
    first, second = (h.job(idempotency_key="k", unique_for=WHILE_QUEUED) for _ in range(2))
    wanted = [Enqueued(id=first.id, existed=False), Enqueued(id=first.id, existed=True)]
    assert_equal(h.enqueue(first, second), wanted, "the answers")


# A window of the job ------------------------------------------------------------------------------------------------


@case("L12", "L2", needs=KEYS)
def a_window_of_a_job_replaces_the_window_of_its_queue(h: Harness) -> None:
    for window in (MINUTE, 2 * DAY):
        began = h.now
        reservation = _reserve(h, window)
        h.must_settle(Ack(reservation.lease))
        h.advance_to(began + window - 1)
        _assert_taken(h, reservation.job.id, "a microsecond before its window ends")
        h.advance_to(began + window)
        _assert_free(h, "when the window is over")
        h.must_settle(Ack(h.reserve_one().lease))
        h.advance(DAY)


@case("L12", needs=KEYS)
def a_key_with_a_window_is_taken_after_it_while_its_job_is_in_flight(h: Harness) -> None:
    reservation = h.reserve_new_job(lease_for=DAY, idempotency_key="k", payload=b"1", unique_for=MINUTE)
    h.advance(HOUR)
    _assert_taken(h, reservation.job.id, "after the window, while the job is in flight")


# Which job decides --------------------------------------------------------------------------------------------------


@case("L12", needs=KEYS)
def the_job_that_has_the_key_decides_how_long_it_is_taken(h: Harness) -> None:
    windowed = _reserve(h, None)
    asked = _ask(h, unique_for=WHILE_QUEUED)
    assert_equal(asked, Enqueued(id=windowed.job.id, existed=True), "the answer for a job with another rule")
    _assert_taken(h, windowed.job.id, "after a job with another rule asked")
    h.advance(DAY)
    h.must_settle(Ack(h.reserve_one().lease))  # its lease has expired
    queued = _reserve(h, WHILE_QUEUED)
    newer = _ask(h, unique_for=None)
    assert not newer.existed, "wanted a new job while the job that has the key is in flight"
    h.must_settle(Ack(queued.lease), Ack(h.reserve_one().lease))
    _assert_taken(h, newer.id, "within the window of the newer job, which has the key now")


@case("L12", needs=KEYS | {Feature.LIMITS})
def another_window_of_the_queue_does_not_change_keys_that_exist(h: Harness) -> None:
    reservation = _reserve(h, WHILE_OPEN)
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(dedupe_window=10 * DAY)))
    h.must_settle(Ack(reservation.lease))
    _assert_free(h, "after the end of a job that has its key while it is open")


# Requeue, purge and trim --------------------------------------------------------------------------------------------


@case("L12", "L9", needs=KEYS | {Feature.JOBS})
def a_requeued_job_has_its_key_again_by_its_own_rule(h: Harness) -> None:
    for unique_for in (WHILE_OPEN, WHILE_QUEUED):
        reservation = _reserve(h, unique_for)
        h.must_settle(Fail(reservation.lease, reason="no"))
        h.requeue(reservation.job.id)
        _assert_taken(h, reservation.job.id, f"after a requeue, unique_for {unique_for}")
        h.must_settle(Ack(h.reserve_one().lease))


@case("L12", "L9", needs=KEYS | {Feature.JOBS})
def a_requeued_job_does_not_take_its_key_back_from_a_newer_job(h: Harness) -> None:
    for unique_for in (WHILE_OPEN, WHILE_QUEUED):
        dead = _reserve(h, unique_for)
        h.must_settle(Fail(dead.lease, reason="no"))
        newer = h.enqueue_job(idempotency_key="k", payload=b"1", unique_for=unique_for)
        h.requeue(dead.job.id)
        _assert_taken(h, newer.id, f"after a requeue of the older job, unique_for {unique_for}")
        for reservation in h.reserve(5):
            h.must_settle(Ack(reservation.lease))


@case("L12", needs=KEYS | {Feature.JOBS})
def a_purged_job_without_a_window_leaves_its_key_free(h: Harness) -> None:
    for unique_for in (WHILE_OPEN, WHILE_QUEUED):
        reservation = _reserve(h, unique_for)
        h.must_settle(Fail(reservation.lease, reason="no"))
        h.purge(reservation.job.id)
        again = _ask(h, unique_for=unique_for)
        assert not again.existed, "wanted a new job after the purge"
        h.must_settle(Ack(h.reserve_one().lease))


@case("L12", needs=KEYS | {Feature.JOBS})
def a_trim_removes_keys_without_a_window_when_their_jobs_are_done(h: Harness) -> None:
    for key, unique_for in (("open", WHILE_OPEN), ("queued", WHILE_QUEUED)):
        reservation = h.reserve_new_job(idempotency_key=key, unique_for=unique_for)
        h.must_settle(Ack(reservation.lease))
    assert_equal(_trim(h).dedupe, 2, "keys trimmed")


@case("L12", needs=KEYS | {Feature.JOBS})
def a_trim_keeps_the_key_of_a_job_in_flight_that_may_be_queued_again(h: Harness) -> None:
    reservation = _reserve(h, WHILE_QUEUED)
    h.advance(LEASE // 2)
    assert_equal(_trim(h).dedupe, 0, "keys trimmed while the job is in flight")
    h.must_settle(Retry(reservation.lease))
    _assert_taken(h, reservation.job.id, "after a retry")


# Large batches ------------------------------------------------------------------------------------------------------


@case("L12", needs=KEYS)
def a_large_job_batch_keeps_the_rule_of_its_template(h: Harness) -> None:
    keys = [f"key {number}" for number in range(LARGE_BATCH)]
    for unique_for in (WHILE_OPEN, WHILE_QUEUED):
        batches = [h.job_batch([b"1"] * LARGE_BATCH, keys, unique_for=unique_for) for _ in range(3)]
        first = h.store.enqueue(batches[0], now=h.now_or_none)
        assert_equal({answer.existed for answer in first}, {False}, "existed, for new keys")
        assert_equal(h.get(first[0].id).unique_for, unique_for, "unique_for")
        reservations = h.reserve(LARGE_BATCH)
        running = h.store.enqueue(batches[1], now=h.now_or_none)
        assert_equal({answer.existed for answer in running}, {unique_for == WHILE_OPEN}, "existed, in flight")
        reservations += h.reserve(LARGE_BATCH)
        h.must_settle(*(Ack(reservation.lease) for reservation in reservations))
        ended = h.store.enqueue(batches[2], now=h.now_or_none)
        assert_equal({answer.existed for answer in ended}, {False}, "existed, after the end")
        h.must_settle(*(Ack(reservation.lease) for reservation in h.reserve(LARGE_BATCH)))


@case("L12", needs=KEYS)
def jobs_of_a_large_batch_have_their_own_rules(h: Harness) -> None:
    rules = [None, WHILE_OPEN, WHILE_QUEUED, MINUTE] * (LARGE_BATCH // 4)
    jobs = [h.job(idempotency_key=f"key {number}", unique_for=rule) for number, rule in enumerate(rules)]
    h.enqueue(*jobs)
    h.must_settle(*(Ack(reservation.lease) for reservation in h.reserve(LARGE_BATCH)))
    answers = h.enqueue(*(h.job(idempotency_key=job.idempotency_key) for job in jobs))
    wanted = [rule in (None, MINUTE) for rule in rules]
    assert_equal([answer.existed for answer in answers], wanted, "existed, after the end")


@case("L12", needs=KEYS | {Feature.NOTES})
def a_key_while_queued_of_a_job_leased_at_enqueue_is_free_at_once(h: Harness) -> None:
    _, reservations = enqueue_leased(h, large_batch(h, unique_for=WHILE_QUEUED))
    assert reservations, "wanted the jobs leased"
    answers = h.store.enqueue(large_batch(h, unique_for=WHILE_QUEUED), now=h.now_or_none)
    assert_equal({answer.existed for answer in answers}, {False}, "existed, while the jobs are in flight")
