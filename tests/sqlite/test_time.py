"""The clock of the host decides; time does not go back when that clock does, also between processes."""

import threading
import time

import pytest

import holdfast
import holdfast.driver
from holdfast.clock import HOUR, SECOND, ManualClock
from holdfast.errors import CallerClockRefused, StoreClosed
from holdfast.model.settlement import Ack
from tests.sqlite.conftest import NOW


def test_a_process_with_a_slow_clock_does_not_grant_shorter_leases(path, job):
    """Each store stands for one process with its own clock."""
    ahead, behind = ManualClock(NOW), ManualClock(NOW - HOUR)
    first = holdfast.connect(f"sqlite:///{path}", clock=ahead)
    second = holdfast.connect(f"sqlite:///{path}", clock=behind)
    first.enqueue([job(), job()])
    [one] = first.reserve(["q"], limit=1, lease_for=10 * SECOND)
    [two] = second.reserve(["q"], limit=1, lease_for=10 * SECOND)
    assert two.lease.expires_at >= one.lease.expires_at
    ahead.advance(10 * SECOND)
    assert first.reap() == 2
    first.close(), second.close()


def test_time_stands_still_while_the_clock_is_behind(path, job):
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.enqueue([job()])
    [reservation] = store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    clock.advance(-HOUR)
    [extended] = store.extend([reservation.lease], lease_for=10 * SECOND)
    assert isinstance(extended, holdfast.driver.Lease)
    assert extended.expires_at == reservation.lease.expires_at
    assert store.settle([Ack(extended)]) == [None]
    assert store.ledger().items[0].ended_at == NOW
    store.close()


def test_a_callers_now_is_refused_before_it_reaches_a_shared_transaction(path, job):
    store = holdfast.connect(f"sqlite:///{path}")
    with pytest.raises(CallerClockRefused):
        store.enqueue([job()], now=NOW)
    store.close()


def test_a_commit_of_another_connection_ends_a_wait(path, job):
    store, other = (holdfast.connect(f"sqlite:///{path}") for _ in range(2))
    assert store.reserve(["q"], limit=1, lease_for=SECOND) == []
    store.wait(["q"], timeout=0.01)
    threading.Timer(0.1, lambda: other.enqueue([job()])).start()
    started = time.monotonic()
    store.wait(["q"], timeout=30)
    assert time.monotonic() - started < 15
    assert len(store.reserve(["q"], limit=1, lease_for=SECOND)) == 1
    store.close(), other.close()


def test_wait_returns_when_a_scheduled_job_is_due(path, job):
    from holdfast.clock import SystemClock

    store = holdfast.connect(f"sqlite:///{path}")
    store.enqueue([job(run_at=SystemClock().now() + SECOND // 4)])
    started = time.monotonic()
    store.wait(["q"], timeout=30)
    assert time.monotonic() - started < 15
    assert len(store.reserve(["q"], limit=1, lease_for=SECOND)) == 1
    store.close()


def test_wait_does_not_return_early_for_a_paused_queue(path, job):
    store = holdfast.connect(f"sqlite:///{path}")
    store.configure("q", holdfast.QueueSettings(paused_until=NOW * 2))
    store.enqueue([job()])
    store.wait(["q"], timeout=5)  # the first wait may return at once: this thread has not reserved yet
    assert store.reserve(["q"], limit=1, lease_for=SECOND) == []
    started = time.monotonic()
    store.wait(["q"], timeout=0.2)
    assert time.monotonic() - started >= 0.2
    store.close()


def test_every_call_of_a_closed_store_raises_store_closed(path, job):
    store = holdfast.connect(f"sqlite:///{path}")
    store.close()
    store.close()
    for call in (lambda: store.enqueue([job()]), lambda: store.get("a"), lambda: store.wait(["q"], timeout=0)):
        with pytest.raises(StoreClosed):
            call()


def test_wait_returns_when_a_lease_expires(path, job):
    """The job of a dead worker runs again when its lease expires, not at the next poll."""
    with holdfast.connect(f"sqlite:///{path}") as store:
        store.enqueue([job()])
        assert len(store.reserve(["q"], limit=1, lease_for=SECOND // 4)) == 1
        assert store.reserve(["q"], limit=1, lease_for=SECOND) == []
        started = time.monotonic()
        store.wait(["q"], timeout=30)
        assert time.monotonic() - started < 15
        assert len(store.reserve(["q"], limit=1, lease_for=SECOND)) == 1
