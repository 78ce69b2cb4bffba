"""Wait for a cancel request: a worker learns of it before its next heartbeat."""

from __future__ import annotations

import threading

from holdfast.clock import monotonic
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Cancel, WaitForCancel
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, StoreClosed
from holdfast.model.job import State
from holdfast.testing.drivers.conformance.assertions import assert_equal, assert_raises
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.wait import SHORT_SECONDS
from holdfast.testing.drivers.harness import LEASE, QUEUE, Harness


def wait_for_cancel(store: Store, *job_ids: str, timeout: float) -> bool:
    """Wait for a cancel request for one of these jobs."""
    return store.do(WaitForCancel(job_ids=job_ids, timeout=timeout))


def _reserve_new_jobs(h: Harness, store: Store, count: int) -> list[str]:
    store.enqueue([h.job() for _ in range(count)])
    return [one.job.id for one in store.reserve([QUEUE], limit=count, lease_for=LEASE)]


@case("L5", needs={Feature.JOBS})
def a_wait_for_cancel_returns_when_a_cancel_is_requested(h: Harness) -> None:
    store = h.open_with_store_clock()
    first, second = _reserve_new_jobs(h, store, 2)
    began = monotonic()
    timer = threading.Timer(SHORT_SECONDS, store.do, [Cancel(job_ids=[second])])
    timer.start()
    try:
        assert wait_for_cancel(store, first, second, timeout=h.patience_seconds), "wanted the wait to find the request"
    finally:
        timer.join()
    assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to end when the cancel was requested"


@case("L5", needs={Feature.JOBS})
def a_wait_for_cancel_finds_a_request_from_before_also_after_an_earlier_wait(h: Harness) -> None:
    store = h.open_with_store_clock()
    [job] = _reserve_new_jobs(h, store, 1)
    assert not wait_for_cancel(store, job, timeout=SHORT_SECONDS), "wanted no request before the cancel"
    assert_equal(store.do(Cancel(job_ids=[job])), [State.INFLIGHT], "the answer")
    for _ in range(2):
        began = monotonic()
        assert wait_for_cancel(store, job, timeout=h.patience_seconds), "wanted the wait to find the request"
        assert monotonic() - began < h.patience_seconds / 2, "wanted the wait to see the request that was there before"
    assert wait_for_cancel(store, job, timeout=0), "wanted the request without a wait"


@case("L5", needs={Feature.JOBS})
def a_wait_for_cancel_ignores_requests_for_other_jobs_and_jobs_that_have_ended(h: Harness) -> None:
    store = h.open_with_store_clock()
    [other, running] = _reserve_new_jobs(h, store, 2)
    store.do(Cancel(job_ids=[other]))
    assert not wait_for_cancel(store, running, timeout=SHORT_SECONDS), "wanted no request for the job itself"
    ready = h.job()
    store.enqueue([ready])
    assert_equal(store.do(Cancel(job_ids=[ready.id])), [State.CANCELLED], "the answer for a ready job")
    assert not wait_for_cancel(store, ready.id, "unknown", timeout=0), "wanted no request for jobs that do not run"
    assert not wait_for_cancel(store, timeout=SHORT_SECONDS), "wanted no request for no job"


@case("L14")
def a_wait_for_cancel_refuses_invalid_arguments_and_a_closed_store(h: Harness) -> None:
    store = h.open_store()
    with assert_raises(InvalidInput):
        wait_for_cancel(store, "", timeout=0)
    with assert_raises(InvalidInput):
        wait_for_cancel(store, "job", timeout=-1)
    store.close()
    with assert_raises(StoreClosed):
        wait_for_cancel(store, "job", timeout=SHORT_SECONDS)
