"""``holdfast worker``."""

from __future__ import annotations

import pytest


@pytest.fixture
def workers(attend):
    attend("host-a:1")
    attend("host-b:2")


def test_the_workers_that_run_are_listed(run, workers):
    lines = run("worker", "list").out.splitlines()
    assert lines[0].split() == ["NAME", "STATE", "HOST", "PID", "RUNNING", "HELD", "BEAT", "UP", "VERSION", "QUEUES"]
    assert [line.split()[:2] for line in lines[1:]] == [["host-a:1", "working"], ["host-b:2", "working"]]
    assert lines[1].split()[4:6] == ["0/8", "0"]


def test_one_worker_is_shown(run, workers):
    shown = run("worker", "show", "host-b:2").out
    assert "queues     mail\n" in shown
    assert "processes  2, each with 4 jobs at a time\n" in shown
    one = run("worker", "show", "host-b:2", "--json").json
    assert (one["state"], one["types"], one["held"], one["running"]) == ("working", ["mail.send"], 0, 0)
    assert one["beat_at"].endswith("Z")


def test_a_worker_that_does_not_run_is_not_found(run, store):
    assert run("worker", "show", "nobody", code=4).err == "holdfast: no worker nobody runs in this space\n"
    assert run("worker", "list").err == "no worker runs\n"
    assert run("worker", "list", "--json").json == {"items": []}
