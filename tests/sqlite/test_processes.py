"""Many processes, one file: no errors, no job lost or ended twice, also when processes are killed or fork."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

import holdfast
import holdfast.errors
from holdfast.clock import SECOND
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack

PROGRAM = Path(__file__).with_name("process_roles.py")


class RoleProcess:
    """A process of ``process_roles.py`` and the lines that it has reported."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.reports: list[list[str]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            if line.endswith("\n"):  # a killed process may leave half a line, which is not a report
                self.reports.append(line.split())

    def wait_for_reports(self, count: int, timeout: float = 60) -> None:
        """Block until the process has reported so many lines, or has ended."""
        deadline = time.monotonic() + timeout
        while len(self.reports) < count and self.process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)

    def end(self, timeout: float = 120) -> str:
        """Wait for the process and return its stderr."""
        errors = self.process.stderr.read()
        self.process.wait(timeout)
        self._reader.join(timeout)
        self.process.stdout.close()
        self.process.stderr.close()
        return errors


def run_on_file(path: Path, *, producers: int, consumers: int, jobs: int, kills: int = 0) -> None:
    """Run the processes on one file, and check that the file is intact."""
    run_processes(f"sqlite:///{path}", producers=producers, consumers=consumers, jobs=jobs, kills=kills)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def run_processes(url: str, *, producers: int, consumers: int, jobs: int, kills: int = 0) -> None:
    """Run producers and consumers, kill and replace some consumers, then check every report."""
    store = holdfast.connect(url)
    dice = random.Random(jobs + kills)
    producing = [RoleProcess("produce", url, jobs) for _ in range(producers)]
    producing[0].end()  # otherwise the consumers would find no job and exit
    consuming = [RoleProcess("consume", url) for _ in range(consumers)]
    killed = []
    for _ in range(kills):
        time.sleep(dice.uniform(0.02, 0.3))
        victim = dice.choice(consuming)
        victim.process.send_signal(signal.SIGKILL)
        consuming.remove(victim)
        killed.append(victim)
        consuming.append(RoleProcess("consume", url))
    for process in producing[1:]:
        assert process.end() == ""
    consuming.append(RoleProcess("consume", url))  # starts when all jobs are enqueued, and exits when all have ended
    for process in consuming:
        assert process.end() == ""
        assert process.process.returncode == 0
    for process in killed:
        process.end()
    check(store, [report for process in (*producing, *consuming, *killed) for report in process.reports])
    store.close()


def check(store: holdfast.connect, reports: list[list[str]]) -> None:
    """Every accepted job has ended once, every reported end is in the ledger, and no leases overlap."""
    accepted = {job_id for word, job_id, *_ in reports if word == "accepted"}
    reported_ends = Counter(
        (job_id, int(fence)) for word, job_id, *rest in reports if word == "ended" for fence in rest
    )
    rows, cursor = [], None
    while (page := store.ledger(after=cursor)).items:
        rows += page.items
        cursor = page.cursor
    final = [row for row in rows if row.ending in (Ending.ACKED, Ending.FAILED)]
    assert len(final) == len({row.job_id for row in final}) == len(accepted)
    assert {row.job_id for row in final} == accepted
    assert set(reported_ends) <= {(row.job_id, row.fence) for row in final}
    assert max(reported_ends.values()) == 1
    assert sum(count.done + count.dead for count in store.counts()) == len(accepted)
    fences = [row.fence for row in rows]
    assert len(fences) == len(set(fences))
    by_job: dict[str, list] = {}
    by_domain: dict[tuple, list] = {}
    for row in sorted(rows, key=lambda row: row.fence):
        by_job.setdefault(row.job_id, []).append(row)
        if row.domain is not None:
            by_domain.setdefault((row.queue, row.domain), []).append(row)
    for leases in (*by_job.values(), *by_domain.values()):
        for earlier, later in pairwise(leases):
            assert later.reserved_at >= earlier.ended_at


def test_eight_processes_use_one_file_without_an_error(path):
    run_on_file(path, producers=3, consumers=5, jobs=400)


def test_killed_consumers_lose_no_job_and_repeat_none(path):
    run_on_file(path, producers=2, consumers=3, jobs=400, kills=6)


def test_accepted_jobs_survive_a_kill_of_the_producer(path):
    """Every reported id exists, no matter what the producer did when it was killed."""
    dice = random.Random(7)
    accepted = set()
    for _ in range(5):
        process = RoleProcess("produce", f"sqlite:///{path}", 100_000)
        while len(process.reports) < 50:
            assert process.process.poll() is None
            time.sleep(0.005)
        time.sleep(dice.uniform(0, 0.05))
        process.process.kill()
        process.end()
        accepted |= {job_id for _, job_id in process.reports}
    store = holdfast.connect(f"sqlite:///{path}")
    assert len(accepted) > 250
    assert all(store.get(job_id) is not None for job_id in accepted)
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_opens_its_own_connections(path, job):
    store = holdfast.connect(f"sqlite:///{path}")
    store.enqueue([job(), job()])
    [mine] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
    child = os.fork()
    if child == 0:
        try:
            [its] = store.reserve(["q"], limit=1, lease_for=60 * SECOND)
            done = store.settle([Ack(its.lease)]) == [None]
            store.close()
        finally:
            os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.settle([Ack(mine.lease)]) == [None]
    assert store.counts()[0].done == 2
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_its_own_locks_before_its_first_call(path):
    """If the first call made them, another thread of the child could meanwhile wait for a lock of the parent."""
    with holdfast.connect(f"sqlite:///{path}") as store:
        with store.engine._database._write_lock:  # a thread of the parent is writing
            child = os.fork()
            if child == 0:
                os._exit(1 if store.engine._database._write_lock.locked() else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_store_is_closed_while_a_write_waits_for_the_lock_of_another_process(path, job):
    store = holdfast.connect(f"sqlite:///{path}?busy_for=60")
    errors = []

    def write():
        try:
            store.enqueue([job()])
        except holdfast.HoldfastError as error:
            errors.append(error)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        thread = threading.Thread(target=write)
        thread.start()
        deadline = time.monotonic() + 30
        while not store.engine._database._write_lock.locked():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        began = time.monotonic()
        store.close()
        thread.join(30)
        assert time.monotonic() - began < 30
    assert [type(error) for error in errors] == [holdfast.errors.StoreClosed]
    with holdfast.connect(f"sqlite:///{path}") as again:
        assert again.counts() == []
