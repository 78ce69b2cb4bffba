"""Settle, and lease the next jobs of the domains in the same transaction (L3, L11)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.contract import Gaps, OnExhausted, QueueSettings
from holdfast.drivers.optional import SettleAndReserve
from holdfast.errors import LeaseError, LeaseMismatch
from holdfast.model.isolation import Isolation
from holdfast.model.job import State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.testing.drivers.conformance.assertions import answer_types, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.domain_calls import enqueue_at
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, WORKER, CaseSkipped, Harness

FOLLOW = {Feature.DOMAINS, Feature.SETTLE_AND_RESERVE}
FOLLOW_LIMITS = FOLLOW | {Feature.LIMITS}


def _settle_and_reserve(
    h: Harness, *settlements: Settlement, follow: Collection[str] | None = None, **options: Any
) -> tuple[list[LeaseError | None], list[Reservation]]:
    """Settle now and follow all jobs, unless ``follow`` says which."""
    store = h.store
    if not isinstance(store, SettleAndReserve):
        raise CaseSkipped("this driver has no settle_and_reserve")
    ids = [settlement.lease.job_id for settlement in settlements] if follow is None else follow
    options = {"queues": [QUEUE], "lease_for": LEASE, "worker": WORKER, **options}
    return store.settle_and_reserve(settlements, follow=ids, now=h.now_or_none, **options)


def _follow(h: Harness, *settlements: Settlement, **options: Any) -> list[str]:
    """Settle, all of it accepted; return the ids of the jobs that were leased."""
    answers, reservations = _settle_and_reserve(h, *settlements, **options)
    assert_equal(answers, [None] * len(settlements), "the answers")
    return [reservation.job.id for reservation in reservations]


def _run_first(h: Harness, **fields: Any) -> tuple[Lease, str]:
    """Reserve the first of two jobs of a domain; return its lease, and the id of the second, which has ``fields``."""
    h.enqueue_job(domain="d")
    second = h.enqueue_job(**{"domain": "d", **fields}).id
    return h.reserve_one().lease, second


@case("L11", "L3", needs=FOLLOW)
def the_next_job_of_the_domain_is_leased(h: Harness) -> None:
    lease, second = _run_first(h)
    answers, [reservation] = _settle_and_reserve(h, Ack(lease, result=b"1"), worker="other")
    assert_equal((answers, h.get(lease.job_id).result), ([None], b"1"), "the settlement")
    job, granted = reservation.job, reservation.lease
    assert_equal((job.id, job.attempts, job.state), (second, 1, State.INFLIGHT), "the job")
    assert granted.fence > lease.fence, f"wanted a fence larger than {lease.fence}, got {granted.fence}"
    inspection = h.inspect(second)
    assert_equal((inspection.worker, inspection.fence), ("other", granted.fence), "worker and fence")
    if h.capabilities.has(Feature.CALLER_CLOCK):
        assert_equal((granted.expires_at, inspection.reserved_at), (h.now + LEASE, h.now), "the instants of the lease")
    h.must_extend(granted)
    h.must_settle(Ack(granted))


@case("L11", needs=FOLLOW)
def each_domain_of_a_batch_is_followed_in_order(h: Harness) -> None:
    jobs = {name: [h.enqueue_job(domain=name).id for _ in range(2)] for name in ("a", "b", "c")}
    free = h.enqueue_job().id
    leases = {reservation.job.id: reservation.lease for reservation in h.reserve(9)}
    order = [jobs["c"][0], jobs["a"][0], free, jobs["b"][0]]
    followed = _follow(h, *[Ack(leases[job_id]) for job_id in order], follow=[*order[:3], "unknown"])
    assert_equal(followed, [jobs["c"][1], jobs["a"][1]], "the jobs that were leased")
    assert_equal(h.reserve_ids(9), [jobs["b"][1]], "the job of the domain that was not followed")


@case("L11", needs=FOLLOW)
def a_failed_job_is_followed_too(h: Harness) -> None:
    lease, second = _run_first(h)
    assert_equal(_follow(h, Fail(lease, reason="no")), [second], "leased")


@case("L11", needs=FOLLOW | {Feature.OFFSETS})
def the_smallest_offset_is_followed(h: Harness) -> None:
    enqueue_at(h, 4, 9)
    lease = h.reserve_one().lease
    late = enqueue_at(h, 2)[0]
    assert_equal(_follow(h, Ack(lease)), [late], "leased")


@case("L11", needs=FOLLOW)
def an_empty_domain_has_nothing_to_follow(h: Harness) -> None:
    with_domain, without = h.reserve_new_job(domain="d"), h.reserve_new_job()
    h.enqueue_job()
    assert_equal(_follow(h, Ack(with_domain.lease), Ack(without.lease)), [], "leased")


@case("L11", "L5", needs=FOLLOW)
def a_refused_settlement_is_not_followed_and_does_not_affect_others(h: Harness) -> None:
    lease, _ = _run_first(h)
    other = h.reserve_new_job(domain="e")
    next_of_other = h.enqueue_job(domain="e").id
    wrong = Lease(job_id=lease.job_id, token=other.lease.token, fence=lease.fence, expires_at=lease.expires_at)
    answers, reservations = _settle_and_reserve(h, Ack(wrong), Ack(other.lease))
    assert_equal(answer_types(answers), [LeaseMismatch, None], "the answers")
    assert_equal([reservation.job.id for reservation in reservations], [next_of_other], "leased")


@case("L11", "L6", needs=FOLLOW)
def a_repeated_settlement_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h)
    h.must_settle(Ack(lease))
    assert_equal(_follow(h, Ack(lease)), [], "leased")
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", needs=FOLLOW)
def a_job_that_has_not_ended_is_not_followed(h: Harness) -> None:
    lease, _ = _run_first(h)
    assert_equal(_follow(h, Retry(lease)), [], "leased after a retry")
    again = h.reserve_one()
    assert_equal(again.job.id, lease.job_id, "reserved after the retry")
    assert_equal(_follow(h, Release(again.lease)), [], "leased after a release")
    assert_equal(h.reserve_ids(9), [lease.job_id], "reserved after the release")


def _assert_not_followed(h: Harness, lease: Lease, why: str, **options: Any) -> None:
    assert_equal(_follow(h, Ack(lease), **options), [], f"leased although {why}")


@case("L11", "L3", needs=FOLLOW_LIMITS)
def a_job_of_a_paused_queue_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h)
    h.store.configure(QUEUE, QueueSettings(paused_until=h.now + SECOND))
    _assert_not_followed(h, lease, "the queue is paused")
    h.advance(SECOND)
    assert_equal(h.reserve_ids(9), [second], "reserved after the pause")


@case("L11", "L3", needs=FOLLOW_LIMITS | {Feature.TYPES})
def a_job_of_a_paused_type_is_not_followed(h: Harness) -> None:
    lease, _ = _run_first(h)
    h.store.configure(QUEUE, QueueSettings(held_until=h.now + SECOND), type=TYPE)
    _assert_not_followed(h, lease, "its type is held")


@case("L11", "L3", needs=FOLLOW_LIMITS)
def a_job_over_the_rate_is_not_followed(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(rate=1, burst=2))
    jobs = [h.enqueue_job(domain="d").id for _ in range(3)]
    lease = h.reserve_one().lease
    _, [second] = _settle_and_reserve(h, Ack(lease))
    assert_equal(second.job.id, jobs[1], "leased within the rate")
    _assert_not_followed(h, second.lease, "the rate is used up")
    h.advance(SECOND)
    assert_equal(h.reserve_ids(9), [jobs[2]], "reserved when the rate allows one more")


@case("L11", "L3", needs=FOLLOW_LIMITS)
def a_job_over_the_concurrency_limit_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h)
    other = h.reserve_new_job()
    h.store.configure(QUEUE, QueueSettings(max_inflight=1))
    _assert_not_followed(h, lease, "another job uses the only place")
    h.must_settle(Ack(other.lease))
    assert_equal(h.reserve_ids(9), [second], "reserved when the place is free")


@case("L11", "L3", needs=FOLLOW_LIMITS)
def the_place_of_a_settled_job_is_free_for_the_next(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(max_inflight=1))
    lease, second = _run_first(h)
    assert_equal(_follow(h, Ack(lease)), [second], "leased")


@case("L11", "L3", needs=FOLLOW_LIMITS | {Feature.KEY_LIMITS})
def a_job_over_the_limit_of_its_key_is_not_followed(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(key_max_inflight=1))
    lease, second = _run_first(h, limit_key="k")
    other = h.reserve_new_job(limit_key="k")
    _assert_not_followed(h, lease, "its key is full")
    h.must_settle(Ack(other.lease))
    assert_equal(h.reserve_ids(9), [second], "reserved when its key has a place")


@case("L11", needs=FOLLOW | {Feature.TYPES})
def a_job_of_another_type_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h, type="other")
    _assert_not_followed(h, lease, "its type was not asked for", types={TYPE})
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", needs=FOLLOW)
def a_job_of_another_queue_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h)
    _assert_not_followed(h, lease, "its queue was not asked for", queues=["other"])
    assert_equal(h.reserve_ids(9), [second], "reserved")


@case("L11", "L7", needs=FOLLOW)
def an_isolated_job_is_followed_only_where_jobs_share(h: Harness) -> None:
    lease, second = _run_first(h, max_attempts=1)
    _assert_not_followed(h, lease, "it must run alone", isolation=Isolation.ALONE)
    assert_equal(h.reserve_ids(9, isolation=Isolation.ALONE), [second], "reserved")
    h.enqueue_job(domain="e", max_attempts=2)
    last = h.enqueue_job(domain="e", max_attempts=1).id
    [reservation] = h.reserve(1)
    _, [isolated] = _settle_and_reserve(h, Ack(reservation.lease))
    assert_equal((isolated.job.id, isolated.isolated), (last, True), "leased where jobs share")


@case("L11", "L7", needs=FOLLOW | {Feature.SCHEDULING})
def a_scheduled_job_is_not_followed(h: Harness) -> None:
    lease, second = _run_first(h, run_at=h.now + 1)
    _assert_not_followed(h, lease, "it is not due")
    h.advance(1)
    assert_equal(h.reserve_ids(9), [second], "reserved when it is due")


@case("L11", "L10", needs=FOLLOW | {Feature.PRIORITIES})
def a_job_is_not_followed_while_one_of_a_higher_priority_is_due(h: Harness) -> None:
    lease, second = _run_first(h)
    urgent = h.enqueue_job(queue="urgent", priority=1).id
    _assert_not_followed(h, lease, "another job has a higher priority", queues=[QUEUE, "urgent"])
    assert_equal(h.reserve_ids(9, queues=[QUEUE, "urgent"]), [urgent, second], "reserved")


@case("L11", "L10", needs=FOLLOW_LIMITS | {Feature.PRIORITIES, Feature.SCHEDULING, Feature.TYPES})
def a_job_of_a_higher_priority_that_cannot_run_does_not_matter(h: Harness) -> None:
    lease, second = _run_first(h)
    h.store.configure("paused", QueueSettings(paused_until=h.now + SECOND))
    h.enqueue_job(queue="paused", priority=9)
    h.enqueue_job(priority=9, run_at=h.now + 1)
    h.enqueue_job(priority=9, type="other")
    h.enqueue_job(priority=9, queue="elsewhere")
    h.enqueue_job(priority=9, domain="d")
    assert_equal(_follow(h, Ack(lease), queues=[QUEUE, "paused"], types={TYPE}), [second], "leased")


@case("L11", needs=FOLLOW)
def a_job_of_the_same_priority_that_has_waited_longer_does_not_matter(h: Harness) -> None:
    lease, second = _run_first(h)
    h.enqueue_job()
    assert_equal(_follow(h, Ack(lease)), [second], "leased")


@case("L11", needs=FOLLOW)
def payloads_that_are_too_large_together_are_not_followed(h: Harness) -> None:
    sizes = (5, 4, 1)
    for name in ("a", "b", "c"):
        h.enqueue_job(domain=name)
    leases = [reservation.lease for reservation in h.reserve(9)]
    jobs = [
        h.enqueue_job(domain=name, payload=b"1" * size).id for name, size in zip(("a", "b", "c"), sizes, strict=True)
    ]
    assert_equal(_follow(h, *[Ack(lease) for lease in leases], max_bytes=3), jobs[:1], "leased")
    assert_equal(h.reserve_ids(9), jobs[1:], "reserved")


@case("L11", needs=FOLLOW_LIMITS | {Feature.HALT})
def a_halted_domain_is_not_followed(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(on_exhausted=OnExhausted.HALT))
    lease, _ = _run_first(h)
    assert_equal(_follow(h, Fail(lease, reason="no")), [], "leased")
    assert_equal(h.reserve(9), [], "reserved")


@case("L11", needs=FOLLOW_LIMITS | {Feature.OFFSETS, Feature.GAPS})
def a_domain_behind_a_gap_is_not_followed(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(gaps=Gaps.WAIT, gap_pass_after=SECOND))
    enqueue_at(h, 0, 2)
    lease = h.reserve_one().lease
    ended_at = h.advance(2 * SECOND)
    assert_equal(_follow(h, Ack(lease)), [], "leased")
    domains = h.store.domains(QUEUE, name="d", now=h.now_or_none).items
    assert_equal(len(domains), 1, "the domains")
    info = domains[0]
    assert_equal((info.waits_for, info.waiting_since), (1, ended_at), "the gap")


@case("L13", "L11", needs=FOLLOW | {Feature.LEDGER})
def a_followed_lease_ends_like_any_other(h: Harness) -> None:
    lease, second = _run_first(h)
    _, [reservation] = _settle_and_reserve(h, Ack(lease))
    h.advance(LEASE)
    assert_equal(h.reap(), 1, "reaped")
    rows = [(row.job_id, row.fence, row.worker) for row in h.ledger()]
    assert_equal(rows, [(lease.job_id, lease.fence, WORKER), (second, reservation.lease.fence, WORKER)], "the ledger")
    assert_equal((h.get(second).attempts, h.get(second).crashes), (1, 1), "attempts and crashes")


@case("L11", "L3", needs=FOLLOW)
def a_followed_job_and_a_reserved_one_are_never_the_same(h: Harness) -> None:
    jobs = [[h.enqueue_job(domain=name).id for _ in range(3)] for name in ("a", "b", "c", "d")]
    leases = [reservation.lease for reservation in h.reserve(9)]
    leased: list[str] = []

    def follow(lease: Lease) -> None:
        leased.extend(_follow(h, Ack(lease)))

    def reserve() -> None:
        leased.extend(h.reserve_ids(9))

    h.run_concurrently(*[lambda lease=lease: follow(lease) for lease in leases], reserve, reserve)
    leased.extend(h.reserve_ids(9))
    assert_equal(sorted(leased), sorted(ids[1] for ids in jobs), "the second job of each domain, each leased once")
