"""Enqueue a batch and lease it in one transaction. It is a hint: a driver may lease no such batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.clock import MINUTE
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Enqueue, LeaseTerms
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, WORKER, CaseSkipped, Harness

KEYS_AND_NOTES = {Feature.KEY, Feature.NOTES}

LARGE_BATCH = 600  # jobs; a driver may lease only large batches


def enqueue_leased(h: Harness, jobs: Sequence[JobRecord], **options: Any) -> tuple[list[Enqueued], list[Reservation]]:
    """Enqueue the jobs, and lease them if the driver can."""
    terms = LeaseTerms(**{"lease_for": LEASE, "worker": WORKER, **options})
    stored = h.store.do(Enqueue(jobs=jobs, lease=terms, now=h.now_or_none))
    return stored.answers, stored.reservations


def lease_large_batch(h: Harness, **fields: Any) -> list[Reservation]:
    """Enqueue and lease a large batch; skip the case if the driver leases none."""
    reservations = enqueue_leased(h, large_batch(h, **fields))[1]
    if not reservations:
        raise CaseSkipped("this driver does not lease jobs at enqueue")
    return reservations


def large_batch(h: Harness, **fields: Any) -> Sequence[JobRecord]:
    """Return jobs that each have their own payload and key."""
    numbers = range(LARGE_BATCH)
    return h.job_batch([b'{"n":%d}' % number for number in numbers], [f"key {number}" for number in numbers], **fields)


@case("L3", "L9", needs=KEYS_AND_NOTES)
def a_large_job_batch_is_leased_in_the_same_transaction(h: Harness) -> None:
    jobs = large_batch(h)
    answers, reservations = enqueue_leased(h, jobs)
    if not reservations:
        raise CaseSkipped("this driver does not lease jobs at enqueue")
    assert_equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    assert_equal([reservation.job.id for reservation in reservations], [job.id for job in jobs], "the leased jobs")
    assert_equal(
        {(reservation.job.state, reservation.job.attempts) for reservation in reservations},
        {(State.INFLIGHT, 1)},
        "their states and attempts",
    )
    assert_equal(
        [reservation.job.payload for reservation in reservations], [job.payload for job in jobs], "their payloads"
    )
    assert_equal(h.reserve_ids(LARGE_BATCH), [], "jobs left for other workers")


@case("L9", needs={Feature.JOBS, Feature.KEY, Feature.NOTES})
def a_batch_leased_at_enqueue_has_one_signature_per_job(h: Harness) -> None:
    signatures = [f"k1:v1.{number}" for number in range(LARGE_BATCH)]
    reservations = lease_large_batch(h, signatures=signatures)
    assert_equal([reservation.job.signature for reservation in reservations], signatures, "the leased signatures")
    stored = {job.id: job.signature for job in h.store.find(limit=1000).items}
    assert_equal([stored[reservation.job.id] for reservation in reservations], signatures, "the stored signatures")


@case("L3", needs=KEYS_AND_NOTES)
def a_job_leased_at_enqueue_looks_like_any_other_job_in_flight(h: Harness) -> None:
    reservations = lease_large_batch(h)
    inspection = h.inspect(reservations[0].job.id)
    assert_equal(inspection.job, reservations[0].job, "the job")
    assert_equal((inspection.worker, inspection.fence), (WORKER, reservations[0].lease.fence), "worker and fence")
    assert_equal((inspection.reserved_at, inspection.expires_at), (h.now, h.now + LEASE), "reserved_at and expires_at")
    assert_equal(reservations[0].lease.expires_at, h.now + LEASE, "expires_at of the lease")


@case("L4", needs=KEYS_AND_NOTES)
def leases_made_at_enqueue_have_different_tokens_and_growing_fences(h: Harness) -> None:
    before = h.reserve_new_job()
    reservations = lease_large_batch(h)
    after = h.reserve_new_job(queue="another")
    fences = [before.lease.fence, *(reservation.lease.fence for reservation in reservations), after.lease.fence]
    assert_equal(fences, sorted(set(fences)), "the fences")
    assert_equal(
        len({reservation.lease.token for reservation in reservations}), LARGE_BATCH, "the number of different tokens"
    )


@case("L5", "L13", needs={Feature.KEY, Feature.RESULT, Feature.NOTES})
def leases_made_at_enqueue_are_extended_and_settled_like_any_other_lease(h: Harness) -> None:
    reservations = lease_large_batch(h)
    first, second, *rest = reservations
    h.must_extend(first.lease)
    h.must_settle(
        Ack(first.lease, result=b"1"),
        Retry(second.lease, error="not yet"),
        *(Ack(reservation.lease) for reservation in rest),
    )
    assert_equal((h.state(first.job.id), h.state(second.job.id)), (State.DONE, State.READY), "the states")
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (second.job.id, 2), "the next attempt")
    rows = {row.job_id: row for row in h.ledger() if row.attempt == 1}
    if rows:
        row = rows[first.job.id]
        assert_equal((row.worker, row.fence, row.attempt), (WORKER, first.lease.fence, 1), "the ledger row")


@case("L2", "L7", needs=KEYS_AND_NOTES)
def a_job_whose_lease_made_at_enqueue_expires_is_reserved_by_others(h: Harness) -> None:
    reservations = lease_large_batch(h)
    h.must_settle(*(Ack(reservation.lease) for reservation in reservations[1:]))
    h.advance(LEASE)
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (reservations[0].job.id, 1), "the next attempt")
    [answer] = h.settle(Ack(reservations[0].lease))
    assert answer is not None, "wanted the first lease refused, got it accepted"


@case("L12", needs={Feature.KEY})
def a_batch_with_a_known_key_is_stored_but_not_leased(h: Harness) -> None:
    h.must_settle(Ack(h.reserve_new_job(payload=b'{"n":7}', idempotency_key="key 7").lease))
    jobs = large_batch(h)
    answers, reservations = enqueue_leased(h, jobs)
    assert_equal(reservations, [], "the leases")
    assert_equal(
        [index for index, answer in enumerate(answers) if answer.existed], [7], "the positions of the existing jobs"
    )
    assert_equal([answer.id for answer in answers if answer.conflict], [], "conflicts")
    assert_equal(
        h.reserve_ids(LARGE_BATCH), [job.id for index, job in enumerate(jobs) if index != 7], "the jobs reserved"
    )


@case("L6", needs={Feature.KEY})
def a_batch_that_is_enqueued_again_is_not_leased_and_changes_nothing(h: Harness) -> None:
    jobs = large_batch(h)
    enqueue_leased(h, jobs)
    with h.assert_unchanged():
        answers, reservations = enqueue_leased(h, jobs)
    assert_equal(reservations, [], "the leases")
    assert_equal({answer.existed for answer in answers}, {True}, "whether they existed")


@case("L10", needs={Feature.SCHEDULE, Feature.KEY})
def jobs_that_are_not_due_are_not_leased(h: Harness) -> None:
    _, reservations = enqueue_leased(h, large_batch(h, run_at=h.now + MINUTE))
    assert_equal((reservations, h.reserve_ids()), ([], []), "leases and reserved jobs")
    h.advance(MINUTE)
    assert_equal(len(h.reserve_ids(LARGE_BATCH)), LARGE_BATCH, "the number of jobs reserved once they are due")


@case("L11", needs={Feature.DOMAIN, Feature.KEY})
def jobs_of_a_domain_are_not_leased_out_of_order(h: Harness) -> None:
    jobs = large_batch(h, domain="d")
    _, reservations = enqueue_leased(h, jobs)
    assert_equal((reservations, h.reserve_ids(LARGE_BATCH)), ([], [jobs[0].id]), "leases and reserved jobs")


@case("L3", needs={Feature.LIMITS, Feature.KEY})
def jobs_of_a_paused_or_limited_queue_are_not_leased(h: Harness) -> None:
    for number, (settings, type_) in enumerate(
        (
            (QueueSettings(paused_until=h.now + MINUTE), None),
            (QueueSettings(max_inflight=1), None),
            (QueueSettings(rate=1.0, burst=1), TYPE),
        )
    ):
        queue = f"{QUEUE}{number}"
        h.store.do(Configure(queue=queue, settings=settings, type=type_))
        _, reservations = enqueue_leased(h, large_batch(h, queue=queue))
        assert_equal(reservations, [], f"the leases under {settings}")
        assert_equal(
            len(h.reserve_ids(LARGE_BATCH, queues=[queue])),
            0 if settings.paused_until else 1,
            f"jobs reserved under {settings}",
        )


@case("L9", needs={Feature.PRIORITY})
def a_small_batch_is_stored_even_if_it_is_not_leased(h: Harness) -> None:
    jobs = [h.job(), h.job(priority=3)]
    answers, reservations = enqueue_leased(h, jobs)
    if not reservations:
        raise CaseSkipped("this driver does not lease jobs at enqueue")
    assert_equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    assert len(reservations) in {0, 2}, f"wanted a lease for each or for none, got {len(reservations)}"
    assert_equal(len(h.reserve_ids(2)), 2 - len(reservations), "jobs left for other workers")
    assert_equal(enqueue_leased(h, []), ([], []), "the answer to an empty batch")


@case("L9", needs={Feature.JOBS, Feature.KEY})
def a_batch_with_an_invalid_record_or_lease_is_refused(h: Harness) -> None:
    good = large_batch(h)
    bad = h.job_batch([b"{}"] * LARGE_BATCH, ["same"] * (LARGE_BATCH - 1) + ["\0"])
    with assert_raises(InvalidInput):
        enqueue_leased(h, bad)
    for options in ({"lease_for": 0}, {"worker": "\n"}):
        with assert_raises(InvalidInput):
            enqueue_leased(h, good, **options)
    assert_equal(h.store.find().items, [], "the stored jobs")


@case("L7", needs=KEYS_AND_NOTES)
def an_expired_lease_made_at_enqueue_costs_neither_attempt_nor_crash(h: Harness) -> None:
    reservations = lease_large_batch(h)
    h.expire_leases()
    job = h.get(reservations[0].job.id)
    assert_equal((job.state, job.attempts, job.crashes), (State.READY, 0, 0), "state, attempts and crashes")


@case("L7", needs=KEYS_AND_NOTES)
def jobs_with_one_attempt_that_are_leased_at_enqueue_have_not_begun(h: Harness) -> None:
    reservations = lease_large_batch(h, max_attempts=1)
    h.expire_leases()
    job = h.get(reservations[0].job.id)
    assert_equal((job.state, job.attempts), (State.READY, 0), "state and attempts")
