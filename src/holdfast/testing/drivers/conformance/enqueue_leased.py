"""Enqueue with leases: what a driver may offer to those who work on what they bring. One that does not skips these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.clock import MINUTE
from holdfast.drivers.contract import Feature, LeasedEnqueue, QueueSettings
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, WORKER, CaseSkipped, Harness

MANY = 600  # jobs: a driver may have a quick way for large batches only


def brought(h: Harness, jobs: Sequence[JobRecord], **terms: Any) -> tuple[list[Enqueued], list[Reservation]]:
    """Enqueue with leases now."""
    store = h.store
    if not isinstance(store, LeasedEnqueue):
        raise CaseSkipped("this driver leases no job as it is stored")
    return store.enqueue_leased(jobs, **{"lease_for": LEASE, "worker": WORKER, "now": h.now_or_none, **terms})


def batch(h: Harness, **fields: Any) -> Sequence[JobRecord]:
    """Many jobs, each with a payload and a key of its own."""
    numbers = range(MANY)
    return h.job_batch([b'{"n":%d}' % number for number in numbers], [f"key {number}" for number in numbers], **fields)


@case("L3", "L9")
def a_large_job_batch_is_leased_in_the_same_transaction(h: Harness) -> None:
    jobs = batch(h)
    answers, found = brought(h, jobs)
    assert_equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    assert_equal([one.job.id for one in found], [job.id for job in jobs], "the leased jobs")
    assert_equal(
        {(one.job.state, one.job.attempts) for one in found}, {(State.INFLIGHT, 1)}, "their states and attempts"
    )
    assert_equal([one.job.payload for one in found], [job.payload for job in jobs], "their payloads")
    assert_equal(h.reserve_ids(MANY), [], "what is left for others")


@case("L3")
def a_job_leased_at_enqueue_looks_like_any_other_job_in_flight(h: Harness) -> None:
    _, found = brought(h, batch(h))
    seen = h.inspect(found[0].job.id)
    assert_equal(seen.job, found[0].job, "the job")
    assert_equal((seen.worker, seen.fence), (WORKER, found[0].lease.fence), "whose it is")
    assert_equal((seen.reserved_at, seen.expires_at), (h.now, h.now + LEASE), "when its lease began and ends")
    assert_equal(found[0].lease.expires_at, h.now + LEASE, "when the lease says that it ends")


@case("L4")
def leases_made_at_enqueue_have_different_tokens_and_growing_fences(h: Harness) -> None:
    before = h.reserve_new_job()
    _, found = brought(h, batch(h))
    after = h.reserve_new_job(queue="another")
    fences = [before.lease.fence, *(one.lease.fence for one in found), after.lease.fence]
    assert_equal(fences, sorted(set(fences)), "the fences")
    assert_equal(len({one.lease.token for one in found}), MANY, "the number of different tokens")


@case("L5", "L13")
def leases_made_at_enqueue_are_extended_and_settled_like_any_other_lease(h: Harness) -> None:
    _, found = brought(h, batch(h))
    first, second, *rest = found
    h.must_extend(first.lease)
    h.must_settle(
        Ack(first.lease, result=b"1"), Retry(second.lease, error="not yet"), *(Ack(one.lease) for one in rest)
    )
    assert_equal((h.state(first.job.id), h.state(second.job.id)), (State.DONE, State.READY), "where they stand")
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (second.job.id, 2), "the next attempt")
    rows = {row.job_id: row for row in h.ledger() if row.attempt == 1}
    if rows:
        row = rows[first.job.id]
        assert_equal((row.worker, row.fence, row.attempt), (WORKER, first.lease.fence, 1), "the ledger row")


@case("L2", "L7")
def a_job_whose_lease_made_at_enqueue_expires_is_reserved_by_others(h: Harness) -> None:
    _, found = brought(h, batch(h))
    h.must_settle(*(Ack(one.lease) for one in found[1:]))
    h.advance(LEASE)
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (found[0].job.id, 2), "the next attempt")
    [assert_answers] = h.settle(Ack(found[0].lease))
    assert assert_answers is not None, "wanted the first lease refused, got it accepted"


@case("L12", needs=[Feature.IDEMPOTENCY])
def a_batch_with_a_known_key_is_stored_but_not_leased(h: Harness) -> None:
    h.must_settle(Ack(h.reserve_new_job(payload=b'{"n":7}', idempotency_key="key 7").lease))
    jobs = batch(h)
    answers, found = brought(h, jobs)
    assert_equal(found, [], "the leases")
    assert_equal([place for place, one in enumerate(answers) if one.existed], [7], "the places of those that existed")
    assert_equal([one.id for one in answers if one.conflict], [], "conflicts")
    assert_equal(h.reserve_ids(MANY), [job.id for place, job in enumerate(jobs) if place != 7], "what waits")


@case("L6")
def a_batch_that_is_enqueued_again_is_not_leased_and_changes_nothing(h: Harness) -> None:
    jobs = batch(h)
    brought(h, jobs)
    with h.assert_unchanged():
        answers, found = brought(h, jobs)
    assert_equal(found, [], "the leases")
    assert_equal({one.existed for one in answers}, {True}, "whether they existed")


@case("L10", needs=[Feature.SCHEDULING])
def jobs_that_are_not_due_are_not_leased(h: Harness) -> None:
    _, found = brought(h, batch(h, run_at=h.now + MINUTE))
    assert_equal((found, h.reserve_ids()), ([], []), "what can be had now")
    h.advance(MINUTE)
    assert_equal(len(h.reserve_ids(MANY)), MANY, "how many can be had then")


@case("L11", needs=[Feature.DOMAINS])
def jobs_of_a_domain_are_not_leased_out_of_order(h: Harness) -> None:
    jobs = batch(h, domain="d")
    _, found = brought(h, jobs)
    assert_equal((found, h.reserve_ids(MANY)), ([], [jobs[0].id]), "what can be had")


@case("L3", needs=[Feature.LIMITS])
def jobs_of_a_paused_or_limited_queue_are_not_leased(h: Harness) -> None:
    for number, (settings, type_) in enumerate(
        (
            (QueueSettings(paused_until=h.now + MINUTE), None),
            (QueueSettings(max_inflight=1), None),
            (QueueSettings(rate=1.0, burst=1), TYPE),
        )
    ):
        queue = f"{QUEUE}{number}"
        h.store.configure(queue, settings, type=type_)
        _, found = brought(h, batch(h, queue=queue))
        assert_equal(found, [], f"the leases under {settings}")
        assert_equal(
            len(h.reserve_ids(MANY, queues=[queue])),
            0 if settings.paused_until else 1,
            f"what can be had under {settings}",
        )


@case("L9")
def a_small_batch_is_stored_even_if_it_is_not_leased(h: Harness) -> None:
    jobs = [h.job(), h.job(priority=3)]
    answers, found = brought(h, jobs)
    assert_equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    assert len(found) in {0, 2}, f"wanted a lease for each or for none, got {len(found)}"
    assert_equal(len(h.reserve_ids(2)), 2 - len(found), "what is left for others")
    assert_equal(brought(h, []), ([], []), "the answer to no jobs")


@case("L9")
def a_batch_with_an_invalid_record_or_lease_is_refused(h: Harness) -> None:
    good = batch(h)
    bad = h.job_batch([b"{}"] * MANY, ["same"] * (MANY - 1) + ["\0"])
    with assert_raises(InvalidInput):
        brought(h, bad)
    for terms in ({"lease_for": 0}, {"worker": "\n"}):
        with assert_raises(InvalidInput):
            brought(h, good, **terms)
    assert_equal(h.store.find().items, [], "what is stored")
