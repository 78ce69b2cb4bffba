"""Taking jobs (L3, L4, L7)."""

from __future__ import annotations

import re
from dataclasses import replace

from holdfast.clock import SECOND
from holdfast.drivers.contract import REAP_LIMIT, Feature
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.harness import LEASE, QUEUE, WORKER, Harness


@case("L3", "L7")
def a_reserved_job_is_in_flight_and_its_attempt_counted(h: Harness) -> None:
    job = h.put()
    h.advance(SECOND)
    held = h.take()
    equal(held.job, replace(job, state=State.INFLIGHT, attempts=1), "the reserved job")
    equal(h.get(job.id), held.job, "the stored job")
    equal(held.lease.job_id, job.id, "the lease's job")
    equal(held.lease.expires_at, h.now + LEASE, "expires_at")
    assert not held.lease.cancel_requested, "wanted a fresh lease without a cancel request"
    equal(held.checkpoint, None, "checkpoint")


@case("L3")
def a_lease_can_be_inspected(h: Harness) -> None:
    held = h.held(worker="worker ü")
    found = h.inspect(held.job.id)
    equal(found.worker, "worker ü", "worker")
    equal(found.fence, held.lease.fence, "fence")
    equal(found.reserved_at, h.now, "reserved_at")
    equal(found.expires_at, held.lease.expires_at, "expires_at")


@case("L3")
def a_job_with_a_valid_lease_is_never_given_again(h: Harness) -> None:
    held = h.held()
    equal(h.reserve(5), [], "a second reserve")
    equal(h.another().reserve([QUEUE], limit=5, lease_for=LEASE, now=h.stamp), [], "a reserve by another connection")
    h.advance_to(held.lease.expires_at - 1)
    equal(h.reserve(5), [], "a reserve just before the lease ends")


@case("L3")
def no_more_than_the_limit_is_given(h: Harness) -> None:
    jobs = [h.put() for _ in range(5)]
    equal(h.taken(2), [jobs[0].id, jobs[1].id], "the first two")
    equal(h.taken(10), [job.id for job in jobs[2:]], "the rest")


@case("L3")
def an_empty_queue_gives_nothing(h: Harness) -> None:
    equal(h.reserve(5), [], "a reserve of an empty queue")


@case("L3")
def only_the_named_queues_are_asked(h: Harness) -> None:
    mine, other = h.put(queue="a"), h.put(queue="b")
    equal(h.taken(5, queues=["a", "c"]), [mine.id], "jobs of queue a")
    equal(h.state(other.id), State.READY, "the job of queue b")


@case("L3")
def a_queue_named_twice_is_asked_once(h: Harness) -> None:
    first, second = h.put(), h.put()
    equal(h.taken(5, queues=[QUEUE, QUEUE]), [first.id, second.id], "the jobs")


@case("L3", needs={Feature.TYPES})
def only_the_asked_types_are_given(h: Harness) -> None:
    h.put(type="a")
    wanted = [h.put(type="b").id, h.put(type="c").id]
    equal(h.taken(5, types=["c", "b", "unknown"]), wanted, "jobs of types b and c")
    equal(h.reserve(5, types={"unknown"}), [], "jobs of an unknown type")


@case("L4")
def a_token_is_its_fence_and_128_random_bits(h: Harness) -> None:
    for _ in range(3):
        h.put()
    for held in h.reserve(3):
        token = held.lease.token
        assert re.fullmatch(r"[0-9]+\.[0-9a-f]{32}", token), f"wanted <fence>.<32 hex>, got {token!r}"
        equal(int(token.split(".")[0]), held.lease.fence, "the fence in the token")


@case("L4")
def every_reservation_has_a_token_of_its_own(h: Harness) -> None:
    for _ in range(20):
        h.put()
    leases = [held.lease for held in h.reserve(20)]
    equal(len({lease.token.split(".")[1] for lease in leases}), 20, "different random parts")
    equal(len({lease.fence for lease in leases}), 20, "different fences")


@case("L4")
def the_token_of_a_later_reservation_is_another(h: Harness) -> None:
    held = h.held()
    h.settled(Release(held.lease))
    again = h.take()
    assert again.lease.token != held.lease.token, "wanted another token"
    assert again.lease.token.split(".")[1] != held.lease.token.split(".")[1], "wanted other random bits"


@case("L4")
def fences_grow_from_reservation_to_reservation(h: Harness) -> None:
    for queue in ("a", "b", "a", "b"):
        h.put(queue=queue)
    fences = [h.take(queues=[queue]).lease.fence for queue in ("b", "a", "a", "b")]
    assert fences == sorted(set(fences)), f"wanted growing fences over all queues, got {fences}"


@case("L4")
def fences_grow_through_every_kind_of_ending(h: Harness) -> None:
    job_id, fences = h.put().id, []
    for ending in (Retry, Release, None, Retry):
        held = h.take()
        fences.append(held.lease.fence)
        if ending is None:
            h.lapse()
        else:
            h.settled(ending(held.lease))
    held = h.take()
    h.settled(Fail(held.lease, reason="no"))
    h.requeue(job_id)
    fences += [held.lease.fence, h.take().lease.fence]
    assert fences == sorted(set(fences)), f"wanted growing fences, got {fences}"


@case("L4")
def fences_grow_over_connections(h: Harness) -> None:
    for _ in range(4):
        h.put()
    fences = []
    for _ in range(2):
        for store in (h.store, h.another()):
            [held] = store.reserve([QUEUE], limit=1, lease_for=LEASE, now=h.stamp)
            fences.append(held.lease.fence)
    assert fences == sorted(set(fences)), f"wanted growing fences, got {fences}"


@case("L4")
def fences_grow_inside_one_batch(h: Harness) -> None:
    for _ in range(5):
        h.put()
    fences = [held.lease.fence for held in h.reserve(5)]
    assert fences == sorted(set(fences)), f"wanted growing fences in the order of the answer, got {fences}"


@case("L7")
def every_reservation_counts_one_attempt(h: Harness) -> None:
    h.put()
    for attempt in (1, 2, 3):
        held = h.take()
        equal(held.job.attempts, attempt, "attempts")
        h.settled(Retry(held.lease))
        equal(h.get(held.job.id).attempts, attempt, "attempts after the retry")


@case("L3")
def an_expired_job_is_given_again_by_the_same_call_that_ends_its_lease(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    again = h.take()
    equal(again.job.id, held.job.id, "the job")
    equal((again.job.attempts, again.job.crashes), (2, 1), "attempts and crashes")


@case("L3")
def a_reserve_ends_expired_leases_only_in_its_queues(h: Harness) -> None:
    other = h.held(queue="other")
    h.advance(LEASE)
    h.reserve(queues=["q"])
    equal(h.state(other.job.id), State.INFLIGHT, "the expired job of a queue nobody asked for")


@case("L3", needs={Feature.TYPES})
def a_reserve_ends_expired_leases_of_types_it_does_not_want(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    equal(h.reserve(types={"other"}), [], "reserved")
    equal(h.state(held.job.id), State.READY, "the expired job of another type")


@case("L3", needs={Feature.LEDGER})
def a_reserve_ends_a_bounded_number_of_expired_leases(h: Harness) -> None:
    h.enqueue(*[h.job() for _ in range(REAP_LIMIT + 1)])
    held = h.reserve(REAP_LIMIT + 1)
    h.extended(held[0].lease, lease_for=LEASE + 1)  # the youngest expiry, though it was reserved first
    h.advance(LEASE + 1)
    h.reserve(1, types={"other"})
    ended = h.ledger()
    equal(len(ended), REAP_LIMIT, "leases ended by one reserve")
    equal({row.ending for row in ended}, {Ending.EXPIRED}, "endings")
    equal(h.state(held[0].job.id), State.INFLIGHT, "the lease that expired last")


@case("L3")
def a_lease_may_be_as_short_as_a_microsecond(h: Harness) -> None:
    held = h.held(lease_for=1)
    equal(held.lease.expires_at, h.now + 1, "expires_at")
    h.settled(Ack(held.lease))


@case("L3")
def a_worker_need_not_have_a_name(h: Harness) -> None:
    held = h.held(worker="")
    equal(h.inspect(held.job.id).worker, "", "worker")


@case("L3")
def a_job_that_waits_again_has_no_lease_to_inspect(h: Harness) -> None:
    held = h.held(worker=WORKER)
    h.settled(Retry(held.lease))
    found = h.inspect(held.job.id)
    equal((found.worker, found.fence, found.expires_at, found.reserved_at), ("", None, None, None), "its lease")
