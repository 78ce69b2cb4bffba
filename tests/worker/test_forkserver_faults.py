"""Handlers that attack the fork server, and processes that leave their group: the worker replaces what it loses."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import JobRequest
from holdfast.errors import ChildrenUnavailable
from tests.processes import children, is_alive
from tests.waiting import wait_until
from tests.worker.conftest import ended

HEALTHY = 200


def kills_the_fork_server(_payload):
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def stops_the_fork_server(_payload):
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(60)


def leaves_its_process_group(_payload):
    os.setpgid(0, os.getpgid(os.getppid()))
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@pytest.mark.parametrize("handler", [kills_the_fork_server, stops_the_fork_server], ids=lambda one: one.__name__)
def test_a_lost_fork_server_is_replaced_and_only_what_ran_is_charged(app, drain, handler):
    hostile = app.handler("hostile")(handler)
    healthy = app.handler("healthy")(lambda _payload: None)
    healthy_answers = app.client.enqueue([healthy.request() for _ in range(HEALTHY)])
    answer = hostile.enqueue()
    healthy_answers += app.client.enqueue([healthy.request() for _ in range(HEALTHY)])
    drain(lease=timedelta(seconds=30))
    record = ended(app, answer)
    assert (record.dead_reason, record.crashes) == ("poison", 3)
    records = [ended(app, one) for one in healthy_answers]
    assert {one.state for one in records} == {"done"}
    assert sum(one.attempts - 1 for one in records) <= 3  # a job that ran in the other child at the time of a crash


def test_a_worker_without_any_fork_server_settles_what_ran_and_raises(app):
    @app.handler("hostile")
    def hostile(_payload):
        server = os.getppid()
        os.kill(server, signal.SIGSTOP)  # else it would fork another spare one
        for pid in [*(pid for pid in children(server) if pid != os.getpid()), server]:
            os.kill(pid, signal.SIGKILL)
        time.sleep(60)

    answer = hostile.enqueue()
    with pytest.raises(ChildrenUnavailable, match="both fork servers have ended"):
        app.worker(processes=1).run()
    assert app.client.get(answer.id).crashes == 1


def test_a_handler_that_leaves_its_process_group_is_stopped_at_its_timeout(app, drain):
    hostile = app.handler("hostile", max_attempts=1, timeout=timedelta(milliseconds=200))(leaves_its_process_group)
    answer = hostile.enqueue()
    assert drain(processes=1) == {"dead": 1}
    assert "timed out" in ended(app, answer).last_error


def test_a_child_that_is_about_to_be_killed_gets_no_other_job(app, drain, tmp_path):
    """The fork server is slow to kill it, and its handler ends after all."""

    @app.handler("stubborn", max_attempts=1, timeout=timedelta(milliseconds=50))
    def stubborn(_payload):
        os.kill(os.getppid(), signal.SIGSTOP)
        with contextlib.suppress(BaseException):
            time.sleep(60)
        time.sleep(1)  # longer than the grace time
        return os.getppid()

    @app.handler("innocent")
    def innocent(_payload):
        with (tmp_path / "began").open("a") as file:
            file.write("once ")
        time.sleep(1)

    answer, _ = stubborn.enqueue(), innocent.enqueue()

    def let_fork_server_go_on():
        server = int(wait_until(lambda: app.client.get(answer.id).result))
        time.sleep(0.3)  # by now the other job has begun, or waits for another child
        os.kill(server, signal.SIGCONT)

    thread = threading.Thread(target=let_fork_server_go_on)
    thread.start()
    assert drain(processes=1) == {"acked": 2}
    thread.join()
    assert (tmp_path / "began").read_text() == "once "


PROGRAM = """
    import os, signal, sys, time
    from datetime import timedelta
    from pathlib import Path
    from holdfast.app import Holdfast

    app, folder = Holdfast(sys.argv[1]), Path(sys.argv[2])

    @app.handler("stop")
    def stop(_payload):
        os.kill(os.getppid(), signal.SIGSTOP)
        (folder / "pids").write_text(f"{os.getppid()} {os.getpid()}")
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass

    app.worker(processes=1, drain=timedelta(seconds=0.1), grace=timedelta(seconds=0.2)).run()
"""


def test_sigterm_ends_a_worker_whose_fork_server_is_stopped_and_nothing_stays_behind(app, tmp_path):
    app.client.enqueue(JobRequest(type="stop"))
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(PROGRAM), app.url, str(tmp_path)])
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "pids").exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        deadline = time.monotonic() + 10
        while any(is_alive(pid) for pid in pids):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()


# Too few file descriptors -------------------------------------------------------------------------------------


def test_a_worker_with_too_few_file_descriptors_says_what_to_do(app, tmp_path):
    (tmp_path / "jobs.py").write_text(
        f"from holdfast import Holdfast\napp = Holdfast({app.url!r})\napp.handler('a')(lambda payload: None)\n"
    )
    command = [Path(sys.executable).parent / "holdfast", "work", "jobs:app", "--processes", "4"]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        "holdfast: no child process can be started: Too many open files: "
        "raise the limit of open files (20 now, ulimit -n) or use fewer processes"
    )


WITHOUT_DESCRIPTORS = """
    import logging, os, resource, signal, sys, threading, time
    from holdfast.app import Holdfast

    app = Holdfast(sys.argv[1])

    @app.handler("pid")
    def pid(_payload):
        return os.getpid()

    def wait_until(condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    class Reasons(logging.Handler):
        seen = []

        def emit(self, record):
            if record.event == "child.not_started":
                self.seen.append(record.reason)

    logging.getLogger("holdfast.worker").addHandler(Reasons())
    answer = pid.enqueue()
    worker = app.worker(processes=1)
    worker.prepare()
    thread = threading.Thread(target=worker.run)
    thread.start()
    child = app.client.wait(answer.id, timeout=60) and app.client.result(answer.id)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))  # what is open stays open
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: Reasons.seen)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    answer = pid.enqueue()
    wait_until(lambda: app.client.get(answer.id).state == "done")
    worker.stop()
    thread.join(60)
    print(Reasons.seen[0])
"""


def test_a_child_that_cannot_be_started_is_started_later(app):
    program = [sys.executable, "-c", textwrap.dedent(WITHOUT_DESCRIPTORS), app.url]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.startswith("Too many open files: raise the limit of open files (")
