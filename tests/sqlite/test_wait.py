"""Waiting hears of what other processes commit."""

import subprocess
import sys
import time

import pytest

import holdfast
from holdfast.drivers.sqlite import database
from holdfast.drivers.sqlite.commit_watch import DeafEar, KernelEar, ear_for

ENQUEUE = """
import sys, time, holdfast
store = holdfast.connect(sys.argv[1])
sys.stdin.readline()
holdfast.Client(store).enqueue(holdfast.JobRequest(type="t", payload=1))
"""
LONG = 20.0


@pytest.fixture(params=["told by the kernel", "deaf"])
def ears(request, monkeypatch):
    if request.param == "deaf":
        monkeypatch.setattr(database, "ear_for", lambda _: DeafEar())
    elif sys.platform != "linux":
        pytest.skip("only Linux tells")


def test_a_commit_of_another_process_ends_a_wait(ears, path):
    other = subprocess.Popen([sys.executable, "-c", ENQUEUE, f"sqlite:///{path}"], stdin=subprocess.PIPE, text=True)
    with holdfast.connect(f"sqlite:///{path}") as store, other:
        assert store.reserve(["default"], limit=1, lease_for=1_000_000) == []
        store.wait(["default"], timeout=0.01)
        began = time.monotonic()
        other.communicate("now\n")
        store.wait(["default"], timeout=LONG)
        assert len(store.reserve(["default"], limit=1, lease_for=1_000_000)) == 1
        assert time.monotonic() - began < LONG / 2


def test_a_log_behind_a_link_is_heard(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with holdfast.connect(f"sqlite:///{link}") as store:
        store.wait(["default"], timeout=0.01)
        assert isinstance(store._database._ears.ear, KernelEar if sys.platform == "linux" else DeafEar)


def test_without_a_log_there_is_no_ear(tmp_path):
    assert isinstance(ear_for(tmp_path / "nothing"), DeafEar)
