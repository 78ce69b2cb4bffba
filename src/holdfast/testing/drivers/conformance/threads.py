"""Races between threads of one process: exactly one thread wins."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure, Read, Requeue, Write
from holdfast.model.job import State
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.model.unique import WHILE_QUEUED
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.settle import SETTLEMENTS
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

THREADS = 4


@case("L3")
def threads_that_reserve_from_one_queue_get_each_job_once(h: Harness) -> None:
    jobs = [h.job() for _ in range(60)]
    h.enqueue(*jobs)
    stores = [h.connect_again() for _ in range(THREADS)]

    def drain(number: int) -> list[Reservation]:
        reserved: list[Reservation] = []
        while reservations := stores[number].reserve([QUEUE], limit=3, lease_for=LEASE, now=h.now_or_none):
            reserved += reservations
        return reserved

    answers = h.run_concurrently(*[partial(drain, number) for number in range(THREADS)])
    reserved = [reservation for answer in answers for reservation in answer]
    assert_equal(
        Counter(reservation.job.id for reservation in reserved),
        Counter(job.id for job in jobs),
        "how often each job was reserved",
    )
    assert_equal(len({reservation.lease.fence for reservation in reserved}), len(jobs), "different fences")


@case("L5", "L6", needs={Feature.JOBS})
def of_threads_that_settle_one_lease_with_different_verbs_one_wins(h: Harness) -> None:
    for _ in range(5):
        reservation = h.reserve_new_job()
        stores = [h.connect_again() for _ in SETTLEMENTS]
        calls = [
            partial(store.settle, [make(reservation.lease)], now=h.now_or_none)
            for store, make in zip(stores, SETTLEMENTS.values(), strict=True)
        ]
        answers = [answer for [answer] in h.run_concurrently(*calls)]
        assert_equal(sum(answer is None for answer in answers), 1, "settlements that were accepted")
        winner = list(SETTLEMENTS)[answers.index(None)]
        states = {"ack": State.DONE, "fail": State.DEAD, "retry": State.READY, "release": State.READY}
        assert_equal(h.state(reservation.job.id), states[winner], f"the state after {winner} won")
        if h.state(reservation.job.id) is State.READY:
            h.cancel(reservation.job.id)


@case("L6", "L13")
def threads_that_repeat_the_same_settlement_all_get_the_same_answer(h: Harness) -> None:
    reservation = h.reserve_new_job()
    stores = [h.connect_again() for _ in range(THREADS)]
    answers = h.run_concurrently(
        *[partial(store.settle, [Retry(reservation.lease)], now=h.now_or_none) for store in stores]
    )
    assert_equal(answers, [[None]] * THREADS, "the answers")
    assert len(h.ledger()) <= 1, f"wanted one ledger row, got {len(h.ledger())}"


@case("L12", needs={Feature.KEY})
def threads_that_enqueue_one_key_make_one_job(h: Harness) -> None:
    for number in range(5):
        key = f"k{number}"
        jobs = [h.job(idempotency_key=key, queue=key) for _ in range(THREADS)]
        stores = [h.connect_again() for _ in jobs]
        answers: list[list[Enqueued]] = h.run_concurrently(
            *[partial(store.enqueue, [job], now=h.now_or_none) for store, job in zip(stores, jobs, strict=True)]
        )
        enqueued = [answer for [answer] in answers]
        assert_equal(sum(not answer.existed for answer in enqueued), 1, "new jobs")
        assert_equal(len({answer.id for answer in enqueued}), 1, "different ids")
        assert_equal(len(h.reserve(10, queues=[key])), 1, "jobs reserved")


@case("L12", needs={Feature.KEY, Feature.LIMITS})
def threads_that_enqueue_one_key_make_one_job_whatever_its_window(h: Harness) -> None:
    """Each thread begins after the window of the one before it: only the open job still holds the key."""
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(dedupe_window=1)))
    stores = [h.connect_again() for _ in range(THREADS)]
    for number in range(40):
        jobs = [h.job(idempotency_key=f"k{number}") for _ in stores]
        answers: list[list[Enqueued]] = h.run_concurrently(
            *[
                partial(store.enqueue, [job], now=h.now + 10 * later)
                for later, (store, job) in enumerate(zip(stores, jobs, strict=True))
            ]
        )
        assert_equal(sum(not answer.existed for [answer] in answers), 1, f"new jobs of key {number}")
        h.advance(100)


@case("L12", needs={Feature.KEY})
def threads_that_enqueue_one_key_while_queued_make_one_job_beside_the_running_one(h: Harness) -> None:
    stores = [h.connect_again() for _ in range(THREADS)]
    for number in range(10):
        key: dict[str, Any] = {"idempotency_key": f"k{number}", "unique_for": WHILE_QUEUED}
        running = h.reserve_new_job(**key)
        answers: list[list[Enqueued]] = h.run_concurrently(
            *[partial(store.enqueue, [h.job(**key)], now=h.now_or_none) for store in stores]
        )
        enqueued = [answer for [answer] in answers]
        assert_equal(sum(not answer.existed for answer in enqueued), 1, f"new jobs of key {number}")
        [new_id] = {answer.id for answer in enqueued}
        [reservation] = h.reserve(10)
        assert_equal(reservation.job.id, new_id, "the job reserved")
        h.must_settle(Ack(running.lease), Ack(reservation.lease))


@case("L6")
def threads_that_enqueue_one_id_make_one_job(h: Harness) -> None:
    job = h.job()
    stores = [h.connect_again() for _ in range(THREADS)]
    answers = h.run_concurrently(*[partial(store.enqueue, [job], now=h.now_or_none) for store in stores])
    assert_equal(sum(not answer.existed for [answer] in answers), 1, "new jobs")
    assert_equal(h.reserve_ids(10), [job.id], "the jobs reserved")


@case("L11", needs={Feature.DOMAIN})
def threads_never_hold_two_jobs_of_a_domain(h: Harness) -> None:
    jobs = [h.job(domain="d") for _ in range(20)]
    h.enqueue(*jobs)
    stores = [h.connect_again() for _ in range(THREADS)]
    ran: list[str] = []

    def work(number: int) -> None:
        store = stores[number]
        for _ in range(1000):
            for reservation in store.reserve([QUEUE], limit=5, lease_for=LEASE, now=h.now_or_none):
                ran.append(reservation.job.id)  # no lock needed: no other thread has a job of this domain in flight
                store.settle([Ack(reservation.lease)], now=h.now_or_none)
            if len(ran) == len(jobs):
                return

    h.run_concurrently(*[partial(work, number) for number in range(THREADS)])
    assert_equal(ran, [job.id for job in jobs], "the order in which they ran")


@case("L12", needs={Feature.REGISTRY})
def threads_that_increment_a_counter_by_compare_and_set_lose_no_update(h: Harness) -> None:
    stores = [h.connect_again() for _ in range(THREADS)]
    rounds = 10

    def count(number: int) -> None:
        store, done = stores[number], 0
        while done < rounds:
            [entry] = store.do(Read(kind="kind", keys=["counter"], now=h.now_or_none))
            value = 0 if entry is None or entry.value is None else int(entry.value)
            version = 0 if entry is None else entry.version
            change = Change(kind="kind", key="counter", value=b"%d" % (value + 1), version=version)
            done += store.do(Write(changes=[change], now=h.now_or_none))[0] is not None

    h.run_concurrently(*[partial(count, number) for number in range(THREADS)])
    [entry] = h.store.do(Read(kind="kind", keys=["counter"], now=h.now_or_none))
    assert entry is not None, "wanted the counter written"
    assert_equal(entry.value, b"%d" % (THREADS * rounds), "the counter")


@case("L3", "L7")
def of_threads_that_reserve_an_expired_job_one_gets_it(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(LEASE)
    stores = [h.connect_again() for _ in range(THREADS)]
    answers = h.run_concurrently(
        *[partial(store.reserve, [QUEUE], limit=1, lease_for=LEASE, now=h.now_or_none) for store in stores]
    )
    assert_equal([again.job.id for answer in answers for again in answer], [reservation.job.id], "the reserved jobs")
    assert_equal(h.get(reservation.job.id).attempts, 2, "attempts")


@case("L3", needs={Feature.LIMITS})
def threads_never_exceed_max_inflight(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(max_inflight=3)))
    h.enqueue(*[h.job() for _ in range(20)])
    stores = [h.connect_again() for _ in range(THREADS)]
    answers = h.run_concurrently(
        *[partial(store.reserve, [QUEUE], limit=2, lease_for=LEASE, now=h.now_or_none) for store in stores]
    )
    assert_equal(sum(len(answer) for answer in answers), 3, "jobs in flight")


@case("L9", needs={Feature.JOBS})
def threads_that_requeue_one_dead_letter_requeue_it_once(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Fail(reservation.lease, reason="no"))
    stores = [h.connect_again() for _ in range(THREADS)]
    request = Requeue(job_ids=[reservation.job.id], now=h.now_or_none)
    answers = h.run_concurrently(*[partial(store.do, request) for store in stores])
    assert_equal(sum(answer for [answer] in answers), 1, "requeued")
    assert_equal(h.reserve_ids(10), [reservation.job.id], "the jobs reserved")


@case("L4", "L8")
def fences_grow_in_every_thread(h: Harness) -> None:
    stores = [h.connect_again() for _ in range(THREADS)]
    for number in range(THREADS):
        h.enqueue_job(queue=f"q{number}")

    def reserve_and_release(number: int) -> list[int]:
        fences = []
        for _ in range(10):
            [reservation] = stores[number].reserve([f"q{number}"], limit=1, lease_for=LEASE, now=h.now_or_none)
            stores[number].settle([Release(reservation.lease)], now=h.now_or_none)
            fences.append(reservation.lease.fence)
        return fences

    answers = h.run_concurrently(*[partial(reserve_and_release, number) for number in range(THREADS)])
    for fences in answers:
        assert fences == sorted(fences), f"wanted growing fences in every thread, got {fences}"
    assert_equal(len({fence for fences in answers for fence in fences}), 10 * THREADS, "different fences")
