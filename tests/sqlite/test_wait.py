"""A commit of another process ends a wait."""

import subprocess
import sys
import time

import pytest

import holdfast
from holdfast.drivers.sqlite import database
from holdfast.drivers.sqlite.commit_watch import InotifyWatch, PollingWatch, watch_commits

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
        began = time.monotonic()
        other.communicate("now\n")
        store.wait(["default"], timeout=LONG_SECONDS)
        assert len(store.reserve(["default"], limit=1, lease_for=1_000_000)) == 1
        assert time.monotonic() - began < LONG_SECONDS / 2


def test_a_log_behind_a_symbolic_link_is_watched(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with holdfast.connect(f"sqlite:///{link}") as store:
        store.wait(["default"], timeout=0.01)
        assert isinstance(store._database._watches.watch, InotifyWatch if sys.platform == "linux" else PollingWatch)


def test_without_a_log_the_watch_polls(tmp_path):
    assert isinstance(watch_commits(tmp_path / "nothing"), PollingWatch)
