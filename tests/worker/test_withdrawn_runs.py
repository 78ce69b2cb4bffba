"""Jobs that wait in a child which does not begin them run elsewhere, and begin once."""

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from datetime import timedelta

import pytest

from holdfast import JobRequest
from tests.worker.conftest import QUICK

MAX_WAIT_SECONDS = 60.0  # after which a test has failed
BEFORE, BEHIND = 300, 200  # quick jobs around one that takes long: so many that some of them wait in its child


@pytest.fixture
def begun(tmp_path):
    """A function for handlers, which notes that a job begins; its ``jobs`` counts how often each has begun."""

    def begin(job_id):
        with (tmp_path / "begun").open("a") as file:
            file.write(f"{job_id}\n")

    begin.jobs = lambda: Counter((tmp_path / "begun").read_text().split())
    return begin


@pytest.fixture
def start(app):
    """Start a worker; return it, and a function that waits for its end."""
    running = []

    def run(**keywords):
        worker = app.worker(**{"processes": 2, "retry": QUICK, "until_drained": True, **keywords})
        worker.prepare()
        thread = threading.Thread(target=worker.run)
        thread.start()
        running.append((worker, thread))
        return worker, lambda: thread.join(MAX_WAIT_SECONDS)

    yield run
    for worker, thread in running:
        worker.stop(at_once=True)
        thread.join(MAX_WAIT_SECONDS)
        assert not thread.is_alive()


def wait_until(condition):
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def done(app) -> int:
    return sum(count.done for count in app.driver.counts())


@pytest.mark.parametrize("concurrency", [1, 3])
def test_jobs_behind_one_whose_child_is_stopped_run_elsewhere_and_begin_once(app, start, begun, tmp_path, concurrency):
    @app.handler("job")
    def job(payload, ctx):
        begun(ctx.job.id)
        if payload == "stop":
            (tmp_path / "pid").write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGSTOP)

    payloads = [*[None] * BEFORE, "stop", *[None] * BEHIND]
    answers = app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    _, join = start(concurrency=concurrency)
    wait_until(lambda: done(app) > BEFORE + BEHIND - concurrency)  # all but those that the child had begun
    wait_until(lambda: app.driver.counts()[0].inflight <= concurrency)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGCONT)
    join()
    assert done(app) == len(payloads)
    assert begun.jobs() == {answer.id: 1 for answer in answers}


def test_a_child_that_is_stopped_while_it_is_idle_keeps_no_job(app, start, begun):
    @app.handler("job")
    def job(_payload, ctx):
        begun(ctx.job.id)
        time.sleep(0.05)
        return os.getpid()

    def run_jobs(count):
        answers = app.client.enqueue([job.request() for _ in range(count)])
        wait_until(lambda: all(app.client.get(one.id).state == "done" for one in answers))
        return {app.client.result(one.id) for one in answers}

    start(until_drained=False)
    pids = run_jobs(20)
    assert len(pids) == 2
    stopped, other = pids
    os.kill(stopped, signal.SIGSTOP)
    try:
        assert run_jobs(20) == {other}
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: stopped in run_jobs(2))
    assert set(begun.jobs().values()) == {1}


@pytest.mark.parametrize("library", [ctypes.CDLL, ctypes.PyDLL], ids=["without the GIL", "with the GIL"])
def test_jobs_behind_a_call_into_c_run_elsewhere_and_no_signal_cuts_the_call_short(app, drain, library):
    @app.handler("job")
    def job(payload):
        return library(None).sleep(payload) if payload else None  # 0, or the seconds that a signal has saved

    payloads = [*[0] * BEFORE, 2, *[0] * BEHIND]
    answers = app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    assert drain() == {"acked": len(payloads)}
    assert app.client.result(answers[BEFORE].id) == 0
    assert [row.job_id for row in app.driver.ledger(limit=1000)][-1] == answers[BEFORE].id


def test_a_call_into_c_in_a_thread_is_not_cut_short_by_the_interrupt_of_another_job(app, drain):
    @app.handler("calls")
    def calls(_payload):
        return ctypes.CDLL(None).sleep(2)

    @app.handler("times.out", timeout=timedelta(milliseconds=200), max_attempts=1)
    def times_out(_payload):
        while True:
            time.sleep(0.01)

    answer, _ = calls.enqueue(), times_out.enqueue()
    assert drain(processes=1, concurrency=2) == {"acked": 1, "dead": 1}
    assert app.client.result(answer.id) == 0


def test_the_signal_for_an_attempt_that_ends_by_itself_reaches_no_other_attempt(app, drain):
    timeout = timedelta(milliseconds=10)

    @app.handler("times.out", timeout=timeout)
    def times_out(share, ctx):
        until = time.monotonic() + share * timeout.total_seconds()
        while ctx.attempt == 1 and time.monotonic() < until:
            pass

    @app.handler("calls")
    def calls(_payload):
        return ctypes.CDLL(None).usleep(2000)  # 0, or -1 if a signal has cut it short

    shares = [0.9 + number / 500 for number in range(100)]  # of the timeout
    answers = app.client.enqueue([one for share in shares for one in (times_out.request(share), calls.request())])
    drain(processes=1)
    assert {app.client.result(answer.id) for answer in answers[1::2]} == {0}


def test_the_signal_for_an_attempt_does_not_wait_for_a_fork_server_and_reach_the_next_attempt(app, drain):
    @app.handler("times.out", timeout=timedelta(milliseconds=50), max_attempts=1)
    def times_out(_payload):
        os.kill(os.getppid(), signal.SIGSTOP)  # the fork server
        while True:
            time.sleep(0.01)

    @app.handler("calls")
    def calls(_payload):
        with subprocess.Popen(["/bin/sh", "-c", f"sleep 0.2; kill -CONT {os.getppid()}"]):
            return ctypes.CDLL(None).usleep(900_000)  # 0, or -1 if a signal has cut it short

    _, answer = times_out.enqueue(), calls.enqueue()
    assert drain(processes=1) == {"acked": 1, "dead": 1}
    assert app.client.result(answer.id) == 0


def test_a_worker_that_stops_gives_back_what_its_stopped_child_has_not_begun(app, start, begun, tmp_path):
    @app.handler("job")
    def job(payload, ctx):
        begun(ctx.job.id)
        if payload == "stop":
            (tmp_path / "stopped").touch()
            os.kill(os.getpid(), signal.SIGSTOP)

    payloads = [*[None] * BEFORE, "stop", *[None] * BEHIND]
    answers = app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    worker, join = start(processes=1, drain=timedelta(seconds=0), grace=timedelta(milliseconds=200))
    wait_until((tmp_path / "stopped").exists)
    worker.stop()
    join()
    [count] = app.driver.counts()
    assert (count.inflight, count.done + count.ready) == (0, len(payloads))
    assert app.client.get(answers[BEFORE].id).state == "ready"
    assert count.done == len(begun.jobs()) - 1


@pytest.mark.parametrize("size", [8, 3], ids=["whole tickets", "parts of tickets"])
def test_a_handler_that_reads_the_tickets_of_its_child_costs_no_other_job_an_attempt(app, drain, size):
    @app.handler("job")
    def job(payload):
        if payload == "read":
            for number in range(3, 64):
                with contextlib.suppress(OSError):
                    if not os.get_blocking(number):
                        os.read(number, size)

    payloads = [*[None] * BEFORE, "read", *[None] * BEHIND]
    answers = app.client.enqueue([JobRequest(type="job", payload=payload) for payload in payloads])
    drain(processes=1)
    assert done(app) == len(payloads)
    attempts = [app.client.get(answer.id).attempts for index, answer in enumerate(answers) if index != BEFORE]
    assert set(attempts) == {1}
