"""Reap: end expired leases and the leases of dead workers."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Diagnose
from holdfast.errors import JobNotInflight
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.settle import SETTLEMENTS
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L7")
def reap_returns_how_many_leases_it_ended(h: Harness) -> None:
    for _ in range(3):
        h.reserve_new_job()
    assert_equal(h.reap(), 0, "reaped while the leases are valid")
    h.advance(LEASE)
    assert_equal(h.reap(), 3, "reaped when the leases have expired")
    assert_equal(h.reap(), 0, "reaped again")


@case("L7")
def reap_of_an_empty_or_unknown_queue_ends_nothing(h: Harness) -> None:
    assert_equal(h.reap(), 0, "reaped")
    assert_equal(h.reap(["unknown"]), 0, "reaped in an unknown queue")


@case("L2", needs={Feature.CALLER_CLOCK, Feature.JOBS})
def expired_leases_are_counted_until_they_are_reaped(h: Harness) -> None:
    store = h.store
    h.reserve_new_job(lease_for=10)
    h.reserve_new_job(lease_for=20)
    h.enqueue_job()
    counts = []
    for moved in (9, 1, 10):
        h.advance(moved)
        counts.append(store.do(Diagnose(now=h.now_or_none)).expired_leases)
    assert_equal(counts, [0, 1, 2], "expired leases after 9, 10 and 20 microseconds")
    assert_equal(
        store.do(Diagnose(expired_for=10, now=h.now_or_none)).expired_leases, 1, "leases expired 10 microseconds ago"
    )
    assert_equal(store.do(Diagnose(expired_for=11, now=h.now_or_none)).expired_leases, 0, "leases expired before that")
    h.reap()
    assert_equal(store.do(Diagnose(now=h.now_or_none)).expired_leases, 0, "expired leases after a reap")


@case("L2", needs={Feature.CALLER_CLOCK})
def reap_ends_only_expired_leases(h: Harness) -> None:
    short, long = h.reserve_new_job(lease_for=10), h.reserve_new_job(lease_for=11)
    h.advance(10)
    assert_equal(h.reap(), 1, "reaped")
    assert_equal((h.state(short.job.id), h.state(long.job.id)), (State.READY, State.INFLIGHT), "the states")
    h.must_settle(Ack(long.lease))


@case("L7", needs={Feature.JOBS})
def reap_does_not_change_ready_and_ended_jobs(h: Harness) -> None:
    h.enqueue_job(queue="other")
    for make in SETTLEMENTS.values():
        h.must_settle(make(h.reserve_new_job().lease))
        h.cancel(*[job.id for job in h.store.find().items if job.queue == "q" and job.state is State.READY])
    h.advance(2 * LEASE)
    with h.assert_unchanged():
        assert_equal(h.reap(), 0, "reaped")


@case("L3", needs={Feature.CALLER_CLOCK})
def reap_starts_with_the_oldest_expiry(h: Harness) -> None:
    last, first, middle = (
        h.reserve_new_job(lease_for=30),
        h.reserve_new_job(lease_for=10),
        h.reserve_new_job(lease_for=20),
    )
    h.advance(SECOND)
    states = []
    for _ in range(3):
        assert_equal(h.reap(limit=1), 1, "reaped")
        states.append([h.state(reservation.job.id) for reservation in (first, middle, last)])
    ready, inflight = State.READY, State.INFLIGHT
    assert_equal(
        states, [[ready, inflight, inflight], [ready, ready, inflight], [ready] * 3], "the states, step by step"
    )


@case("L3")
def reap_starts_with_the_oldest_expiry_of_all_its_queues(h: Harness) -> None:
    young, old = h.reserve_new_job(queue="a", lease_for=20), h.reserve_new_job(queue="b", lease_for=10)
    h.advance(SECOND)
    assert_equal(h.reap(["a", "b"], limit=1), 1, "reaped")
    assert_equal((h.state(young.job.id), h.state(old.job.id)), (State.INFLIGHT, State.READY), "the states")


@case("L3")
def reap_ends_at_most_limit_leases(h: Harness) -> None:
    for _ in range(5):
        h.reserve_new_job()
    h.advance(LEASE)
    assert_equal([h.reap(limit=2) for _ in range(4)], [2, 2, 1, 0], "reaped, call by call")


@case("L3")
def reap_ends_leases_only_in_its_queues(h: Harness) -> None:
    for queue in ("a", "b", "c"):
        h.reserve_new_job(queue=queue)
    h.advance(LEASE)
    assert_equal(h.reap(["a", "c"]), 2, "reaped in two queues")
    assert_equal(h.reap(), 1, "reaped in all the others")


@case("L7")
def reap_for_a_dead_worker_ends_its_valid_leases_and_no_others(h: Harness) -> None:
    of_dead, of_alive, unnamed = (
        h.reserve_new_job(worker="dead"),
        h.reserve_new_job(worker="alive"),
        h.reserve_new_job(worker=""),
    )
    h.advance(SECOND)
    assert_equal(h.reap(worker="dead"), 1, "reaped")
    states = [h.state(reservation.job.id) for reservation in (of_dead, of_alive, unnamed)]
    assert_equal(states, [State.READY, State.INFLIGHT, State.INFLIGHT], "the states")
    job = h.get(of_dead.job.id)
    assert_equal((job.attempts, job.crashes), (1, 1), "attempts and crashes")
    assert_answers(h.settle(Ack(of_dead.lease)), JobNotInflight)
    h.must_settle(Ack(of_alive.lease), Ack(unnamed.lease))


@case("L7")
def reap_for_a_dead_worker_ends_its_expired_leases_too(h: Harness) -> None:
    mine, other = h.reserve_new_job(worker="dead"), h.reserve_new_job(worker="alive")
    h.advance(LEASE)
    assert_equal(h.reap(worker="dead"), 1, "reaped")
    assert_equal((h.state(mine.job.id), h.state(other.job.id)), (State.READY, State.INFLIGHT), "the states")
    assert_equal(h.inspect(mine.job.id).available_at, mine.lease.expires_at, "available_at")


@case("L7")
def reap_for_a_dead_worker_respects_queues_and_limit(h: Harness) -> None:
    for queue in ("a", "a", "b"):
        h.reserve_new_job(queue=queue, worker="dead")
    assert_equal(h.reap(["a"], worker="dead", limit=1), 1, "reaped")
    assert_equal(h.reap(["a"], worker="dead"), 1, "reaped in queue a")
    assert_equal(h.reap(worker="dead"), 1, "reaped in the others")


@case("L7")
def reap_for_a_dead_worker_ignores_jobs_that_it_has_settled(h: Harness) -> None:
    reservation = h.reserve_new_job(worker="dead")
    h.must_settle(Retry(reservation.lease))
    again = h.reserve_one(worker="alive")
    assert_equal(h.reap(worker="dead"), 0, "reaped")
    h.must_settle(Ack(again.lease))


@case("L5")
def a_reaped_lease_is_refused(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.expire_leases()
    with h.assert_unchanged():
        assert_answers(h.extend(reservation.lease), JobNotInflight)
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(reservation.lease)), JobNotInflight)


@case("L7")
def a_reaped_job_can_be_reserved_at_once(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.expire_leases()
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.attempts), (reservation.job.id, 2), "the job and its attempts")
