"""Tenants in one store: no job, key or number is shared."""

from __future__ import annotations

from holdfast.drivers.contract import Feature, Store
from holdfast.errors import InvalidInput, JobNotInflight, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, raising, refused
from holdfast.testing.drivers.conformance.settle import VERBS
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SPACES = {Feature.SPACES}


def _reserve(h: Harness, store: Store, limit: int = 5) -> list[Reservation]:
    return store.reserve([QUEUE], limit=limit, lease_for=LEASE, now=h.stamp)


@case("L3", needs=SPACES)
def one_id_may_stand_in_two_spaces(h: Harness) -> None:
    ours, other = h.put(payload=b"1"), h.elsewhere()
    theirs = h.job(id=ours.id, payload=b"2")
    equal(other.enqueue([theirs], now=h.stamp), [Enqueued(id=ours.id, existed=False)], "the answer")
    equal((h.get(ours.id).payload, other.get(ours.id)), (b"1", theirs), "the two jobs")
    h.settled(Ack(h.take().lease))
    assert other.get(ours.id) == theirs, "wanted the other space untouched"


@case("L3", needs=SPACES)
def a_job_is_reserved_in_its_own_space_only(h: Harness) -> None:
    h.put()
    equal(_reserve(h, h.elsewhere()), [], "reserved in another space")
    equal(len(h.reserve()), 1, "jobs reserved in its own")


@case("L5", "L4", needs=SPACES)
def a_token_of_one_space_is_useless_in_another(h: Harness) -> None:
    held, other = h.held(), h.elsewhere()
    for make in VERBS.values():
        refused(other.settle([make(held.lease)], now=h.stamp), JobNotInflight)
    refused(other.extend([held.lease], lease_for=LEASE, now=h.stamp), JobNotInflight)
    other.enqueue([h.job(id=held.job.id)], now=h.stamp)
    _reserve(h, other)
    with h.unchanged():
        for make in VERBS.values():
            refused(other.settle([make(held.lease)], now=h.stamp), LeaseMismatch)
    h.settled(Ack(held.lease))


@case("L3", needs=SPACES)
def a_reap_keeps_to_its_space(h: Harness) -> None:
    held, other = h.held(), h.elsewhere()
    h.advance(LEASE)
    equal(other.reap(now=h.stamp), 0, "reaped in another space")
    equal(other.reap(worker="w", now=h.stamp), 0, "reaped in another space by worker")
    equal(h.state(held.job.id), State.INFLIGHT, "the state")


@case("L9", needs=SPACES)
def what_is_seen_and_done_by_operators_keeps_to_its_space(h: Harness) -> None:
    dead, other = h.held(max_attempts=1), h.elsewhere()
    h.lapse()
    job_id = dead.job.id
    equal((other.get(job_id), other.inspect(job_id)), (None, None), "get and inspect")
    equal((other.find().items, other.counts(now=h.stamp)), ([], []), "find and counts")
    answers = (other.requeue([job_id], now=h.stamp), other.purge([job_id], now=h.stamp))
    equal(answers, ([False], [False]), "requeue and purge")
    equal(other.cancel([job_id], now=h.stamp), [None], "cancel")
    equal(h.state(job_id), State.DEAD, "the state")


@case("L13", needs=SPACES | {Feature.LEDGER})
def every_space_has_its_own_ledger(h: Harness) -> None:
    other = h.elsewhere()
    h.settled(Ack(h.held().lease))
    equal(other.ledger().items, [], "the ledger of another space")
    other.enqueue([h.job()], now=h.stamp)
    [held] = _reserve(h, other)
    other.settle([Ack(held.lease)], now=h.stamp)
    equal([row.job_id for row in other.ledger().items], [held.job.id], "the ledger of another space")
    equal(len(h.ledger()), 1, "rows of our ledger")


@case("L3", needs=SPACES)
def the_same_name_is_the_same_space(h: Harness) -> None:
    job = h.put()
    again = h.elsewhere().space(h.space)
    equal(again.get(job.id), job, "the job")
    equal(len(_reserve(h, again)), 1, "jobs reserved")


@case("L3", needs=SPACES)
def a_space_has_a_name_that_fits_everywhere(h: Harness) -> None:
    for wrong in ("", "a b", "ü", "x" * 129, "a/b", "a\n", None):
        with raising(InvalidInput, f"space {wrong!r}"):
            h.store.space(wrong)  # type: ignore[arg-type]


@case("L14", needs=SPACES)
def every_space_has_the_capabilities_of_its_store(h: Harness) -> None:
    equal(h.elsewhere().capabilities, h.store.capabilities, "the capabilities")
