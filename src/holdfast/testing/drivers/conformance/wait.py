"""Wait: a hint that a job may be ready. It may return too early, never too late."""

from __future__ import annotations

import threading

from holdfast.clock import SECOND, monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Configure
from holdfast.errors import StoreClosed
from holdfast.model.queue_settings import Gaps, QueueSettings
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness

SHORT_SECONDS = 0.05
IDLE_SECONDS = 0.25
MAX_IDLE_ROUNDS = 25  # of a store that can do no better than look 100 times in a second
DUE_IN = SECOND // 2


@case("L3")
def wait_returns_after_its_timeout(h: Harness) -> None:
    store = h.open_with_store_clock()
    assert_equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "reserved from an empty queue")
    began = monotonic()
    store.wait([QUEUE], timeout=SHORT_SECONDS)
    store.wait([QUEUE], timeout=0)
    assert monotonic() - began < h.patience_seconds / 2, "wanted a short wait to be short"


@case("L3")
def a_loop_that_waits_for_an_empty_queue_does_not_spin(h: Harness) -> None:
    store = h.open_with_store_clock()
    began, rounds = monotonic(), 0
    while monotonic() - began < IDLE_SECONDS:
        assert_equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "reserved from an empty queue")
        store.wait([QUEUE], timeout=IDLE_SECONDS)
        rounds += 1
    assert rounds <= MAX_IDLE_ROUNDS, f"wanted at most {MAX_IDLE_ROUNDS} rounds in {IDLE_SECONDS} s, got {rounds}"


@case("L3")
def wait_returns_when_a_job_is_enqueued(h: Harness) -> None:
    store, job = h.open_with_store_clock(), h.job()
    assert_equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "reserved from an empty queue")
    began = monotonic()
    timer = threading.Timer(SHORT_SECONDS, store.enqueue, [[job]])
    timer.start()
    try:
        while not (reservations := store.reserve([QUEUE], limit=1, lease_for=LEASE)):
            store.wait([QUEUE], timeout=h.patience_seconds)
    finally:
        timer.join()
    assert_equal(reservations[0].job.id, job.id, "the job")
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the job was enqueued"


@case("L3")
def wait_returns_at_once_if_a_job_was_enqueued_before(h: Harness) -> None:
    store, job = h.open_with_store_clock(), h.job()
    assert_equal(store.reserve([QUEUE], limit=1, lease_for=LEASE), [], "reserved from an empty queue")
    store.enqueue([job])
    began = monotonic()
    store.wait([QUEUE], timeout=h.patience_seconds)
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to see the job that was enqueued before"


@case("L3", needs={Feature.SCHEDULE})
def wait_returns_when_a_scheduled_job_is_due_also_after_an_earlier_timeout(h: Harness) -> None:
    """A job becomes due without a change of the store: every wait looks for due times again."""
    store = h.open_with_store_clock()
    store.enqueue([h.job()])
    [reservation] = store.reserve([QUEUE], limit=1, lease_for=LEASE)
    store.enqueue([h.job(run_at=reservation.lease.expires_at - LEASE + DUE_IN)])
    began = monotonic()
    for timeout in (SHORT_SECONDS, SHORT_SECONDS, h.patience_seconds / 2, h.patience_seconds):
        if store.reserve([QUEUE], limit=1, lease_for=LEASE):
            break
        store.wait([QUEUE], timeout=timeout)
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the job was due"


@case("L3", needs={Feature.LIMITS})
def wait_returns_when_the_rate_of_a_queue_allows_the_next_job(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.do(Configure(queue=QUEUE, settings=QueueSettings(rate=2, burst=1)))
    store.enqueue([h.job(), h.job()])
    began = monotonic()
    jobs = 0
    while jobs < 2 and monotonic() - began < h.patience_seconds / 2:
        reserved = store.reserve([QUEUE], limit=2, lease_for=LEASE)
        jobs += len(reserved)
        if not reserved:
            store.wait([QUEUE], timeout=h.patience_seconds / 2)
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the rate allowed the second job"


@case("L3", "L11", needs={Feature.LIMITS, Feature.OFFSET, Feature.DOMAINS, Feature.DOMAIN})
def wait_returns_when_a_gap_of_a_domain_may_be_passed(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.do(Configure(queue=QUEUE, settings=QueueSettings(gaps=Gaps.WAIT, gap_pass_after=SECOND // 5)))
    store.enqueue([h.job(domain="d", offset=5)])
    began = monotonic()
    while not store.reserve([QUEUE], limit=1, lease_for=LEASE) and monotonic() - began < h.patience_seconds / 2:
        store.wait([QUEUE], timeout=h.patience_seconds / 2)
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the gap was old enough"


@case("L3", needs={Feature.LIMITS})
def wait_for_a_queue_with_a_tiny_rate_returns_after_its_timeout(h: Harness) -> None:
    store = h.open_with_store_clock()
    store.do(Configure(queue=QUEUE, settings=QueueSettings(rate=1e-300, burst=1)))
    store.enqueue([h.job(), h.job()])
    assert_equal(len(store.reserve([QUEUE], limit=2, lease_for=LEASE)), 1, "jobs reserved")
    assert_equal(store.reserve([QUEUE], limit=2, lease_for=LEASE), [], "jobs reserved right after")
    store.wait([QUEUE], timeout=SHORT_SECONDS)


@case("L3")
def wait_reserves_nothing(h: Harness) -> None:
    store, job = h.open_with_store_clock(), h.job()
    store.enqueue([job])
    store.wait([QUEUE], timeout=SHORT_SECONDS)
    assert_equal(store.get(job.id), job, "the job")


@case("L14")
def a_closed_store_refuses_to_wait(h: Harness) -> None:
    store = h.open_store()
    store.close()
    with assert_raises(StoreClosed):
        store.wait([QUEUE], timeout=SHORT_SECONDS)
