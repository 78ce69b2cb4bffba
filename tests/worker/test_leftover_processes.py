"""The processes that a handler has started, when its attempt is ended by force, and when its child process ends."""

import contextlib
import os
import signal
import subprocess
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tests.worker.conftest import ended

GRANDCHILDREN = 20


@pytest.fixture
def pids(tmp_path):
    """The folder in which handlers keep process ids. What is left of these processes is killed at the end."""
    folder = tmp_path / "pids"
    folder.mkdir()
    yield folder
    for pid in _living(folder):
        os.kill(pid, signal.SIGKILL)


def test_an_attempt_that_is_killed_takes_all_its_processes_with_it(app, drain, pids):
    """Also those that were forked without an exec, and those that left its session."""

    @app.handler("forks", max_attempts=1, timeout=timedelta(seconds=1))
    def forks(_payload):
        for number in range(GRANDCHILDREN):
            if os.fork() == 0:
                if number % 2:
                    os.setsid()
                if number % 4 == 0 and os.fork() == 0:
                    os.setsid()
                (pids / str(os.getpid())).touch()
                time.sleep(90)
                os._exit(0)
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(90)

    answer = forks.enqueue()
    assert drain(processes=1) == {"dead": 1}
    assert "timed out" in ended(app, answer).last_error
    assert len(list(pids.iterdir())) == GRANDCHILDREN + GRANDCHILDREN // 4
    assert not _living_at_last(pids)


@pytest.mark.parametrize("new_session", [False, True])
def test_a_background_process_ends_with_its_child_unless_it_has_a_session_of_its_own(app, drain, pids, new_session):
    @app.handler("leaves")
    def leaves(_payload):
        process = subprocess.Popen(["sleep", "90"], start_new_session=new_session)
        (pids / str(process.pid)).touch()

    leaves.enqueue()
    assert drain(processes=1) == {"acked": 1}
    assert bool(_living_at_last(pids)) == new_session


def _living_at_last(folder: Path) -> list[int]:
    """Those that are alive after a moment: SIGKILL takes effect a little later."""
    deadline = time.monotonic() + 5
    while (living := _living(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def _living(folder: Path) -> list[int]:
    found = []
    for pid in [int(path.name) for path in folder.iterdir()]:
        with contextlib.suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found
