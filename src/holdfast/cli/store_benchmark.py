"""How fast a store is: bulk enqueue, the driver loop alone, a worker with empty jobs, the latency of an idle worker.

Every measurement uses its own queue in the given space. Workers run in separate processes (see ``benchmark_worker``).
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Literal

import uuid_utils

from holdfast.cli import benchmark_worker
from holdfast.cli.benchmark_worker import NOOP_TYPE, REPORT_START_TYPE, START_TIME, WORKER_NAME
from holdfast.clock import MINUTE, SECOND, SystemClock, monotonic
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack

PAYLOAD = b'{"customer": 48151623, "action": "refresh", "note": "a payload of a usual size, some hundred bytes long"}'
BATCH_JOBS = 1000  # jobs in one transaction
PAUSE_SECONDS = (0.03, 0.09)  # between two latency samples, so that the worker is idle again
SAMPLES = 100
WORKER_TIMEOUT_SECONDS = 30.0  # for a worker to start, or to exit


class BenchmarkFailed(Exception):
    """A worker process failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Jobs and seconds of one measurement. ``size`` is the batch size, or the number of worker processes."""

    kind: Literal["enqueue", "loop", "worker"]
    size: int
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Jobs per second; 0 if no time passed."""
        return self.jobs / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from just before the call of enqueue to the first line of the handler, sorted."""

    seconds: list[float]

    def percentile(self, share: float) -> float:
        """The smallest sample that is at least as long as this share of all samples."""
        return self.seconds[max(0, math.ceil(len(self.seconds) * share) - 1)]


class StoreBenchmark:
    """Measurements in one space of a store; each takes at most ``max_seconds``."""

    def __init__(self, store: Store, *, url: str, space: str, jobs: int, max_seconds: float) -> None:
        self._store = store
        self._url, self._space = url, space
        self._jobs = jobs
        self._max_seconds = max_seconds

    def measure_enqueue(self, queue: str) -> Throughput:
        """Fill a queue in batches."""
        began = monotonic()
        enqueued = self._fill(queue)
        return Throughput(kind="enqueue", size=BATCH_JOBS, jobs=enqueued, seconds=monotonic() - began)

    def measure_loop(self, batch_size: int) -> Throughput:
        """Reserve and ack batches with the driver alone, in this process."""
        queue = f"loop-{batch_size}"
        self._fill(queue)
        done, began = 0, monotonic()
        while monotonic() - began < self._max_seconds:
            reserved = self._store.reserve([queue], limit=batch_size, lease_for=MINUTE, worker=WORKER_NAME)
            if not reserved:
                break
            answers = self._store.settle([Ack(one.lease) for one in reserved])
            refused = [error for error in answers if error is not None]
            if refused:
                raise refused[0]
            done += len(reserved)
        return Throughput(kind="loop", size=batch_size, jobs=done, seconds=monotonic() - began)

    def measure_worker(self, processes: int) -> Throughput:
        """From a worker's first reserve to its last ack, as the ledger records them: start and exit do not count."""
        queue = f"worker-{processes}"
        self._fill(queue)
        after = self._end_of_ledger()
        order = {"queue": queue, "processes": processes, "seconds": self._max_seconds}
        with self._worker(order) as process, suppress(subprocess.TimeoutExpired):
            process.wait(self._max_seconds + WORKER_TIMEOUT_SECONDS)
        done, first, last = 0, math.inf, 0
        while (page := self._store.ledger(after)).items:
            after = page.cursor
            for row in page:
                if row.queue == queue and row.ending is Ending.ACKED and row.reserved_at is not None:
                    done, first, last = done + 1, min(first, row.reserved_at), max(last, row.ended_at)
        seconds = (last - first) / SECOND if done else 0.0
        return Throughput(kind="worker", size=processes, jobs=done, seconds=seconds)

    def measure_latency(self) -> Latency:
        """Send one job at a time to an idle worker, for up to twice ``max_seconds``: this measurement mostly waits."""
        read_end, write_end = os.pipe()
        pauses = random.Random()  # noqa: S311 - random pauses avoid a resonance with the worker's poll interval
        samples: list[float] = []
        try:
            order = {"queue": "idle", "processes": 1, "pipe": write_end}
            with self._worker(order, pipe=write_end) as process:
                self._time_to_start(read_end, process)  # the first job also waits for the worker to start
                deadline = monotonic() + 2 * self._max_seconds
                while not samples or (len(samples) < SAMPLES and monotonic() < deadline):
                    time.sleep(pauses.uniform(*PAUSE_SECONDS))
                    samples.append(self._time_to_start(read_end, process))
        finally:
            os.close(read_end)
            os.close(write_end)
        return Latency(seconds=sorted(samples))

    def remove_all(self) -> int:
        """Remove every job and every ledger row of the space; return the number of jobs."""
        while self._store.reap(worker=WORKER_NAME):
            pass
        removed = 0
        while jobs := self._store.find(JobFilter(), limit=BATCH_JOBS).items:
            self._store.cancel([job.id for job in jobs if job.state is State.READY])
            purged = sum(self._store.purge([job.id for job in jobs]))
            removed += purged
            if not purged:
                break
        while self._store.trim(ledger_for=1).more:
            pass
        return removed

    # Steps ------------------------------------------------------------------------------------------------------

    def _fill(self, queue: str) -> int:
        began, enqueued = monotonic(), 0
        while enqueued < self._jobs and monotonic() - began < self._max_seconds:
            size = min(BATCH_JOBS, self._jobs - enqueued)
            self._store.enqueue([_job(NOOP_TYPE, queue) for _ in range(size)])
            enqueued += size
        return enqueued

    def _end_of_ledger(self) -> str | None:
        cursor: str | None = None
        while (page := self._store.ledger(cursor)).items:
            cursor = page.cursor
        return page.cursor

    def _time_to_start(self, pipe: int, process: subprocess.Popen[str]) -> float:
        job = _job(REPORT_START_TYPE, "idle")
        began = monotonic()
        self._store.enqueue([job])
        while not select.select([pipe], [], [], 0.5)[0]:
            if process.poll() is not None or monotonic() - began > WORKER_TIMEOUT_SECONDS:
                raise BenchmarkFailed(f"the worker has not started a job within {monotonic() - began:.0f} s")
        (started,) = START_TIME.unpack(os.read(pipe, START_TIME.size))
        return float(started) - began

    @contextmanager
    def _worker(self, order: Mapping[str, object], *, pipe: int | None = None) -> Iterator[subprocess.Popen[str]]:
        """A worker process that is stopped at the end of the block; raises ``BenchmarkFailed`` if it failed."""
        with tempfile.TemporaryFile("w+") as errors:
            process = _start_worker(errors, pipe)
            try:
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin as stdin:  # the exit code below reports the failure
                    json.dump({**order, "url": self._url, "space": self._space}, stdin)
                yield process
            finally:
                code = _stop_worker(process)
            if code != 0:
                errors.seek(0)
                last_line = errors.read().strip().splitlines()[-1:] or ["no error message"]
                raise BenchmarkFailed(f"the worker process ended with code {code}: {last_line[0]}")


def _job(type: str, queue: str) -> JobRecord:
    now = SystemClock().now()
    return JobRecord(id=str(uuid_utils.uuid7()), type=type, queue=queue, payload=PAYLOAD, created_at=now)


def _start_worker(errors: IO[str], pipe: int | None) -> subprocess.Popen[str]:
    # A process group for the worker: Ctrl-C reaches only the command, which then stops its worker.
    return subprocess.Popen(  # noqa: S603 - a module of this package
        [sys.executable, "-m", benchmark_worker.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        text=True,
        process_group=0,
        pass_fds=[] if pipe is None else [pipe],
    )


def _stop_worker(process: subprocess.Popen[str]) -> int:
    """Terminate the process if it still runs, kill it if it does not exit; return its exit code."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(WORKER_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
