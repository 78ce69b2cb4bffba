"""Waiting for work: notifications by LISTEN where a direct connection is possible, and polling in any case."""

import threading
import time

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.drivers.postgres import admin, listen
from holdfast.drivers.postgres.timing import PostgresTiming
from holdfast.drivers.requests import Cancel, Configure, Reserve, Resume, Wait, WaitForCancel
from holdfast.model.queue_settings import OnExhausted, QueueSettings
from holdfast.model.settlement import Fail
from tests.postgres.conftest import open_store

LONG = 20.0


def wait_until(condition) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


# Poll intervals longer than the test: only a notification can end a wait in time.
WITHOUT_POLLING = dict.fromkeys(("first_poll_seconds", "max_poll_seconds", "max_poll_with_listener_seconds"), 3 * LONG)


def measure_wait(url, *, enqueue):
    """Return how many seconds a store waits for the job that ``enqueue`` stores, and its reservations afterwards."""
    store = open_store(url, **WITHOUT_POLLING)
    store.wait(["q"], timeout=0.001)
    wait_until(lambda: store.engine._listener.is_alive)
    enqueuing = threading.Timer(0.1, enqueue)
    began = time.monotonic()
    enqueuing.start()
    store.wait(["q"], timeout=LONG)
    took = time.monotonic() - began
    enqueuing.join()
    reservations = store.reserve(["q"], limit=9, lease_for=MINUTE)
    store.close()
    return took, reservations


@pytest.mark.parametrize("count", [1, 600])
def test_a_notification_ends_a_wait_at_once(url, job, count):
    other = holdfast.connect(url)
    took, reservations = measure_wait(url, enqueue=lambda: other.enqueue([job() for _ in range(count)]))
    other.close()
    assert took < LONG / 2
    assert reservations


def test_the_commit_of_a_joined_enqueue_ends_a_wait(url, job):
    other = holdfast.connect(url)

    def commit():
        with psycopg.connect(url) as connection:
            other.joined(connection).enqueue([job()])

    took, reservations = measure_wait(url, enqueue=commit)
    other.close()
    assert took < LONG / 2
    assert reservations


def test_resuming_a_domain_ends_a_wait(url, job):
    other = holdfast.connect(url)
    other.do(Configure(queue="q", settings=QueueSettings(on_exhausted=OnExhausted.HALT)))
    other.enqueue([job(domain="d"), job(domain="d")])
    [held] = other.reserve(["q"], limit=1, lease_for=MINUTE)
    other.settle([Fail(held.lease, reason="no")])
    took, reservations = measure_wait(url, enqueue=lambda: other.do(Resume(queue="q", domain="d")))
    other.close()
    assert took < LONG / 2
    assert len(reservations) == 1


def test_only_the_first_job_of_an_empty_lane_notifies(url, job):
    """A commit that notifies excludes every other commit that notifies: under load there must be none."""
    store = holdfast.connect(url)
    with psycopg.connect(url, autocommit=True) as connection:
        channel = listen.channel_of("holdfast")
        connection.execute(f"LISTEN {channel}")
        store.enqueue([job()])
        for _ in range(20):
            store.enqueue([job()])
        store.enqueue([job(type="another")])
        connection.execute(f"NOTIFY {channel}, 'end'")
        notifications = [notify.payload for notify in connection.notifies(timeout=LONG, stop_after=3)]
    store.close()
    assert notifications == ["main", "main", "end"]


@pytest.mark.parametrize("poll", [False, True])
def test_a_cancel_of_another_process_ends_a_wait_for_cancel(url, job, poll):
    """By a notification, also while polling is off; and by polling, also while there is no listener."""
    store, other = open_store(f"{url}?listen=off") if poll else open_store(url, **WITHOUT_POLLING), open_store(url)
    other.enqueue([job()])
    [reservation] = store.reserve(["q"], limit=1, lease_for=MINUTE)
    job_ids = [reservation.job.id]
    assert not store.do(WaitForCancel(job_ids=job_ids, timeout=0.001))
    wait_until(lambda: poll or store.engine._listener.is_alive)
    cancelling = threading.Timer(0.1, other.do, [Cancel(job_ids=job_ids)])
    began = time.monotonic()
    cancelling.start()
    assert store.do(WaitForCancel(job_ids=job_ids, timeout=LONG))
    assert time.monotonic() - began < LONG / 2
    cancelling.join()
    store.close()
    other.close()


def test_a_thread_that_waits_for_cancels_again_and_again_reads_the_jobs_once(url, job, monkeypatch):
    store = open_store(url, **WITHOUT_POLLING)
    store.enqueue([job(), job()])
    first, second = (one.job.id for one in store.reserve(["q"], limit=2, lease_for=MINUTE))
    store.do(WaitForCancel(job_ids=[first, second], timeout=0.001))
    wait_until(lambda: store.engine._listener.is_alive)
    looks, look = [], admin.is_cancel_requested
    monkeypatch.setattr(admin, "is_cancel_requested", lambda *arguments: looks.append(arguments) or look(*arguments))
    for _ in range(20):
        assert not store.do(WaitForCancel(job_ids=[second], timeout=0.001))
    assert not looks
    store.do(Cancel(job_ids=[second]))
    assert store.do(WaitForCancel(job_ids=[second], timeout=LONG))
    store.close()


def test_a_listener_reconnects_after_its_session_was_terminated(url, job):
    store = open_store(url, reconnect_delay_seconds=0.01)
    store.wait(["q"], timeout=0.001)
    wait_until(lambda: store.engine._listener.is_alive)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    wait_until(lambda: not store.engine._listener.is_alive)
    wait_until(lambda: store.engine._listener.is_alive)
    store.close()


def test_without_a_listener_polling_ends_a_wait(url, job):
    store = holdfast.connect(f"{url}?listen=off")
    other = holdfast.connect(f"{url}?listen=off")
    assert store.engine._listener is None
    enqueuing = threading.Timer(0.1, other.enqueue, [[job()]])
    began = time.monotonic()
    enqueuing.start()
    store.wait(["q"], timeout=LONG)
    assert time.monotonic() - began < LONG / 2
    enqueuing.join()
    store.close()
    other.close()


def test_a_wait_ends_when_the_store_is_closed(url):
    store = holdfast.connect(url)
    closing = threading.Timer(0.1, store.close)
    closing.start()
    began = time.monotonic()
    with pytest.raises(holdfast.HoldfastError):
        store.wait(["q"], timeout=LONG)
    assert time.monotonic() - began < LONG / 2
    closing.join()


def test_due_jobs_that_cannot_be_reserved_do_not_make_a_worker_spin(url, job, monkeypatch):
    """A paused queue has due jobs all the time, and so has a queue of types that this worker does not know."""
    store = holdfast.connect(url)
    store.enqueue([job()])
    sleeps = []
    monkeypatch.setattr(store.engine._waiter, "_sleep", lambda _, seconds: sleeps.append(seconds))
    for _ in range(8):
        found = store.do(Reserve(queues=["q"], limit=1, lease_for=MINUTE, types=["unknown"]))
        assert found.reservations == []
        store.do(Wait(queues=["q"], timeout=LONG, since=found.mark))
    assert sleeps == sorted(sleeps)
    assert len(sleeps) == 8
    assert sleeps[-1] == PostgresTiming().max_poll_seconds
    assert len(store.reserve(["q"], limit=1, lease_for=MINUTE)) == 1
    store.close()
