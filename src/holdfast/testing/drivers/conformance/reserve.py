"""Reserve jobs: limits, tokens, fences and expired leases (L3, L4, L7)."""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.clock import SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import REAP_LIMIT
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, WORKER, Harness


@case("L3", "L7")
def a_reserved_job_is_in_flight_and_its_attempt_is_counted(h: Harness) -> None:
    job = h.enqueue_job()
    h.advance(SECOND)
    reservation = h.reserve_one()
    assert_equal(reservation.job, replace(job, state=State.INFLIGHT, attempts=1), "the reserved job")
    assert_equal(h.get(job.id), reservation.job, "the stored job")
    assert_equal(reservation.lease.job_id, job.id, "the lease's job")
    assert_equal(reservation.lease.expires_at, h.now + LEASE, "expires_at")
    assert not reservation.lease.cancel_requested, "wanted a fresh lease without a cancel request"
    assert_equal(reservation.checkpoint, None, "checkpoint")


@case("L3")
def a_lease_can_be_inspected(h: Harness) -> None:
    reservation = h.reserve_new_job(worker="worker ü")
    inspection = h.inspect(reservation.job.id)
    assert_equal(inspection.worker, "worker ü", "worker")
    assert_equal(inspection.fence, reservation.lease.fence, "fence")
    assert_equal(inspection.reserved_at, h.now, "reserved_at")
    assert_equal(inspection.expires_at, reservation.lease.expires_at, "expires_at")


@case("L3")
def a_job_with_a_valid_lease_is_never_reserved_again(h: Harness) -> None:
    reservation = h.reserve_new_job()
    assert_equal(h.reserve(5), [], "a second reserve")
    assert_equal(
        h.connect_again().reserve([QUEUE], limit=5, lease_for=LEASE, now=h.now_or_none),
        [],
        "a reserve by another connection",
    )
    h.advance_to(reservation.lease.expires_at - 1)
    assert_equal(h.reserve(5), [], "a reserve just before the lease ends")


@case("L3")
def reserve_returns_at_most_limit_jobs(h: Harness) -> None:
    jobs = [h.enqueue_job() for _ in range(5)]
    assert_equal(h.reserve_ids(2), [jobs[0].id, jobs[1].id], "the first two")
    assert_equal(h.reserve_ids(10), [job.id for job in jobs[2:]], "the rest")


@case("L3")
def an_empty_queue_returns_no_jobs(h: Harness) -> None:
    assert_equal(h.reserve(5), [], "a reserve of an empty queue")


@case("L3")
def only_jobs_of_the_named_queues_are_reserved(h: Harness) -> None:
    mine, other = h.enqueue_job(queue="a"), h.enqueue_job(queue="b")
    assert_equal(h.reserve_ids(5, queues=["a", "c"]), [mine.id], "jobs of queue a")
    assert_equal(h.state(other.id), State.READY, "the job of queue b")


@case("L3")
def a_queue_that_is_named_twice_counts_once(h: Harness) -> None:
    first, second = h.enqueue_job(), h.enqueue_job()
    assert_equal(h.reserve_ids(5, queues=[QUEUE, QUEUE]), [first.id, second.id], "the jobs")


@case("L3", needs={Feature.TYPES})
def only_jobs_of_the_requested_types_are_reserved(h: Harness) -> None:
    h.enqueue_job(type="a")
    wanted = [h.enqueue_job(type="b").id, h.enqueue_job(type="c").id]
    assert_equal(h.reserve_ids(5, types=["c", "b", "unknown"]), wanted, "jobs of types b and c")
    assert_equal(h.reserve(5, types={"unknown"}), [], "jobs of an unknown type")


@case("L4")
def a_token_is_the_fence_and_128_random_bits(h: Harness) -> None:
    for _ in range(3):
        h.enqueue_job()
    for reservation in h.reserve(3):
        token = reservation.lease.token
        assert re.fullmatch(r"[0-9]+\.[0-9a-f]{32}", token), f"wanted <fence>.<32 hex>, got {token!r}"
        assert_equal(int(token.split(".")[0]), reservation.lease.fence, "the fence in the token")


@case("L4")
def every_reservation_of_a_batch_has_a_different_token(h: Harness) -> None:
    for _ in range(20):
        h.enqueue_job()
    leases = [reservation.lease for reservation in h.reserve(20)]
    assert_equal(len({lease.token.split(".")[1] for lease in leases}), 20, "different random parts")
    assert_equal(len({lease.fence for lease in leases}), 20, "different fences")


@case("L4")
def a_later_reservation_of_the_same_job_has_a_different_token(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Release(reservation.lease))
    again = h.reserve_one()
    assert again.lease.token != reservation.lease.token, "wanted another token"
    assert again.lease.token.split(".")[1] != reservation.lease.token.split(".")[1], "wanted other random bits"


@case("L4")
def fences_grow_across_queues(h: Harness) -> None:
    for queue in ("a", "b", "a", "b"):
        h.enqueue_job(queue=queue)
    fences = [h.reserve_one(queues=[queue]).lease.fence for queue in ("b", "a", "a", "b")]
    assert fences == sorted(set(fences)), f"wanted growing fences over all queues, got {fences}"


@case("L4", needs={Feature.JOBS})
def fences_grow_after_every_kind_of_ending(h: Harness) -> None:
    job_id, fences = h.enqueue_job().id, []
    for ending in (Retry, Release, None, Retry):
        reservation = h.reserve_one()
        fences.append(reservation.lease.fence)
        if ending is None:
            h.expire_leases()
        else:
            h.must_settle(ending(reservation.lease))
    reservation = h.reserve_one()
    h.must_settle(Fail(reservation.lease, reason="no"))
    h.requeue(job_id)
    fences += [reservation.lease.fence, h.reserve_one().lease.fence]
    assert fences == sorted(set(fences)), f"wanted growing fences, got {fences}"


@case("L4")
def fences_grow_across_connections(h: Harness) -> None:
    for _ in range(4):
        h.enqueue_job()
    fences = []
    for _ in range(2):
        for store in (h.store, h.connect_again()):
            [reservation] = store.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.now_or_none)
            fences.append(reservation.lease.fence)
    assert fences == sorted(set(fences)), f"wanted growing fences, got {fences}"


@case("L4")
def fences_grow_within_a_batch(h: Harness) -> None:
    for _ in range(5):
        h.enqueue_job()
    fences = [reservation.lease.fence for reservation in h.reserve(5)]
    assert fences == sorted(set(fences)), f"wanted growing fences in the order of the answer, got {fences}"


@case("L7")
def every_reservation_counts_one_attempt(h: Harness) -> None:
    h.enqueue_job()
    for attempt in (1, 2, 3):
        reservation = h.reserve_one()
        assert_equal(reservation.job.attempts, attempt, "attempts")
        h.must_settle(Retry(reservation.lease))
        assert_equal(h.get(reservation.job.id).attempts, attempt, "attempts after the retry")


@case("L3")
def reserve_returns_a_job_whose_expired_lease_the_same_call_ended(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    again = h.reserve_one()
    assert_equal(again.job.id, reservation.job.id, "the job")
    assert_equal((again.job.attempts, again.job.crashes), (2, 1), "attempts and crashes")


@case("L3")
def reserve_ends_expired_leases_only_in_its_queues(h: Harness) -> None:
    other = h.reserve_new_job(queue="other")
    h.advance(LEASE)
    h.reserve(queues=["q"])
    assert_equal(h.state(other.job.id), State.INFLIGHT, "the expired job of another queue")


@case("L3", needs={Feature.TYPES})
def reserve_ends_expired_leases_of_types_it_did_not_request(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    assert_equal(h.reserve(types={"other"}), [], "reserved")
    assert_equal(h.state(reservation.job.id), State.READY, "the expired job of another type")


@case("L3", needs={Feature.LEDGER, Feature.TYPES})
def one_reserve_ends_at_most_1000_expired_leases(h: Harness) -> None:
    h.enqueue(*[h.job() for _ in range(REAP_LIMIT + 1)])
    reservations = h.reserve(REAP_LIMIT + 1)
    h.must_extend(reservations[0].lease, lease_for=LEASE + 1)  # reserved first, but expires last
    h.advance(LEASE + 1)
    h.reserve(1, types={"other"})
    ended = h.ledger()
    assert_equal(len(ended), REAP_LIMIT, "leases ended by one reserve")
    assert_equal({row.ending for row in ended}, {Ending.EXPIRED}, "endings")
    assert_equal(h.state(reservations[0].job.id), State.INFLIGHT, "the lease that expired last")


@case("L3")
def a_lease_may_be_one_microsecond_long(h: Harness) -> None:
    reservation = h.reserve_new_job(lease_for=1)
    assert_equal(reservation.lease.expires_at, h.now + 1, "expires_at")
    h.must_settle(Ack(reservation.lease))


@case("L3")
def the_worker_name_may_be_empty(h: Harness) -> None:
    reservation = h.reserve_new_job(worker="")
    assert_equal(h.inspect(reservation.job.id).worker, "", "worker")


@case("L3")
def a_job_that_is_ready_again_has_no_lease(h: Harness) -> None:
    reservation = h.reserve_new_job(worker=WORKER)
    h.must_settle(Retry(reservation.lease))
    inspection = h.inspect(reservation.job.id)
    assert_equal(
        (inspection.worker, inspection.fence, inspection.expires_at, inspection.reserved_at),
        ("", None, None, None),
        "its lease",
    )
