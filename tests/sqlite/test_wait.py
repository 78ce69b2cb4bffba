"""A commit of another process ends a wait."""

import subprocess
import sys
import time

import pytest

import holdfast
from holdfast.clock import HOUR, SECOND, ManualClock
from holdfast.drivers.requests import Configure
from holdfast.drivers.sqlite import database, reserve
from holdfast.drivers.sqlite.commit_watch import InotifyWatch, PollingWatch, watch_commits
from tests.sqlite.conftest import NOW

ENQUEUE = """
import sys, time, holdfast
store = holdfast.connect(sys.argv[1])
sys.stdin.readline()
holdfast.Client(store).enqueue(holdfast.JobRequest(type="t", payload=1))
"""
LONG_SECONDS = 20.0


@pytest.fixture(params=["inotify", "polling"])
def watch(request, monkeypatch):
    if request.param == "polling":
        monkeypatch.setattr(database, "watch_commits", lambda _: PollingWatch())
    elif sys.platform != "linux":
        pytest.skip("only Linux has inotify")


def test_a_commit_of_another_process_ends_a_wait(watch, path):
    other = subprocess.Popen([sys.executable, "-c", ENQUEUE, f"sqlite:///{path}"], stdin=subprocess.PIPE, text=True)
    with holdfast.connect(f"sqlite:///{path}") as store, other:
        assert store.reserve(["default"], limit=1, lease_for=1_000_000) == []
        store.wait(["default"], timeout=0.01)
        other.communicate("now\n")
        began = time.monotonic()
        store.wait(["default"], timeout=LONG_SECONDS)
        assert len(store.reserve(["default"], limit=1, lease_for=1_000_000)) == 1
        assert time.monotonic() - began < LONG_SECONDS / 2


def test_a_commit_is_seen_although_a_fork_has_closed_the_connections(path, job):
    """SQLite numbers the commits that one connection sees, and begins anew with the next connection."""
    with holdfast.connect(f"sqlite:///{path}") as store, holdfast.connect(f"sqlite:///{path}") as other:
        other.do(Configure(queue="q", settings=holdfast.QueueSettings(paused_until=10 * NOW)))
        other.enqueue([job()])
        store.wait(["q"], timeout=0.01)
        assert store.reserve(["q"], limit=1, lease_for=SECOND) == []
        store.engine._database.disconnect()  # as before a fork
        other.do(Configure(queue="q", settings=holdfast.QueueSettings()))
        began = time.monotonic()
        store.wait(["q"], timeout=LONG_SECONDS)
        assert time.monotonic() - began < LONG_SECONDS / 2


def test_a_log_behind_a_symbolic_link_is_watched(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with holdfast.connect(f"sqlite:///{link}") as store:
        store.wait(["default"], timeout=0.5)  # long enough to begin the watch
        assert isinstance(
            store.engine._database._watches.watch, InotifyWatch if sys.platform == "linux" else PollingWatch
        )


def test_without_a_log_the_watch_polls(tmp_path):
    assert isinstance(watch_commits(tmp_path / "nothing"), PollingWatch)


def until_due(store, *, after=None):
    return store.engine._read(lambda tx: reserve.time_until_due(tx, ["q"], after))


def test_the_next_due_time_of_a_limited_queue_is_when_its_rate_allows_a_job(path, job):
    clock = ManualClock(NOW)
    with holdfast.connect(f"sqlite:///{path}", clock=clock) as store:
        store.do(Configure(queue="q", settings=holdfast.QueueSettings(rate=20, burst=1)))
        store.enqueue([job(), job(), job()])
        assert until_due(store) == 0
        for _ in range(2):
            assert len(store.reserve(["q"], limit=3, lease_for=HOUR)) == 1
            assert until_due(store) == until_due(store, after=clock.now()) == SECOND // 20
            clock.advance(SECOND // 20 - 1)
            assert store.reserve(["q"], limit=3, lease_for=HOUR) == []
            assert until_due(store, after=clock.now()) == 1
            clock.advance(1)
        assert until_due(store, after=clock.now() - 1) == 0


def test_the_next_due_time_of_a_paused_queue_is_the_end_of_its_pause(path, job):
    clock = ManualClock(NOW)
    with holdfast.connect(f"sqlite:///{path}", clock=clock) as store:
        store.do(Configure(queue="q", settings=holdfast.QueueSettings(paused_until=NOW + SECOND)))
        store.do(Configure(queue="q", settings=holdfast.QueueSettings(paused_until=NOW + HOUR), type="slow"))
        store.enqueue([job(type="slow"), job(run_at=NOW + SECOND // 2)])
        assert until_due(store) == SECOND


def test_a_busy_queue_keeps_its_rate(path, job):
    """One worker that reserves and waits. Without the refill instant it reached a fifth of the rate."""
    rate, jobs = 20, 40
    with holdfast.connect(f"sqlite:///{path}") as store:
        store.do(Configure(queue="q", settings=holdfast.QueueSettings(rate=rate, burst=1)))
        store.enqueue([job() for _ in range(jobs)])
        began = time.monotonic()
        reserved = 0
        while reserved < jobs and time.monotonic() - began < LONG_SECONDS:
            reservations = store.reserve(["q"], limit=jobs, lease_for=HOUR)
            reserved += len(reservations)
            if not reservations:
                store.wait(["q"], timeout=1)
        seconds = time.monotonic() - began
        assert reserved == jobs
        assert seconds > 0.9 * (jobs - 1) / rate
        assert seconds < 4 * jobs / rate
