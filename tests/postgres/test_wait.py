"""Waiting: hints by LISTEN where a direct connection can be had, and looking now and then in any case."""

import threading
import time

import psycopg
import pytest

import holdfast
from holdfast.clock import MINUTE
from holdfast.drivers.postgres import driver, listen

LONG = 20.0


def wait_until(condition) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def rarely(monkeypatch):
    """Looking by itself would take longer than the test may: only a hint can be in time."""
    for name in ("LOOK_FIRST", "LOOK_AT_LEAST_EVERY", "LOOK_RARELY"):
        monkeypatch.setattr(driver, name, 3 * LONG)


def sleeper(url, job, *, told_by):
    """How long one store waits for the job of another that ``told_by`` makes."""
    store = holdfast.connect(url)
    store.wait(["q"], timeout=0.001)
    wait_until(lambda: store._listener.is_alive)
    other = threading.Timer(0.1, told_by)
    began = time.monotonic()
    other.start()
    store.wait(["q"], timeout=LONG)
    took = time.monotonic() - began
    other.join()
    found = store.reserve(["q"], limit=9, lease_for=MINUTE)
    store.close()
    return took, found


@pytest.mark.parametrize("count", [1, 600])
def test_a_hint_ends_a_wait_at_once(url, job, rarely, count):
    other = holdfast.connect(url)
    took, found = sleeper(url, job, told_by=lambda: other.enqueue([job() for _ in range(count)]))
    other.close()
    assert took < LONG / 2
    assert found


def test_a_callers_commit_is_a_hint_too(url, job, rarely):
    other = holdfast.connect(url)

    def commit():
        with psycopg.connect(url) as connection:
            other.joined(connection).enqueue([job()])

    took, found = sleeper(url, job, told_by=commit)
    other.close()
    assert took < LONG / 2
    assert found


def test_only_a_lane_that_was_empty_is_told_of(url, job):
    """A commit that notifies excludes every other that does: under load there must be none."""
    store = holdfast.connect(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"LISTEN {listen.channel_of('holdfast')}")
        store.enqueue([job()])
        for _ in range(20):
            store.enqueue([job()])
        store.enqueue([job(type="another")])
        heard = [notify.payload for notify in connection.notifies(timeout=1, stop_after=3)]
    store.close()
    assert heard == ["main", "main"]


def test_a_listener_whose_session_was_ended_comes_back(url, job, monkeypatch):
    monkeypatch.setattr(listen, "AGAIN_AFTER", 0.01)
    store = holdfast.connect(url)
    store.wait(["q"], timeout=0.001)
    wait_until(lambda: store._listener.is_alive)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    wait_until(lambda: not store._listener.is_alive)
    wait_until(lambda: store._listener.is_alive)
    store.close()


def test_without_a_listener_looking_is_enough(url, job):
    store = holdfast.connect(f"{url}?listen=off")
    other = holdfast.connect(f"{url}?listen=off")
    assert store._listener is None
    soon = threading.Timer(0.1, other.enqueue, [[job()]])
    began = time.monotonic()
    soon.start()
    store.wait(["q"], timeout=LONG)
    assert time.monotonic() - began < LONG / 2
    soon.join()
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


def test_work_that_is_not_given_out_does_not_make_a_waiter_spin(url, job, monkeypatch):
    """A paused queue has due jobs all the time; so has one with types that this worker does not know."""
    store = holdfast.connect(url)
    store.enqueue([job()])
    slept = []
    monkeypatch.setattr(store, "_sleep", lambda _, seconds: slept.append(seconds))
    for _ in range(8):
        assert store.reserve(["q"], limit=1, lease_for=MINUTE, types=["unknown"]) == []
        store.wait(["q"], timeout=LONG)
    assert slept == sorted(slept)
    assert len(slept) == 7  # at once the first time
    assert slept[-1] == driver.LOOK_AT_LEAST_EVERY
    assert len(store.reserve(["q"], limit=1, lease_for=MINUTE)) == 1
    store.close()
