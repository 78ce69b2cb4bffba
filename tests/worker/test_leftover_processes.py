"""The processes that a handler has started: they end with its attempt, or with its child process if they are kept."""

import contextlib
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from tests.processes import is_alive
from tests.waiting import wait_until

pytestmark = pytest.mark.linux_only  # elsewhere only the process group of a child is killed

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

    @app.handler("forks")
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

    def cancel_when_all_run():  # a timeout would have to be longer than the forks take on any machine
        wait_until(lambda: len(list(pids.iterdir())) == GRANDCHILDREN + GRANDCHILDREN // 4)
        app.client.cancel(answer.id)

    with ThreadPoolExecutor() as pool:
        canceller = pool.submit(cancel_when_all_run)
        assert drain(processes=1, lease=timedelta(seconds=15)) == {"cancelled": 1}
        canceller.result()
    assert not _living_at_last(pids)


@pytest.fixture
def start(pids):
    """A function that starts a process that stays, and returns its process id."""

    def start_process(*, ignores_sigterm: bool = False, is_daemon: bool = False, new_session: bool = False) -> int:
        program = f"{'trap : TERM; ' if ignores_sigterm else ''}while :; do sleep 1; done"
        shell = f"sh -c '{program}' & echo $!" if is_daemon else f"echo $$; {program}"
        process = subprocess.Popen(
            ["sh", "-c", shell], stdout=subprocess.PIPE, text=True, start_new_session=new_session or is_daemon
        )
        pid = int(process.stdout.readline())
        (pids / str(pid)).touch()
        return pid

    start_process.pids = pids
    return start_process


KINDS = [{}, {"new_session": True}, {"ignores_sigterm": True}, {"is_daemon": True}]


@pytest.mark.parametrize("ending", ["returns", "raises", "is interrupted"])
def test_processes_that_an_attempt_left_behind_are_ended_with_it(app, drain, start, caplog, ending):
    """The next job of the same child process finds none of them."""
    pids = start.pids

    @app.handler("leaves", max_attempts=1, timeout=timedelta(seconds=2) if ending == "is interrupted" else None)
    def leaves(_payload):
        for kind in KINDS:
            start(**kind)
        if ending == "raises":
            raise RuntimeError("on purpose")
        if ending == "is interrupted":
            time.sleep(90)
        return os.getpid()

    @app.handler("looks")
    def looks(_payload):
        return [os.getpid(), len(list(pids.iterdir())), len(_living(pids))]

    grace = timedelta(seconds=4 if ending == "is interrupted" else 0.3)  # the child is not killed before its report
    first = leaves.enqueue()
    assert drain(processes=1, max_jobs=1, until_drained=False, grace=grace) == {
        "acked" if ending == "returns" else "dead": 1
    }
    assert not _living(pids)
    [record] = [record for record in caplog.records if getattr(record, "event", "") == "job.processes_ended"]
    assert record.job_id == first.id
    assert record.processes.count("sh (") == len(KINDS)

    second = leaves.enqueue()
    third = looks.enqueue()
    drain(processes=1, grace=grace)
    child, started, living = app.client.result(third.id)
    assert (started, living) == (2 * len(KINDS), 0)
    if ending == "returns":
        assert app.client.result(second.id) == child


def test_processes_of_a_resource_are_kept_until_the_child_ends(app, drain, pids, start):
    @app.resource
    def server():
        return start(new_session=True)

    @app.handler("uses")
    def uses(_payload, ctx):
        start()
        return [ctx.resources["server"], _living(pids)]

    answers = [uses.enqueue() for _ in range(3)]
    assert drain(processes=1) == {"acked": 3}
    for answer in answers:
        server_pid, living = app.client.result(answer.id)
        assert server_pid in living
        assert len(living) == 2  # the server, and the process of this attempt
    assert _living(pids) == [server_pid]  # it has a session of its own, and the resource does not close it


@pytest.mark.parametrize("new_session", [False, True])
def test_kept_processes_end_with_their_child_unless_they_have_a_session_of_their_own(
    app, drain, pids, start, new_session
):
    @app.handler("leaves")
    def leaves(_payload):
        living = len(_living(pids))
        start(new_session=new_session)
        return living

    leaves.enqueue()
    second = leaves.enqueue()
    assert drain(processes=1, keep_processes=True) == {"acked": 2}
    assert app.client.result(second.id) == 1
    assert len(_living_at_last(pids)) == (2 if new_session else 0)


def test_helpers_of_multiprocessing_are_not_ended(app, drain, caplog):
    @app.handler("shares")
    def shares(_payload):
        from multiprocessing import resource_tracker, shared_memory

        memory = shared_memory.SharedMemory(create=True, size=1)
        memory.close()
        memory.unlink()
        return resource_tracker._resource_tracker._pid

    answers = [shares.enqueue() for _ in range(2)]
    assert drain(processes=1) == {"acked": 2}
    first, second = (app.client.result(answer.id) for answer in answers)
    assert first == second
    assert "job.processes_ended" not in caplog.text


@pytest.mark.parametrize("is_async", [False, True])
def test_concurrent_attempts_end_their_own_processes_and_not_those_of_others(app, drain, pids, start, is_async):
    """A process of an async handler has no known owner: it is ended when no attempt of its child is running."""

    def leave(_payload):
        return start()

    async def leave_async(_payload):
        return start()

    leaves = app.handler("leaves")(leave_async if is_async else leave)

    @app.handler("stays", timeout=timedelta(seconds=60))
    def stays(_payload):
        own = start()
        (pids.parent / "stays").touch()
        while len(list(pids.iterdir())) < 2 or not (pids.parent / "left").exists():
            time.sleep(0.02)
        left = int((pids.parent / "left").read_text())
        deadline = time.monotonic() + (0 if is_async else 30)
        while left in (living := _living(pids)) and time.monotonic() < deadline:
            time.sleep(0.02)
        return [own in living, left in living]

    @app.middleware
    def in_order(ctx, call_next):
        if ctx.job.type == "stays":
            return call_next()
        while not (pids.parent / "stays").exists():
            time.sleep(0.02)
        pid = call_next()
        (pids.parent / "left.new").write_text(str(pid))
        (pids.parent / "left.new").rename(pids.parent / "left")  # whole, as soon as it is there
        return pid

    answer = stays.enqueue()
    leaves.enqueue()
    assert drain(processes=1, concurrency=2, lease=timedelta(seconds=15)) == {"acked": 2}
    assert app.client.result(answer.id) == [True, is_async]
    assert not _living_at_last(pids)


def _living_at_last(folder: Path) -> list[int]:
    """Those that are alive after a moment: SIGKILL takes effect a little later."""
    deadline = time.monotonic() + 5
    while (living := _living(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return living


def _living(folder: Path) -> list[int]:
    return [pid for pid in [int(path.name) for path in folder.iterdir()] if is_alive(pid)]
