"""A worker that is to stop: it stops in time, whatever its jobs and its store do."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import JobRequest
from holdfast.drivers.requests import Extend, Settle
from holdfast.model.retry import Fixed
from holdfast.worker import worker
from holdfast.worker.options import WorkerOptions
from holdfast.worker.timing import WorkerTiming
from holdfast.worker.worker import Worker
from tests.requests_seen import answer_requests

PROGRAM = """
    import logging, sys, time
    from datetime import timedelta
    from holdfast.app import Holdfast

    logging.basicConfig(level=logging.INFO)
    app = Holdfast(sys.argv[1])
    app.handler("quick")(lambda payload: None)
    app.handler("long")(lambda payload: time.sleep(payload))
    keywords = {"processes": 2, "drain": timedelta(seconds=0.5), "grace": timedelta(seconds=0.5)}
    app.worker(until_drained=True, **keywords).run()
"""


def test_sigterm_stops_a_worker_that_waits_for_a_long_job_behind_quick_ones(app, tmp_path):
    long, *_ = app.client.enqueue(
        [JobRequest(type="long", payload=90), *(JobRequest(type="quick") for _ in range(300))]
    )
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), app.url], stderr=stderr)
    try:
        deadline = time.monotonic() + 60
        while sum(count.done for count in app.driver.counts()) < 300:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    record = app.client.get(long.id)
    assert (record.state, record.attempts) == ("ready", 0)
    assert "worker.stopping reason=SIGTERM running=1" in log.read_text()


def test_a_retry_that_becomes_due_while_a_long_job_runs_does_not_wait_for_its_end(app, drain):
    @app.handler("long")
    def long(_payload):
        deadline = time.monotonic() + 20
        while sum(count.done for count in app.driver.counts()) < 300:
            assert time.monotonic() < deadline, "the retried job was not started"
            time.sleep(0.02)

    @app.handler("quick", retry=Fixed(timedelta(milliseconds=500)))
    def quick(payload, ctx):
        if payload == 299 and ctx.attempt == 1:
            raise RuntimeError("again, please")

    app.client.enqueue([long.request(), *(quick.request(number) for number in range(300))])
    assert drain(lease=timedelta(seconds=15)) == {"acked": 301, "retried": 1}


@pytest.mark.parametrize("kind", [Settle, Extend])
def test_a_store_that_does_not_answer_does_not_keep_the_worker_from_stopping(app, monkeypatch, kind):
    app.handler("quick")(lambda _payload: time.sleep(1)).enqueue(1)
    answers, is_called = threading.Event(), threading.Event()

    def hang(request, do):
        is_called.set()
        answers.wait(60)
        return do(request)

    answer_requests(monkeypatch, app.driver, kind, hang)
    options = WorkerOptions(processes=1, lease=timedelta(milliseconds=600), drain=timedelta(0))
    made = Worker(app.driver, options, catalogue=app.catalogue, timing=WorkerTiming(stop_seconds=0.2))
    thread = threading.Thread(target=made.run)
    thread.start()
    assert is_called.wait(30)
    made.stop()
    thread.join(30)
    has_ended = not thread.is_alive()
    answers.set()
    thread.join(30)
    assert has_ended


LOCKED_PROGRAM = """
    import sys, time
    from datetime import timedelta
    from pathlib import Path
    from holdfast.app import Holdfast

    app, folder, drain = Holdfast(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])

    @app.handler("long")
    def long(payload):
        (folder / "begun").touch()
        while not (folder / "end").exists():
            time.sleep(0.02)

    app.worker(processes=2, drain=timedelta(seconds=drain), grace=timedelta(seconds=0.5)).run()
    app.close()
"""
MAX_SECONDS = 8  # for a worker with a drain and grace time of half a second each, on a busy machine


@pytest.mark.parametrize(
    ("blocked", "drain_seconds", "signals"),
    [("reserve", 0.5, 1), ("settle", 0.5, 1), ("reserve", 90, 2), ("settle", 90, 2)],
)
def test_a_lock_of_another_process_does_not_keep_a_worker_from_stopping(app, tmp_path, blocked, drain_seconds, signals):
    """The lock is held for longer than drain and grace. A second signal does not wait for the drain time either."""
    app.client.enqueue(JobRequest(type="long"))
    command = [sys.executable, "-c", textwrap.dedent(LOCKED_PROGRAM), app.url, str(tmp_path), str(drain_seconds)]
    process = subprocess.Popen(command)
    try:
        _wait_for(tmp_path / "begun", process)
        with closing(sqlite3.connect(app.driver.engine.path, isolation_level=None, timeout=30)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if blocked == "settle":
                (tmp_path / "end").touch()
            time.sleep(4 * worker.POLL_SECONDS)  # by now the worker has called the store, and waits for the lock
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
                time.sleep(2 * worker.POLL_SECONDS)  # two signals at the same time would be one
            began = time.monotonic()
            assert process.wait(60) == 0
            assert time.monotonic() - began < MAX_SECONDS
    finally:
        process.kill()
        process.wait()


def _wait_for(file: Path, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not file.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
