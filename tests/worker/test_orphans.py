"""A worker that is killed together with its fork servers leaves no child behind."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from holdfast import JobRequest
from tests.processes import descendants, is_alive

MAX_WAIT_SECONDS = 30.0  # after which a test has failed

PROGRAM = """
    import os, sys, time
    from pathlib import Path
    from holdfast.app import Holdfast
    from holdfast import linux

    url, folder, handler, concurrency = sys.argv[1:]
    app = Holdfast(url)

    @app.handler("in_c")
    def in_c(_payload):
        Path(folder, "child").write_text(str(os.getpid()))
        sum(range(10**12))  # holds the GIL, and checks no signal

    @app.handler("in_python")
    def in_python(_payload):
        Path(folder, "child").write_text(str(os.getpid()))
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass

    if handler == "in_python":
        linux.IS_LINUX = False
    app.worker(processes=1, concurrency=int(concurrency)).run()
"""


@pytest.mark.parametrize(
    ("handler", "concurrency"),
    [pytest.param("in_c", 1, marks=pytest.mark.linux_only), ("in_python", 1), ("in_python", 2)],
    ids=["by the kernel", "by the end of its connection", "by the end of its connection, with threads"],
)
def test_a_child_ends_with_its_worker_and_its_fork_server(app, tmp_path, handler, concurrency):
    app.client.enqueue(JobRequest(type=handler))
    program = [sys.executable, "-c", textwrap.dedent(PROGRAM), app.url, str(tmp_path), handler, str(concurrency)]
    process = subprocess.Popen(program)
    child = None
    try:
        wait_until((tmp_path / "child").exists)
        wait_until((tmp_path / "child").read_text)
        child = int((tmp_path / "child").read_text())
        others = [process.pid, *(pid for pid in descendants(process.pid) if pid != child)]
        assert len(others) == 3  # with two fork servers
        for number in (signal.SIGSTOP, signal.SIGKILL):  # so that none of them sees the end of another one
            for pid in others:
                os.kill(pid, number)
        wait_until(lambda: not is_alive(child))
    finally:
        process.kill()
        process.wait()
        if child is not None and is_alive(child):
            os.kill(child, signal.SIGKILL)


def wait_until(condition):
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
