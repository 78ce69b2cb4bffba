"""Ending expired leases."""

from __future__ import annotations

from holdfast.clock import SECOND
from holdfast.errors import JobNotInflight
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, refused
from holdfast.testing.drivers.conformance.settle import VERBS
from holdfast.testing.drivers.harness import LEASE, Harness


@case("L7")
def a_reap_says_how_many_leases_it_ended(h: Harness) -> None:
    for _ in range(3):
        h.held()
    equal(h.reap(), 0, "reaped while they are valid")
    h.advance(LEASE)
    equal(h.reap(), 3, "reaped when they are over")
    equal(h.reap(), 0, "reaped again")


@case("L7")
def a_reap_of_nothing_ends_nothing(h: Harness) -> None:
    equal(h.reap(), 0, "reaped")
    equal(h.reap(["unknown"]), 0, "reaped in an unknown queue")


@case("L2")
def a_reap_ends_only_what_has_expired(h: Harness) -> None:
    short, long = h.held(lease_for=10), h.held(lease_for=11)
    h.advance(10)
    equal(h.reap(), 1, "reaped")
    equal((h.state(short.job.id), h.state(long.job.id)), (State.READY, State.INFLIGHT), "the states")
    h.settled(Ack(long.lease))


@case("L7")
def a_reap_leaves_waiting_and_ended_jobs_alone(h: Harness) -> None:
    h.put(queue="other")
    for make in VERBS.values():
        h.settled(make(h.held().lease))
        h.cancel(*[job.id for job in h.store.find().items if job.queue == "q" and job.state is State.READY])
    h.advance(2 * LEASE)
    with h.unchanged():
        equal(h.reap(), 0, "reaped")


@case("L3")
def a_reap_begins_with_the_oldest_expiry(h: Harness) -> None:
    last, first, middle = h.held(lease_for=30), h.held(lease_for=10), h.held(lease_for=20)
    h.advance(SECOND)
    states = []
    for _ in range(3):
        equal(h.reap(limit=1), 1, "reaped")
        states.append([h.state(held.job.id) for held in (first, middle, last)])
    ready, inflight = State.READY, State.INFLIGHT
    equal(states, [[ready, inflight, inflight], [ready, ready, inflight], [ready] * 3], "the states, step by step")


@case("L3")
def a_reap_begins_with_the_oldest_expiry_over_all_queues(h: Harness) -> None:
    young, old = h.held(queue="a", lease_for=20), h.held(queue="b", lease_for=10)
    h.advance(SECOND)
    equal(h.reap(["a", "b"], limit=1), 1, "reaped")
    equal((h.state(young.job.id), h.state(old.job.id)), (State.INFLIGHT, State.READY), "the states")


@case("L3")
def a_reap_keeps_to_its_limit(h: Harness) -> None:
    for _ in range(5):
        h.held()
    h.advance(LEASE)
    equal([h.reap(limit=2) for _ in range(4)], [2, 2, 1, 0], "reaped, call by call")


@case("L3")
def a_reap_keeps_to_its_queues(h: Harness) -> None:
    for queue in ("a", "b", "c"):
        h.held(queue=queue)
    h.advance(LEASE)
    equal(h.reap(["a", "c"]), 2, "reaped in two queues")
    equal(h.reap(), 1, "reaped in all the others")


@case("L7")
def a_reap_for_a_dead_worker_ends_its_valid_leases_and_no_others(h: Harness) -> None:
    mine, other, nobody = h.held(worker="dead"), h.held(worker="alive"), h.held(worker="")
    h.advance(SECOND)
    equal(h.reap(worker="dead"), 1, "reaped")
    states = [h.state(held.job.id) for held in (mine, other, nobody)]
    equal(states, [State.READY, State.INFLIGHT, State.INFLIGHT], "the states")
    job = h.get(mine.job.id)
    equal((job.attempts, job.crashes), (1, 1), "attempts and crashes")
    refused(h.settle(Ack(mine.lease)), JobNotInflight)
    h.settled(Ack(other.lease), Ack(nobody.lease))


@case("L7")
def a_reap_for_a_dead_worker_ends_its_expired_leases_too(h: Harness) -> None:
    mine, other = h.held(worker="dead"), h.held(worker="alive")
    h.advance(LEASE)
    equal(h.reap(worker="dead"), 1, "reaped")
    equal((h.state(mine.job.id), h.state(other.job.id)), (State.READY, State.INFLIGHT), "the states")
    equal(h.inspect(mine.job.id).available_at, mine.lease.expires_at, "available_at")


@case("L7")
def a_reap_for_a_dead_worker_keeps_to_its_queues_and_limit(h: Harness) -> None:
    for queue in ("a", "a", "b"):
        h.held(queue=queue, worker="dead")
    equal(h.reap(["a"], worker="dead", limit=1), 1, "reaped")
    equal(h.reap(["a"], worker="dead"), 1, "reaped in queue a")
    equal(h.reap(worker="dead"), 1, "reaped in the others")


@case("L7")
def a_dead_worker_no_longer_owns_what_it_gave_back(h: Harness) -> None:
    held = h.held(worker="dead")
    h.settled(Retry(held.lease))
    again = h.take(worker="alive")
    equal(h.reap(worker="dead"), 0, "reaped")
    h.settled(Ack(again.lease))


@case("L5")
def a_reaped_lease_is_refused(h: Harness) -> None:
    held = h.held()
    h.lapse()
    with h.unchanged():
        refused(h.extend(held.lease), JobNotInflight)
        for make in VERBS.values():
            refused(h.settle(make(held.lease)), JobNotInflight)


@case("L7")
def a_reaped_job_can_be_reserved_at_once(h: Harness) -> None:
    held = h.held()
    h.lapse()
    again = h.take()
    equal((again.job.id, again.job.attempts), (held.job.id, 2), "the job and its attempts")
