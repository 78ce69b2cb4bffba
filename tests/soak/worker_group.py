"""Workers as separate processes: started, stopped, killed, replaced, and observed from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uuid_utils

from holdfast.driver import JobRecord, Store, SystemClock
from tests.soak.worker_program import QUEUE, SLEEP

REPOSITORY = Path(__file__).resolve().parents[2]
POLL_INTERVAL_SECONDS = 0.02


class WorkerProcess:
    """One worker process in a new session: the forkserver and the children are in its process group."""

    def __init__(self, url: str, folder: Path, **options: object) -> None:
        command = [sys.executable, "-m", "tests.soak.worker_program", url, str(folder), json.dumps(options)]
        self._stderr = (folder / f"errors.{time.monotonic_ns()}").open("w+")
        self.process = subprocess.Popen(
            command, stderr=self._stderr, cwd=REPOSITORY, start_new_session=True, stdout=subprocess.DEVNULL
        )
        self.pid = self.process.pid
        self._folder = folder
        self._group_is_gone = False
        self._resume_timer: threading.Timer | None = None

    def signal(self, number: int, *, whole_group: bool = False) -> None:
        """Signal the worker, or also its children. Does nothing once all have exited: process ids are reused."""
        if self._group_is_gone:
            return
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if whole_group else os.kill)(self.pid, number)

    def stop_for(self, seconds: float, *, whole_group: bool) -> None:
        """Stop the worker. A thread resumes it, because the caller may block on a commit of the stopped worker."""
        self.signal(signal.SIGSTOP, whole_group=whole_group)
        self._resume_timer = threading.Timer(seconds, self.signal, [signal.SIGCONT], {"whole_group": True})
        self._resume_timer.start()

    @property
    def is_stopped(self) -> bool:
        """Whether the worker is stopped and will be resumed by its timer."""
        return self._resume_timer is not None and self._resume_timer.is_alive()

    def has_reserved(self) -> bool:
        """Whether the worker has called reserve: before that, a signal ends it like any program that starts."""
        return any(self._folder.glob(f"settled.{self.pid}.*"))

    def wait(self, timeout: float) -> int:
        """Wait for the exit of the worker; return its exit code."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {self.pid} has not exited within {timeout} s: {self.errors()}") from None
        finally:
            self._stderr.flush()

    def errors(self) -> str:
        """What the worker wrote to stderr."""
        self._stderr.seek(0)
        return self._stderr.read()

    def close(self) -> None:
        """Kill every process of the group that still runs."""
        if self._resume_timer is not None:
            self._resume_timer.cancel()
            self._resume_timer.join()
        if not self.is_gone():
            self.signal(signal.SIGKILL, whole_group=True)
        self.process.wait()
        self._stderr.close()

    def remaining_processes(self) -> list[tuple[int, str]]:
        """The processes of the group that still exist: process ids and states."""
        remaining = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                pid, (state, _, group) = int(stat.parent.name), stat.read_text().rsplit(")", 1)[1].split()[:3]
                remaining += [(pid, state)] if int(group) == self.pid else []
        return remaining

    def is_gone(self) -> bool:
        """Whether the worker and all its children have exited."""
        self.process.poll()
        if not self._group_is_gone:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                self._group_is_gone = True
        return self._group_is_gone


@contextlib.contextmanager
def worker_group(url: str, folder: Path) -> Iterator[Callable[..., WorkerProcess]]:
    """A function that starts workers; all of them are killed at the end of the block."""
    workers: list[WorkerProcess] = []

    def start(**options: object) -> WorkerProcess:
        workers.append(WorkerProcess(url, folder, **options))
        return workers[-1]

    try:
        yield start
    finally:
        for worker in workers:
            worker.close()


def stop_all(workers: list[WorkerProcess], *, timeout: float) -> None:
    """Send SIGTERM to every worker and check that each exits with 0."""
    for worker in workers:
        worker.signal(signal.SIGTERM)
    codes = [worker.wait(timeout) for worker in workers]
    assert codes == [0] * len(workers), (codes, [worker.errors() for worker in workers])


def sleep_jobs(seconds: list[float], **fields: object) -> list[JobRecord]:
    """One job for each of these durations."""
    now = SystemClock().now()
    common: dict[str, object] = {"type": SLEEP, "queue": QUEUE, "created_at": now, **fields}
    return [
        JobRecord(id=str(uuid_utils.uuid7()), payload=json.dumps(each).encode(), **common)  # type: ignore[arg-type]
        for each in seconds
    ]


def count_unfinished(store: Store) -> int:
    """The number of jobs that have not ended."""
    return sum(count.ready + count.scheduled + count.inflight for count in store.counts())


def wait_until(condition: Callable[[], bool], *, timeout: float, otherwise: Callable[[], str]) -> None:
    """Poll until the condition holds; after the timeout, fail with the text of ``otherwise``."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, otherwise()
        time.sleep(POLL_INTERVAL_SECONDS)


def wait_until_started(workers: list[WorkerProcess], *, timeout: float) -> None:
    """Wait until every worker has called reserve."""
    wait_until(
        lambda: all(worker.has_reserved() for worker in workers),
        timeout=timeout,
        otherwise=lambda: f"a worker does not start: {[worker.errors() for worker in workers]}",
    )
