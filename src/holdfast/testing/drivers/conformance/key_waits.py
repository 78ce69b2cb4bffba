"""Jobs that wait for their limit key: what operators see and do, races, and ``wait``."""

from __future__ import annotations

import threading
from functools import partial

from holdfast.clock import HOUR, MINUTE, SECOND, monotonic
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import AnyOpen, Configure
from holdfast.drivers.store import Store
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import QueueSettings
from holdfast.model.settlement import Ack, Retry
from holdfast.testing.drivers.conformance.assertions import assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.key_limits import KEY_LIMITS, configure_keys, fill, reserve_some
from holdfast.testing.drivers.harness import LEASE, QUEUE, TYPE, Harness

THREADS = 4


def _wait_for_key(h: Harness, count: int = 2) -> tuple[Reservation, list[str]]:
    """Return a job in flight, and the jobs that wait for its key."""
    configure_keys(h, max_inflight=1)
    jobs = fill(h, "a", count)
    running = h.reserve_one(lease_for=HOUR)
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    return running, jobs[1:]


@case("L9", needs=KEY_LIMITS | {Feature.JOBS})
def a_job_that_waits_for_its_key_is_shown_as_ready_since_it_was_due(h: Harness) -> None:
    since = h.now
    _, [waiting] = _wait_for_key(h)
    h.advance(MINUTE)
    assert_equal(h.reserve(5), [], "reserved while the key is still full")
    inspection = h.inspect(waiting)
    assert_equal((inspection.job.state, inspection.available_at), (State.READY, since), "state and available_at")
    assert_equal([job.id for job in h.store.find().items if job.state is State.READY], [waiting], "ready jobs")
    counts = h.store.counts(now=h.now_or_none)
    assert_equal(counts, [QueueCounts(queue=QUEUE, type=TYPE, ready=1, inflight=1)], "the counts")
    assert_equal(counts[0].oldest_ready_age, MINUTE, "the age of the oldest ready job")
    assert h.store.do(AnyOpen(queues=[QUEUE], types=[TYPE])), "wanted an open job"


@case("L9", "L13", needs=KEY_LIMITS | {Feature.LEDGER, Feature.JOBS})
def the_ledger_says_since_when_a_job_was_due_that_waited_for_its_key(h: Harness) -> None:
    since = h.now
    running, [second, third] = _wait_for_key(h, 3)
    h.advance(MINUTE)
    h.cancel(third)
    h.must_settle(Ack(running.lease))
    h.must_settle(Ack(h.reserve_one().lease))
    rows = {row.job_id: (row.ending, row.available_at) for row in h.ledger()}
    assert_equal(rows[second], (Ending.ACKED, since), "the row of the job that ran")
    assert_equal(rows[third], (Ending.CANCELLED, since), "the row of the job that was cancelled")
    assert_equal(h.inspect(third).available_at, since, "available_at of the cancelled job")


@case("L9", "L10", needs=KEY_LIMITS | {Feature.JOBS})
def a_job_that_waits_for_its_key_can_be_cancelled_and_requeued(h: Harness) -> None:
    running, [second, third, fourth] = _wait_for_key(h, 4)
    assert_equal(h.cancel(second), [State.CANCELLED], "the cancel")
    h.must_settle(Ack(running.lease))
    h.advance(1)
    assert_equal(h.requeue(second), [True], "the requeue")
    for job in (third, fourth, second):
        reservation = h.reserve_one()
        assert_equal(reservation.job.id, job, "the next")
        h.must_settle(Ack(reservation.lease))


@case("L3", "L9", needs=KEY_LIMITS | {Feature.JOBS})
def a_cancel_of_the_next_job_of_a_key_lets_the_one_behind_it_run(h: Harness) -> None:
    running, [second, third] = _wait_for_key(h, 3)
    h.must_settle(Ack(running.lease))
    assert_equal(h.reserve(5, queues=["other"]), [], "reserved from another queue")
    assert_equal(h.cancel(second), [State.CANCELLED], "the cancel")
    assert_equal(h.reserve_ids(5), [third], "reserved")


@case("L3", "L9", needs=KEY_LIMITS | {Feature.JOBS})
def a_cancel_of_a_job_that_the_last_reserve_left_lets_the_one_behind_it_run(h: Harness) -> None:
    configure_keys(h, max_inflight=2)
    jobs = fill(h, "a", 6)
    first = h.reserve(2)
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    h.must_settle(*[Ack(one.lease) for one in first])
    [third] = reserve_some(h, 1, limit=1)
    assert_equal(third.job.id, jobs[2], "the next; one more is allowed")
    h.cancel(jobs[3])
    assert_equal(h.reserve_ids(5), jobs[4:5], "reserved: the one behind the cancelled job")
    h.must_settle(Ack(third.lease))
    assert_equal(h.reserve_ids(5), jobs[5:], "the last")


@case("L3", "L7", needs=KEY_LIMITS)
def a_crash_that_is_taken_back_keeps_the_place_of_a_job_that_waits_for_its_key(h: Harness) -> None:
    configure_keys(h, max_inflight=1)
    fill(h, "a", 2)
    lost = h.reserve_one()
    h.advance(LEASE)
    [running] = reserve_some(h, 1, limit=5)
    assert running.job.id != lost.job.id, "wanted the other job first: it is older than the end of the lease"
    assert_equal(h.reserve(5), [], "reserved while the key is full")
    assert_equal(h.report_outage(lost.lease), [True], "the outage")
    h.must_settle(Ack(running.lease))
    again = h.reserve_one()
    assert_equal((again.job.id, again.job.crashes, again.isolated), (lost.job.id, 0, False), "the job, as any other")


@case("L3", needs=KEY_LIMITS)
def threads_that_reserve_together_never_exceed_the_limit_of_a_key(h: Harness) -> None:
    configure_keys(h, max_inflight=2)
    keys = ["a", "b", "c", None]
    jobs = [h.job(limit_key=keys[number % len(keys)]) for number in range(80)]
    h.enqueue(*jobs)
    seen: list[str] = []
    running: list[Reservation] = []
    stores = [h.connect_again() for _ in range(THREADS)]

    def reserve(store: Store) -> list[Reservation]:
        return store.reserve([QUEUE], limit=4, lease_for=LEASE, now=h.now_or_none)

    for _ in range(40):
        running += [
            one for answer in h.run_concurrently(*[partial(reserve, store) for store in stores]) for one in answer
        ]
        for key in keys[:3]:
            count = sum(one.job.limit_key == key for one in running)
            assert count <= 2, f"wanted at most 2 jobs of {key} in flight, got {count}"
        seen += [one.job.id for one in running]
        leases, running = [one.lease for one in running], []
        h.must_settle(*[Ack(lease) for lease in leases])
        if len(seen) == len(jobs):
            break
    assert_equal(sorted(seen), [job.id for job in jobs], "the jobs that ran, each once")


@case("L3", needs=KEY_LIMITS)
def threads_that_reserve_and_settle_at_once_leave_no_job_of_a_key_behind(h: Harness) -> None:
    h.store.do(Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=1)))
    jobs = [h.job(limit_key=f"key-{number % 3}") for number in range(90)]
    h.enqueue(*jobs)
    done: list[str] = []

    def work(store: Store) -> None:
        idle = 0
        while idle < 50 and len(done) < len(jobs):
            reservations = store.reserve([QUEUE], limit=2, lease_for=LEASE, now=h.now_or_none)
            idle = 0 if reservations else idle + 1
            answers = store.settle([Ack(one.lease) for one in reservations], now=h.now_or_none)
            done.extend(one.job.id for one, answer in zip(reservations, answers, strict=True) if answer is None)

    h.run_concurrently(*[partial(work, h.connect_again()) for _ in range(THREADS)])
    while reservations := h.reserve(5):  # what the threads left when they gave up
        h.must_settle(*[Ack(one.lease) for one in reservations])
        done.extend(one.job.id for one in reservations)
    assert_equal(sorted(done), [job.id for job in jobs], "the jobs that ran, each once")


@case("L3", needs=KEY_LIMITS | {Feature.SCHEDULE})
def wait_returns_when_the_rate_or_the_hold_of_a_key_allows_the_next_job(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.do(Configure(queue=QUEUE, settings=QueueSettings(key_rate=2, key_burst=1)))
    store.enqueue([h.job(limit_key="a") for _ in range(3)])
    began = monotonic()
    jobs = 0
    while jobs < 3 and monotonic() - began < h.patience_seconds:
        reserved = store.reserve([QUEUE], limit=3, lease_for=LEASE)
        jobs += len(reserved)
        if jobs == 1 and reserved:
            store.settle([Retry(reserved[0].lease, delay=SECOND // 2, hold_key=True)])
        if not reserved:
            store.wait([QUEUE], timeout=h.patience_seconds)
    assert_equal(jobs, 3, "jobs reserved")
    assert monotonic() - began < h.patience_seconds / 2, "wanted every wait to end when the key allowed the next job"


@case("L3", needs=KEY_LIMITS)
def wait_returns_when_a_job_of_a_full_key_ends(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.do(Configure(queue=QUEUE, settings=QueueSettings(key_max_inflight=1)))
    store.enqueue([h.job(limit_key="a") for _ in range(2)])
    running = store.reserve([QUEUE], limit=5, lease_for=LEASE)
    assert_equal(len(running), 1, "jobs reserved at first")
    assert_equal(store.reserve([QUEUE], limit=5, lease_for=LEASE), [], "reserved while the key is full")
    timer = threading.Timer(0.05, store.settle, [[Ack(running[0].lease)]])
    began = monotonic()
    timer.start()
    try:
        while not (found := store.reserve([QUEUE], limit=5, lease_for=LEASE)):
            store.wait([QUEUE], timeout=h.patience_seconds)
    finally:
        timer.join()
    assert_equal(len(found), 1, "jobs reserved")
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the job had ended"
