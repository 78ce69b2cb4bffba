"""How quick a store is: bulk enqueue, the bare driver loop, a worker with jobs that do nothing, an idle worker.

Every measurement has a queue of its own in the space it is given. Workers run in a process of their own, as they always
do: ``python -m holdfast.cli.measurement``, which reads what to do from stdin, because a URL may hold a password.
"""

from __future__ import annotations

import json
import math
import os
import random
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Literal

import uuid_utils

from holdfast.app import Holdfast
from holdfast.clock import MINUTE, SECOND, SystemClock, monotonic
from holdfast.drivers.contract import JobFilter, Store
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack
from holdfast.worker.options import WorkerOptions

NOOP, TELL = "bench.noop", "bench.tell"
PAYLOAD = b'{"customer": 48151623, "action": "refresh", "note": "a payload of a usual size, some hundred bytes long"}'
BATCH = 1000  # jobs in one transaction
WORKER = "bench"  # the name under which the store knows our workers
INSTANT = struct.Struct("d")
PAUSE = (0.03, 0.09)  # seconds between two jobs, so that the worker is idle again
SAMPLES = 100
PATIENCE = 30.0  # seconds that a worker may take to start, or to end


class BenchFailed(Exception):
    """A worker process did not do what it was started for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """So many jobs in so many seconds: enqueued or drained in batches of ``size``, or worked by so many processes."""

    kind: Literal["enqueue", "loop", "worker"]
    size: int
    jobs: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Jobs per second; nothing done is 0."""
        return self.jobs / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from before the call of enqueue to the first line of the handler, in order."""

    seconds: list[float]

    def percentile(self, share: float) -> float:
        """The smallest that is not less than this share of all."""
        return self.seconds[max(0, math.ceil(len(self.seconds) * share) - 1)]


class Bench:
    """Measures one after the other in a space of a store, each for so many seconds at the most."""

    def __init__(self, store: Store, *, url: str, space: str, jobs: int, longest: float) -> None:
        self._store = store
        self._url, self._space = url, space
        self._jobs = jobs
        self._longest = longest

    def enqueue(self, queue: str) -> Throughput:
        """Fill a queue, by the batch."""
        began = monotonic()
        made = self._fill(queue)
        return Throughput(kind="enqueue", size=BATCH, jobs=made, seconds=monotonic() - began)

    def loop(self, k: int) -> Throughput:
        """The driver alone, in this process: reserve k and ack k."""
        queue = f"loop-{k}"
        self._fill(queue)
        done, began = 0, monotonic()
        while monotonic() - began < self._longest:
            found = self._store.reserve([queue], limit=k, lease_for=MINUTE, worker=WORKER)
            if not found:
                break
            refused = [error for error in self._store.settle([Ack(one.lease) for one in found]) if error is not None]
            if refused:
                raise refused[0]
            done += len(found)
        return Throughput(kind="loop", size=k, jobs=done, seconds=monotonic() - began)

    def worker(self, processes: int) -> Throughput:
        """From its first reserve to its last ack, as the ledger has them: its start and its end are not counted."""
        queue = f"worker-{processes}"
        self._fill(queue)
        after = self._end_of_ledger()
        order = {"queue": queue, "processes": processes, "seconds": self._longest}
        with self._worker(order) as process, suppress(subprocess.TimeoutExpired):
            process.wait(self._longest + PATIENCE)
        done, first, last = 0, math.inf, 0
        while (page := self._store.ledger(after)).items:
            after = page.cursor
            for row in page:
                if row.queue == queue and row.ending is Ending.ACKED and row.reserved_at is not None:
                    done, first, last = done + 1, min(first, row.reserved_at), max(last, row.ended_at)
        seconds = (last - first) / SECOND if done else 0.0
        return Throughput(kind="worker", size=processes, jobs=done, seconds=seconds)

    def idle(self) -> Latency:
        """One job at a time for a worker that has nothing else to do; twice as long as others, for it mostly waits."""
        ours, theirs = os.pipe()
        dice = random.Random()  # noqa: S311 - so that no rhythm of the worker is met
        taken: list[float] = []
        try:
            with self._worker({"queue": "idle", "processes": 1, "pipe": theirs}, pipe=theirs) as process:
                self._until_start(ours, process)  # it has come up
                deadline = monotonic() + 2 * self._longest
                while not taken or (len(taken) < SAMPLES and monotonic() < deadline):
                    time.sleep(dice.uniform(*PAUSE))
                    taken.append(self._until_start(ours, process))
        finally:
            os.close(ours)
            os.close(theirs)
        return Latency(seconds=sorted(taken))

    def clean(self) -> int:
        """Remove every job and every ledger row of the space; gives how many jobs there were."""
        while self._store.reap(worker=WORKER):
            pass
        removed = 0
        while found := self._store.find(JobFilter(), limit=BATCH).items:
            ids = [job.id for job in found]
            self._store.cancel([job.id for job in found if job.state is State.READY])
            purged = sum(self._store.purge(ids))
            removed += purged
            if not purged:
                break
        while self._store.trim(ledger_for=1).more:
            pass
        return removed

    # Steps ------------------------------------------------------------------------------------------------------

    def _fill(self, queue: str) -> int:
        began, made = monotonic(), 0
        while made < self._jobs and monotonic() - began < self._longest:
            size = min(BATCH, self._jobs - made)
            self._store.enqueue([_job(NOOP, queue) for _ in range(size)])
            made += size
        return made

    def _end_of_ledger(self) -> str | None:
        cursor: str | None = None
        while (page := self._store.ledger(cursor)).items:
            cursor = page.cursor
        return page.cursor

    def _until_start(self, pipe: int, process: subprocess.Popen[str]) -> float:
        job = _job(TELL, "idle")
        began = monotonic()
        self._store.enqueue([job])
        while not select.select([pipe], [], [], 0.5)[0]:
            if process.poll() is not None or monotonic() - began > PATIENCE:
                raise BenchFailed(f"the worker has not started a job within {monotonic() - began:.0f} s")
        (started,) = INSTANT.unpack(os.read(pipe, INSTANT.size))
        return float(started) - began

    @contextmanager
    def _worker(self, order: Mapping[str, object], *, pipe: int | None = None) -> Iterator[subprocess.Popen[str]]:
        """A worker process; leaving the block ends it, and raises ``BenchFailed`` if it did not end well."""
        with tempfile.TemporaryFile("w+") as errors:
            process = _started(errors, pipe)
            try:
                assert process.stdin is not None
                with suppress(BrokenPipeError), process.stdin as stdin:  # its exit code will tell
                    json.dump({**order, "url": self._url, "space": self._space}, stdin)
                yield process
            finally:
                code = _ended(process)
            if code != 0:
                errors.seek(0)
                said = errors.read().strip().splitlines()[-1:] or ["it said nothing"]
                raise BenchFailed(f"the worker process ended with code {code}: {said[0]}")


def _job(type: str, queue: str) -> JobRecord:
    now = SystemClock().now()
    return JobRecord(id=str(uuid_utils.uuid7()), type=type, queue=queue, payload=PAYLOAD, created_at=now)


def _started(errors: IO[str], pipe: int | None) -> subprocess.Popen[str]:
    # A group of its own: Ctrl-C is for the command, which then ends its worker.
    return subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        text=True,
        process_group=0,
        pass_fds=[] if pipe is None else [pipe],
    )


def _ended(process: subprocess.Popen[str]) -> int:
    """Ask it to stop if it still runs, then make it; gives its exit code."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


# The worker process -----------------------------------------------------------------------------------------


def noop(_payload: object) -> None:
    """A job that does nothing."""


def tell(pipe: int) -> Callable[[object], None]:
    """A handler that only says when it started; the clock is that of the whole machine."""

    def started(_payload: object) -> None:
        os.write(pipe, INSTANT.pack(monotonic()))

    return started


def main() -> None:
    """Work as stdin says: until drained or for so many seconds; with a pipe, until told to stop."""
    order = json.load(sys.stdin)
    app = Holdfast(order["url"], space=order["space"])
    pipe = order.get("pipe")
    app.handler(NOOP, queue=order["queue"])(noop)
    if pipe is not None:
        app.handler(TELL, queue=order["queue"])(tell(pipe))
    options = WorkerOptions(
        queues=(order["queue"],), processes=order["processes"], until_drained=pipe is None, name=WORKER
    )
    worker = app.worker(options)
    if pipe is None:
        # A timer of the process, and not a thread: the worker forks first, and children do not inherit timers.
        signal.signal(signal.SIGALRM, lambda *_: worker.stop())
        signal.setitimer(signal.ITIMER_REAL, order["seconds"])
    worker.run()
    signal.setitimer(signal.ITIMER_REAL, 0)  # or it may fire when nobody listens any more
    app.close()


if __name__ == "__main__":
    main()
