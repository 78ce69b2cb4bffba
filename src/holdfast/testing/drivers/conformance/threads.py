"""Races between threads of one process: exactly one wins, every time."""

from __future__ import annotations

from collections import Counter
from functools import partial

from holdfast.drivers.contract import Feature, QueueSettings
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal
from holdfast.testing.drivers.conformance.settle import VERBS
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

THREADS = 4


@case("L3")
def threads_that_reserve_one_backlog_get_each_job_once(h: Harness) -> None:
    jobs = [h.job() for _ in range(60)]
    h.enqueue(*jobs)
    stores = [h.another() for _ in range(THREADS)]

    def drain(number: int) -> list[Reservation]:
        taken: list[Reservation] = []
        while found := stores[number].reserve([QUEUE], limit=3, lease_for=LEASE, now=h.stamp):
            taken += found
        return taken

    answers = h.together(*[partial(drain, number) for number in range(THREADS)])
    taken = [held for answer in answers for held in answer]
    equal(Counter(held.job.id for held in taken), Counter(job.id for job in jobs), "how often each job was taken")
    equal(len({held.lease.fence for held in taken}), len(jobs), "different fences")


@case("L5", "L6")
def of_threads_that_settle_one_lease_differently_one_wins(h: Harness) -> None:
    for _ in range(5):
        held = h.held()
        stores = [h.another() for _ in VERBS]
        acts = [
            partial(store.settle, [make(held.lease)], now=h.stamp)
            for store, make in zip(stores, VERBS.values(), strict=True)
        ]
        answers = [answer for [answer] in h.together(*acts)]
        equal(sum(answer is None for answer in answers), 1, "settlements that were accepted")
        winner = list(VERBS)[answers.index(None)]
        states = {"ack": State.DONE, "fail": State.DEAD, "retry": State.READY, "release": State.READY}
        equal(h.state(held.job.id), states[winner], f"the state after {winner} won")
        if h.state(held.job.id) is State.READY:
            h.cancel(held.job.id)


@case("L6", "L13")
def of_threads_that_settle_one_lease_alike_all_are_answered_alike(h: Harness) -> None:
    held = h.held()
    stores = [h.another() for _ in range(THREADS)]
    answers = h.together(*[partial(store.settle, [Retry(held.lease)], now=h.stamp) for store in stores])
    equal(answers, [[None]] * THREADS, "the answers")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L12", needs={Feature.IDEMPOTENCY})
def threads_that_enqueue_one_key_make_one_job(h: Harness) -> None:
    for number in range(5):
        key = f"k{number}"
        jobs = [h.job(idempotency_key=key, queue=key) for _ in range(THREADS)]
        stores = [h.another() for _ in jobs]
        answers: list[list[Enqueued]] = h.together(
            *[partial(store.enqueue, [job], now=h.stamp) for store, job in zip(stores, jobs, strict=True)]
        )
        found = [answer for [answer] in answers]
        equal(sum(not answer.existed for answer in found), 1, "new jobs")
        equal(len({answer.id for answer in found}), 1, "different ids told")
        equal(len(h.reserve(10, queues=[key])), 1, "jobs to run")


@case("L6")
def threads_that_enqueue_one_id_make_one_job(h: Harness) -> None:
    job = h.job()
    stores = [h.another() for _ in range(THREADS)]
    answers = h.together(*[partial(store.enqueue, [job], now=h.stamp) for store in stores])
    equal(sum(not answer.existed for [answer] in answers), 1, "new jobs")
    equal(h.taken(10), [job.id], "the jobs to run")


@case("L11", needs={Feature.DOMAINS})
def threads_never_hold_two_jobs_of_a_domain(h: Harness) -> None:
    jobs = [h.job(domain="d") for _ in range(20)]
    h.enqueue(*jobs)
    stores = [h.another() for _ in range(THREADS)]
    ran: list[str] = []

    def work(number: int) -> None:
        store = stores[number]
        for _ in range(1000):
            for held in store.reserve([QUEUE], limit=5, lease_for=LEASE, now=h.stamp):
                ran.append(held.job.id)  # ordered by the domain itself: nobody else holds a job of it
                store.settle([Ack(held.lease)], now=h.stamp)
            if len(ran) == len(jobs):
                return

    h.together(*[partial(work, number) for number in range(THREADS)])
    equal(ran, [job.id for job in jobs], "the order in which they ran")


@case("L12", needs={Feature.REGISTRY})
def threads_that_count_by_compare_and_set_lose_nothing(h: Harness) -> None:
    stores = [h.another() for _ in range(THREADS)]
    rounds = 10

    def count(number: int) -> None:
        store, done = stores[number], 0
        while done < rounds:
            [entry] = store.read("kind", ["counter"], now=h.stamp)
            value = 0 if entry is None or entry.value is None else int(entry.value)
            version = 0 if entry is None else entry.version
            change = Change(kind="kind", key="counter", value=b"%d" % (value + 1), version=version)
            done += store.write([change], now=h.stamp)[0] is not None

    h.together(*[partial(count, number) for number in range(THREADS)])
    [entry] = h.store.read("kind", ["counter"], now=h.stamp)
    assert entry is not None, "wanted the counter written"
    equal(entry.value, b"%d" % (THREADS * rounds), "the counter")


@case("L3", "L7")
def threads_that_reserve_an_expired_job_get_it_once(h: Harness) -> None:
    held = h.held()
    h.advance(LEASE)
    stores = [h.another() for _ in range(THREADS)]
    answers = h.together(*[partial(store.reserve, [QUEUE], limit=1, lease_for=LEASE, now=h.stamp) for store in stores])
    equal([found.job.id for answer in answers for found in answer], [held.job.id], "who got it")
    equal(h.get(held.job.id).attempts, 2, "attempts")


@case("L3", needs={Feature.LIMITS})
def threads_never_exceed_max_inflight(h: Harness) -> None:
    h.store.configure(QUEUE, QueueSettings(max_inflight=3))
    h.enqueue(*[h.job() for _ in range(20)])
    stores = [h.another() for _ in range(THREADS)]
    answers = h.together(*[partial(store.reserve, [QUEUE], limit=2, lease_for=LEASE, now=h.stamp) for store in stores])
    equal(sum(len(answer) for answer in answers), 3, "jobs in flight")


@case("L9")
def threads_that_requeue_one_dead_letter_do_it_once(h: Harness) -> None:
    held = h.held()
    h.settled(Fail(held.lease, reason="no"))
    stores = [h.another() for _ in range(THREADS)]
    answers = h.together(*[partial(store.requeue, [held.job.id], now=h.stamp) for store in stores])
    equal(sum(answer for [answer] in answers), 1, "requeued")
    equal(h.taken(10), [held.job.id], "the jobs to run")


@case("L4", "L8")
def fences_grow_however_many_threads_ask(h: Harness) -> None:
    stores = [h.another() for _ in range(THREADS)]
    for number in range(THREADS):
        h.put(queue=f"q{number}")

    def turn(number: int) -> list[int]:
        fences = []
        for _ in range(10):
            [held] = stores[number].reserve([f"q{number}"], limit=1, lease_for=LEASE, now=h.stamp)
            stores[number].settle([Release(held.lease)], now=h.stamp)
            fences.append(held.lease.fence)
        return fences

    answers = h.together(*[partial(turn, number) for number in range(THREADS)])
    for fences in answers:
        assert fences == sorted(fences), f"wanted growing fences in every thread, got {fences}"
    equal(len({fence for fences in answers for fence in fences}), 10 * THREADS, "different fences")
