"""Spaces: tenants in one store share no job, key or number."""

from __future__ import annotations

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, Inspect, Purge, Reap, Requeue
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, JobNotInflight, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.settlement import Ack
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.settle import SETTLEMENTS
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SPACES = {Feature.SPACES}


def _reserve(h: Harness, store: Store, limit: int = 5) -> list[Reservation]:
    return store.reserve([QUEUE], limit=limit, lease_for=LEASE, now=h.now_or_none)


@case("L3", needs=SPACES)
def two_spaces_may_have_a_job_with_the_same_id(h: Harness) -> None:
    ours, other = h.enqueue_job(payload=b"1"), h.open_other_space()
    theirs = h.job(id=ours.id, payload=b"2")
    assert_equal(other.enqueue([theirs], now=h.now_or_none), [Enqueued(id=ours.id, existed=False)], "the answer")
    assert_equal((h.get(ours.id).payload, other.get(ours.id)), (b"1", theirs), "the two jobs")
    h.must_settle(Ack(h.reserve_one().lease))
    assert other.get(ours.id) == theirs, "wanted the other space untouched"


@case("L3", needs=SPACES)
def a_job_is_reserved_in_its_own_space_only(h: Harness) -> None:
    h.enqueue_job()
    assert_equal(_reserve(h, h.open_other_space()), [], "reserved in another space")
    assert_equal(len(h.reserve()), 1, "jobs reserved in its own")


@case("L5", "L4", needs=SPACES)
def a_token_of_one_space_is_refused_in_another(h: Harness) -> None:
    reservation, other = h.reserve_new_job(), h.open_other_space()
    for make in SETTLEMENTS.values():
        assert_answers(other.settle([make(reservation.lease)], now=h.now_or_none), JobNotInflight)
    assert_answers(other.extend([reservation.lease], lease_for=LEASE, now=h.now_or_none), JobNotInflight)
    other.enqueue([h.job(id=reservation.job.id)], now=h.now_or_none)
    _reserve(h, other)
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(other.settle([make(reservation.lease)], now=h.now_or_none), LeaseMismatch)
    h.must_settle(Ack(reservation.lease))


@case("L3", needs=SPACES)
def reap_ends_leases_only_in_its_space(h: Harness) -> None:
    reservation, other = h.reserve_new_job(), h.open_other_space()
    h.advance(LEASE)
    assert_equal(other.reap(now=h.now_or_none), 0, "reaped in another space")
    assert_equal(other.do(Reap(worker="w", now=h.now_or_none)).count, 0, "reaped in another space by worker")
    assert_equal(h.state(reservation.job.id), State.INFLIGHT, "the state")


@case("L9", needs=SPACES | {Feature.JOBS})
def operators_see_and_change_only_their_space(h: Harness) -> None:
    dead, other = h.reserve_new_job(max_attempts=1), h.open_other_space()
    h.expire_leases()
    job_id = dead.job.id
    assert_equal((other.get(job_id), other.do(Inspect(job_ids=[job_id]))), (None, {}), "get and inspect")
    assert_equal((other.find().items, other.counts(now=h.now_or_none)), ([], []), "find and counts")
    answers = (
        other.do(Requeue(job_ids=[job_id], now=h.now_or_none)),
        other.do(Purge(job_ids=[job_id], now=h.now_or_none)),
    )
    assert_equal(answers, ([False], [False]), "requeue and purge")
    assert_equal(other.do(Cancel(job_ids=[job_id], now=h.now_or_none)), [None], "cancel")
    assert_equal(h.state(job_id), State.DEAD, "the state")


@case("L13", needs=SPACES | {Feature.LEDGER})
def every_space_has_its_own_ledger(h: Harness) -> None:
    other = h.open_other_space()
    h.must_settle(Ack(h.reserve_new_job().lease))
    assert_equal(other.ledger().items, [], "the ledger of another space")
    other.enqueue([h.job()], now=h.now_or_none)
    [reservation] = _reserve(h, other)
    other.settle([Ack(reservation.lease)], now=h.now_or_none)
    assert_equal([row.job_id for row in other.ledger().items], [reservation.job.id], "the ledger of another space")
    assert_equal(len(h.ledger()), 1, "rows of our ledger")


@case("L3", needs=SPACES)
def the_same_name_is_the_same_space(h: Harness) -> None:
    job = h.enqueue_job()
    again = h.open_other_space().space(h.space_name)
    assert_equal(again.get(job.id), job, "the job")
    assert_equal(len(_reserve(h, again)), 1, "jobs reserved")


@case("L3", needs=SPACES)
def an_invalid_space_name_is_refused(h: Harness) -> None:
    for invalid in ("", "a b", "ü", "x" * 129, "a/b", "a\n", None):
        with assert_raises(InvalidInput, f"space {invalid!r}"):
            h.store.space(invalid)  # type: ignore[arg-type]


@case("L14", needs=SPACES)
def every_space_has_the_capabilities_of_its_store(h: Harness) -> None:
    assert_equal(h.open_other_space().capabilities, h.store.capabilities, "the capabilities")
