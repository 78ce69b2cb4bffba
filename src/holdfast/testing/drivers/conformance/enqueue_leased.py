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
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, WORKER, Harness, Skipped

MANY = 600  # jobs: a driver may have a quick way for large batches only


def brought(h: Harness, jobs: Sequence[JobRecord], **terms: Any) -> tuple[list[Enqueued], list[Reservation]]:
    """Enqueue with leases now."""
    store = h.store
    if not isinstance(store, LeasedEnqueue):
        raise Skipped("this driver leases no job as it is stored")
    return store.enqueue_leased(jobs, **{"lease_for": LEASE, "worker": WORKER, "now": h.stamp, **terms})


def batch(h: Harness, **fields: Any) -> Sequence[JobRecord]:
    """Many jobs, each with a payload and a key of its own."""
    numbers = range(MANY)
    return h.alike([b'{"n":%d}' % number for number in numbers], [f"key {number}" for number in numbers], **fields)


@case("L3", "L9")
def a_large_batch_of_alike_jobs_is_leased_as_it_is_stored(h: Harness) -> None:
    jobs = batch(h)
    answers, found = brought(h, jobs)
    equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    equal([one.job.id for one in found], [job.id for job in jobs], "the leased jobs")
    equal({(one.job.state, one.job.attempts) for one in found}, {(State.INFLIGHT, 1)}, "their states and attempts")
    equal([one.job.payload for one in found], [job.payload for job in jobs], "their payloads")
    equal(h.taken(MANY), [], "what is left for others")


@case("L3")
def a_job_that_is_leased_as_it_is_stored_looks_like_any_other_in_flight(h: Harness) -> None:
    _, found = brought(h, batch(h))
    seen = h.inspect(found[0].job.id)
    equal(seen.job, found[0].job, "the job")
    equal((seen.worker, seen.fence), (WORKER, found[0].lease.fence), "whose it is")
    equal((seen.reserved_at, seen.expires_at), (h.now, h.now + LEASE), "when its lease began and ends")
    equal(found[0].lease.expires_at, h.now + LEASE, "when the lease says that it ends")


@case("L4")
def leases_of_new_jobs_have_tokens_of_their_own_and_fences_that_grow(h: Harness) -> None:
    before = h.held()
    _, found = brought(h, batch(h))
    after = h.held(queue="another")
    fences = [before.lease.fence, *(one.lease.fence for one in found), after.lease.fence]
    equal(fences, sorted(set(fences)), "the fences")
    equal(len({one.lease.token for one in found}), MANY, "the number of different tokens")


@case("L5", "L13")
def leases_of_new_jobs_are_extended_and_settled_like_others(h: Harness) -> None:
    _, found = brought(h, batch(h))
    first, second, *rest = found
    h.extended(first.lease)
    h.settled(Ack(first.lease, result=b"1"), Retry(second.lease, error="not yet"), *(Ack(one.lease) for one in rest))
    equal((h.state(first.job.id), h.state(second.job.id)), (State.DONE, State.READY), "where they stand")
    again = h.take()
    equal((again.job.id, again.job.attempts), (second.job.id, 2), "the next attempt")
    rows = {row.job_id: row for row in h.ledger() if row.attempt == 1}
    if rows:
        row = rows[first.job.id]
        equal((row.worker, row.fence, row.attempt), (WORKER, first.lease.fence, 1), "the ledger row")


@case("L2", "L7")
def a_lease_of_a_new_job_that_expires_gives_the_job_to_others(h: Harness) -> None:
    _, found = brought(h, batch(h))
    h.settled(*(Ack(one.lease) for one in found[1:]))
    h.advance(LEASE)
    again = h.take()
    equal((again.job.id, again.job.attempts), (found[0].job.id, 2), "the next attempt")
    [refused] = h.settle(Ack(found[0].lease))
    assert refused is not None, "wanted the first lease refused, got it accepted"


@case("L12", needs=[Feature.IDEMPOTENCY])
def a_batch_with_a_known_key_is_stored_and_waits_in_line(h: Harness) -> None:
    h.settled(Ack(h.held(payload=b'{"n":7}', idempotency_key="key 7").lease))
    jobs = batch(h)
    answers, found = brought(h, jobs)
    equal(found, [], "the leases")
    equal([place for place, one in enumerate(answers) if one.existed], [7], "the places of those that existed")
    equal([one.id for one in answers if one.conflict], [], "conflicts")
    equal(h.taken(MANY), [job.id for place, job in enumerate(jobs) if place != 7], "what waits")


@case("L6")
def a_batch_that_is_brought_again_changes_nothing(h: Harness) -> None:
    jobs = batch(h)
    brought(h, jobs)
    with h.unchanged():
        answers, found = brought(h, jobs)
    equal(found, [], "the leases")
    equal({one.existed for one in answers}, {True}, "whether they existed")


@case("L10", needs=[Feature.SCHEDULING])
def jobs_that_are_not_due_are_not_leased(h: Harness) -> None:
    _, found = brought(h, batch(h, run_at=h.now + MINUTE))
    equal((found, h.taken()), ([], []), "what can be had now")
    h.advance(MINUTE)
    equal(len(h.taken(MANY)), MANY, "how many can be had then")


@case("L11", needs=[Feature.DOMAINS])
def jobs_of_a_domain_are_not_leased_past_its_order(h: Harness) -> None:
    jobs = batch(h, domain="d")
    _, found = brought(h, jobs)
    equal((found, h.taken(MANY)), ([], [jobs[0].id]), "what can be had")


@case("L3", needs=[Feature.LIMITS])
def jobs_for_a_queue_that_is_paused_or_limited_are_not_leased(h: Harness) -> None:
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
        equal(found, [], f"the leases under {settings}")
        equal(
            len(h.taken(MANY, queues=[queue])), 0 if settings.paused_until else 1, f"what can be had under {settings}"
        )


@case("L9")
def a_batch_of_few_is_stored_whether_or_not_it_is_leased(h: Harness) -> None:
    jobs = [h.job(), h.job(priority=3)]
    answers, found = brought(h, jobs)
    equal(answers, [Enqueued(id=job.id, existed=False) for job in jobs], "the answers")
    assert len(found) in {0, 2}, f"wanted a lease for each or for none, got {len(found)}"
    equal(len(h.taken(2)), 2 - len(found), "what is left for others")
    equal(brought(h, []), ([], []), "the answer to no jobs")


@case("L9")
def a_batch_with_a_bad_record_or_a_bad_lease_stores_nothing(h: Harness) -> None:
    good = batch(h)
    bad = h.alike([b"{}"] * MANY, ["same"] * (MANY - 1) + ["\0"])
    with raising(InvalidInput):
        brought(h, bad)
    for terms in ({"lease_for": 0}, {"worker": "\n"}):
        with raising(InvalidInput):
            brought(h, good, **terms)
    equal(h.store.find().items, [], "what is stored")
