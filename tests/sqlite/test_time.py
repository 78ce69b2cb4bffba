"""The clock of the host decides; time does not go back when that clock does, also between processes."""

import threading
import time

import pytest

import holdfast
import holdfast.driver
from holdfast.clock import DAY, HOUR, SECOND, ManualClock
from holdfast.driver import Gaps
from holdfast.drivers.requests import Configure, Inspect
from holdfast.errors import CallerClockRefused, StoreClosed
from holdfast.model.settlement import Ack, Retry
from tests.sqlite.conftest import NOW

YEAR = 365 * DAY


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


def test_a_lease_granted_a_year_ahead_does_not_stop_the_time_of_the_store(path, job):
    clock = ManualClock(NOW + YEAR)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.enqueue([job(), job(max_crashes=None)])
    [ahead] = store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    clock.advance(-YEAR)
    store.enqueue([job(id="later", priority=9)])
    [one] = store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    assert (one.job.id, one.lease.expires_at) == ("later", NOW + 10 * SECOND)
    assert store.settle([Retry(one.lease, delay=2 * SECOND)]) == [None]
    clock.advance(2 * SECOND)
    [again] = store.reserve(["q"], limit=1, lease_for=10 * SECOND)
    assert again.job.id == "later"
    clock.advance(10 * SECOND)
    assert store.reap() == 1  # a lease of the right time expires; the lease of the future is still valid
    assert store.settle([Ack(ahead.lease)]) == [None]
    store.close()


def test_a_step_back_of_at_most_an_hour_is_held(path, job):
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.enqueue([job()])
    assert len(store.reserve(["q"], limit=1, lease_for=SECOND)) == 1
    clock.advance(-HOUR)
    store.enqueue([job(id="held")])
    assert store.do(Inspect(job_ids=["held"]))["held"].available_at == NOW
    clock.advance(-1)
    store.enqueue([job(id="followed")])
    assert store.do(Inspect(job_ids=["followed"]))["followed"].available_at == NOW - HOUR - 1
    store.close()


def test_repair_clock_moves_the_rows_of_a_wrong_clock_to_the_right_time(path, job):
    """The worker of the lease has died: its job must not wait for a year. Neither must jobs that were enqueued then."""
    clock = ManualClock(NOW)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.do(Configure(queue="q", settings=holdfast.QueueSettings(rate=1, burst=9)))
    store.enqueue([job(id="scheduled", run_at=NOW + 2 * YEAR), job(id="later", run_at=NOW + DAY, priority=1)])
    clock.advance(YEAR)
    store.enqueue([job(id="leased", priority=9), job(id="retried", priority=8), job(id="new")])
    _, retried = store.reserve(["q"], limit=2, lease_for=10 * SECOND)
    assert store.settle([Retry(retried.lease, delay=2 * SECOND)]) == [None]
    clock.advance(-YEAR)
    assert store.reserve(["q"], limit=9, lease_for=SECOND) == []
    assert store.engine.count_future_rows() == 4  # three jobs and the rate bucket
    assert store.engine.repair_clock() == 4
    assert (store.engine.count_future_rows(), store.engine.repair_clock()) == (0, 0)
    assert {one.job.id for one in store.reserve(["q"], limit=9, lease_for=HOUR)} == {"retried", "new"}
    assert store.do(Inspect(job_ids=["leased"]))["leased"].expires_at == NOW + 10 * SECOND
    clock.advance(10 * SECOND)
    assert [one.job.id for one in store.reserve(["q"], limit=9, lease_for=HOUR)] == ["leased"]
    assert store.do(Inspect(job_ids=["scheduled"]))["scheduled"].available_at == NOW + 2 * YEAR
    assert store.do(Inspect(job_ids=["later"]))["later"].available_at == NOW + DAY
    store.close()


def test_repair_clock_moves_the_gap_of_a_domain_to_the_right_time(path, job):
    """It would else be passed a year late."""
    clock = ManualClock(NOW + YEAR)
    store = holdfast.connect(f"sqlite:///{path}", clock=clock)
    store.do(Configure(queue="q", settings=holdfast.QueueSettings(gaps=Gaps.WAIT, gap_pass_after=10 * SECOND)))
    store.enqueue([job(id="behind", domain="d", offset=1)])
    assert store.reserve(["q"], limit=1, lease_for=HOUR) == []
    clock.advance(-YEAR)
    assert (store.engine.count_future_rows(), store.engine.repair_clock(), store.engine.repair_clock()) == (2, 2, 0)
    clock.advance(10 * SECOND)
    assert [one.job.id for one in store.reserve(["q"], limit=1, lease_for=HOUR)] == ["behind"]
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
    store.do(Configure(queue="q", settings=holdfast.QueueSettings(paused_until=NOW * 2)))
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
