"""Law L1: past the local deadline of its lease an attempt is stopped, and none is started."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import JobRequest, connect
from holdfast.clock import boot_time
from holdfast.drivers.requests import Extend, Reserve
from holdfast.errors import StoreUnavailable
from holdfast.model.ledger import Ending
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.running import LEASE_MARGIN
from holdfast.worker.worker import Worker
from tests.requests_seen import answer_requests
from tests.worker.hostile_handlers import swallows_everything

LEASE = timedelta(seconds=6)


@pytest.fixture
def leases(app, monkeypatch):
    """The leases that the store has granted; it extends none of them, as in an outage."""
    granted = []

    def keep(request, do):
        reserved = do(request)
        granted.extend(one.lease for one in reserved.reservations)
        return reserved

    def fail(*_):
        raise StoreUnavailable("no route to the store")

    answer_requests(monkeypatch, app.driver, Reserve, keep)
    answer_requests(monkeypatch, app.driver, Extend, fail)
    return granted


def test_an_attempt_whose_lease_cannot_be_extended_is_interrupted_before_the_lease_ends(app, leases, tmp_path):
    @app.handler("long")
    def long(_payload, ctx):
        try:
            time.sleep(60)
        finally:
            (tmp_path / "stopped").write_text(f"{time.time_ns() // 1000} {ctx.stop_reason}")

    long.enqueue()
    tally = app.worker(WorkerOptions(lease=LEASE, processes=1)).run(max_jobs=1)
    at, _, reason = (tmp_path / "stopped").read_text().partition(" ")
    assert int(at) < leases[0].expires_at
    assert reason == "lease lost"
    assert tally == {"released": 1}
    assert [(row.ending, row.detail) for row in app.driver.ledger()] == [(Ending.RELEASED, "lease lost")]


def test_a_handler_that_ignores_the_interrupt_is_killed_before_its_lease_ends(app, leases, tmp_path):
    @app.handler("stubborn")
    def stubborn(_payload):
        (tmp_path / "pid").write_text(str(os.getpid()))
        swallows_everything(None)

    stubborn.enqueue()
    options = WorkerOptions(lease=LEASE, processes=1, grace=timedelta(minutes=1))
    assert app.worker(options).run(max_jobs=1) == {"released": 1}
    [row] = app.driver.ledger()
    assert (row.ending, row.detail) == (Ending.RELEASED, "lease lost")  # an expired lease could not be released
    assert row.ended_at < leases[0].expires_at
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


def test_a_store_that_answers_late_keeps_the_attempts_whose_leases_it_extends(app, monkeypatch):
    lease = timedelta(seconds=3)
    late_seconds = 0.28 * lease.total_seconds()

    def delay(verb):
        call = getattr(app.driver, verb)

        def answer_late(*arguments, **keywords):
            answer = call(*arguments, **keywords)
            time.sleep(late_seconds)
            return answer

        monkeypatch.setattr(app.driver, verb, answer_late)

    @app.handler("long")
    def long(seconds):
        time.sleep(seconds)

    long.enqueue_many([0.1, 4.5, 0.1, 3.5])
    for verb in ("reserve", "extend", "settle"):
        delay(verb)
    assert app.worker(WorkerOptions(lease=lease, processes=2)).run(max_jobs=4) == {"acked": 4}
    assert {row.attempt for row in app.driver.ledger()} == {1}


class Settlements(WorkerObserver):
    """Keeps the runs that were settled."""

    def __init__(self):
        self.runs = []

    def settled(self, settled):
        self.runs += [one.run for one in settled]


def test_a_lease_counts_from_before_the_call_that_granted_it(app, monkeypatch):
    granted_at = []

    def keep(request, do):
        granted_at.append(boot_time())
        while boot_time() == granted_at[-1]:
            pass
        return do(request)

    answer_requests(monkeypatch, app.driver, Reserve, keep)
    app.handler("quick")(lambda _payload: None).enqueue()
    observer = Settlements()
    options = WorkerOptions(lease=timedelta(hours=1), processes=1)
    Worker(app.driver, options, catalogue=app.catalogue, observers=[observer]).run(max_jobs=1)
    [run] = observer.runs
    assert run.lease_deadline <= granted_at[-1] + (1 - LEASE_MARGIN) * 3600


STOPPED_PROGRAM = """
    import os, signal, sqlite3, sys, time
    from contextlib import closing
    from datetime import timedelta
    from pathlib import Path
    from holdfast.app import Holdfast

    app, folder, worker = Holdfast(sys.argv[1]), Path(sys.argv[2]), os.getpid()

    @app.handler("job")
    def job(payload, ctx):
        with (folder / "begun").open("a") as file:
            file.write(f"{ctx.fence}\\n")
        if payload == "stop" and not (folder / "stopped").exists():
            (folder / "stopped").write_text(f"{worker} {os.getppid()} {os.getpid()}")
            with closing(sqlite3.connect(sys.argv[3], isolation_level=None, timeout=60)) as connection:
                connection.execute("BEGIN IMMEDIATE")  # a worker that is stopped in a transaction would keep its lock
                os.kill(worker, signal.SIGSTOP)
                while "T (stopped)" not in Path(f"/proc/{worker}/status").read_text():
                    time.sleep(0.01)
            for pid in (os.getppid(), os.getpid()):
                os.kill(pid, signal.SIGSTOP)

    app.worker(processes=1, lease=timedelta(seconds=2), until_drained=True).run()
"""


def test_no_attempt_begins_on_a_lease_that_ended_while_the_processes_were_stopped(app, tmp_path):
    """As by SIGSTOP, a suspended machine or a frozen container, with jobs that wait in the child and in the worker."""
    payloads = [None] * 300 + ["stop"] + [None] * 700
    app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    program = [sys.executable, "-c", textwrap.dedent(STOPPED_PROGRAM), app.url, str(tmp_path), app.url[10:]]
    process = subprocess.Popen(program)
    try:
        _wait_until(lambda: _state(process.pid) == "T", process)
        stopped = [int(pid) for pid in (tmp_path / "stopped").read_text().split()]
        _wait_until(lambda: all(_state(pid) == "T" for pid in stopped), process)
        with connect(app.url) as store:
            _wait_until(lambda: store.reap() > 0 or store.counts()[0].inflight == 0, process)
            expired = {row.fence for row in store.ledger(limit=10_000) if row.ending is Ending.EXPIRED}
        begun_before = len(_begun(tmp_path))
        for pid in reversed(stopped):  # the child first: the worker cannot warn it
            os.kill(pid, signal.SIGCONT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert len(expired) > 1
    assert not expired & set(_begun(tmp_path)[begun_before:])
    assert app.driver.counts()[0].done == len(payloads)


STOPPED_WORKER_PROGRAM = """
    import os, signal, sqlite3, sys, time
    from contextlib import closing
    from datetime import timedelta
    from pathlib import Path
    from holdfast.app import Holdfast

    app, folder, worker = Holdfast(sys.argv[1]), Path(sys.argv[2]), os.getpid()

    @app.handler("job")
    def job(payload, ctx):
        with (folder / "begun").open("a") as file:
            file.write(f"{ctx.fence}\\n")
        if payload == "stop" and not (folder / "stopped").exists():
            with closing(sqlite3.connect(sys.argv[3], isolation_level=None, timeout=60)) as connection:
                connection.execute("BEGIN IMMEDIATE")  # a worker that is stopped in a transaction would keep its lock
                os.kill(worker, signal.SIGSTOP)
                while "T (stopped)" not in Path(f"/proc/{worker}/status").read_text():
                    time.sleep(0.01)
            (folder / "stopped").touch()
            while not ctx.cancelled:
                time.sleep(0.001)
            (folder / "cancelled").write_text(str(ctx.stop_reason))

    app.worker(processes=1, concurrency=int(sys.argv[4]), lease=timedelta(seconds=2), until_drained=True).run()
"""


@pytest.mark.parametrize("concurrency", [1, 2])
def test_a_child_whose_worker_is_stopped_begins_nothing_past_the_deadline_and_tells_its_handler(
    app, tmp_path, concurrency
):
    payloads = [None] * 300 + ["stop"] + [None] * 700
    app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    code = textwrap.dedent(STOPPED_WORKER_PROGRAM)
    process = subprocess.Popen([sys.executable, "-c", code, app.url, str(tmp_path), app.url[10:], str(concurrency)])
    try:
        _wait_until((tmp_path / "cancelled").exists, process)
        with connect(app.url) as store:
            _wait_until(lambda: store.reap() > 0, process)
            expired = {row.fence for row in store.ledger(limit=10_000) if row.ending is Ending.EXPIRED}
        begun_before = len(_begun(tmp_path))
        assert (tmp_path / "cancelled").read_text() == "lease lost"
        time.sleep(0.1)  # in which the child could begin others
        assert len(_begun(tmp_path)) == begun_before
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert not expired & set(_begun(tmp_path)[begun_before:])
    assert app.driver.counts()[0].done == len(payloads)


def _begun(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "begun").read_text().splitlines()]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _wait_until(condition, process) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
