"""A slot: one Spark task that works like a worker. Runs on executors.

Spark may start a Spark task several times: after a failure, or as a speculative copy. Here each start is a *try*, and
an *attempt* is always one run of a job. A slot reserves its own jobs. If the Spark driver reserved them and sent the
leases with the Spark task, a second try would run the same jobs again under the same tokens.

The Python process of the Spark task sends the heartbeats, and its child process runs the handlers, as in ``holdfast
work``: a handler cannot make the Spark task fail.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Self

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from holdfast.clock import DAY, SECOND, SystemClock, monotonic
from holdfast.drivers.requests import Read, Reap, Scan, Write
from holdfast.drivers.store import Store
from holdfast.errors import StoreError
from holdfast.model.registry import Change
from holdfast.observability.logs import LogObserver
from holdfast.observability.presence import PresenceObserver
from holdfast.spark.execution.outcomes import from_settled
from holdfast.spark.execution.run_spec import (
    SLOT_STATUS_KIND,
    SLOT_TRY_KIND,
    STOP_AT_ONCE,
    RunSpec,
    SlotStatus,
    read_stop,
)
from holdfast.spark.store_access import open_store, signer_of
from holdfast.worker.interpreter import tuned_interpreter
from holdfast.worker.job_source import JobSource
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.status import Settled
from holdfast.worker.worker import Worker

BATCH_ROWS = 1000  # outcomes in one batch
REPORT_INTERVAL_SECONDS = 0.5  # a slot reports its status and reads commands; a batch waits no longer
STOP_SEEN_SECONDS = 2 * REPORT_INTERVAL_SECONDS  # after which every slot has read a stop command
POLL_INTERVAL_SECONDS = 0.1  # between two reads of the status of other tries, once this one is done
MAX_TRIES = 100  # of one slot that are read
STATUS_TTL = 5 * SECOND  # a slot whose status is older is considered dead
FINAL_STATUS_TTL = 60 * SECOND


def run_slot(batches: Iterator[pa.RecordBatch], spec: RunSpec) -> Iterator[pa.RecordBatch]:
    """Body of the Spark task of ``run_queue``: run jobs until the queues are drained, and return their outcomes."""
    drain_input(batches)
    number, names = slot_names(spec)
    with Slot(spec, number, names, open_store(spec.url, spec.space)) as slot, tuned_interpreter():
        yield from slot.outcomes()


def slot_names(spec: RunSpec) -> tuple[int, list[str]]:
    """Return the number of this slot, and the names of all its tries up to this one, which is the last."""
    context = TaskContext.get()
    assert context is not None
    number, stage = context.partitionId(), context.stageId()
    return number, [f"{spec.run}/{stage}/{number}/{try_}" for try_ in range(context.attemptNumber() + 1)]


class Slot:
    """One try of one Spark task. The worker runs in its own thread; the calling thread reports and returns rows."""

    def __init__(
        self, spec: RunSpec, number: int, names: Sequence[str], store: Store, *, source: JobSource | None = None
    ) -> None:
        """Prepare a slot.

        ``names`` are those of ``slot_names``. ``source`` replaces the queues of the store as the source of jobs.
        """
        *self._earlier_tries, self.name = names
        self._spec = spec
        self._number = number
        self._executor = f"{socket.gethostname()}:{os.getpid()}"
        self._store = store
        options = replace(spec.options, name=self.name)
        self._lease_for = options.lease_for
        self._settled: SimpleQueue[tuple[Sequence[Settled], int] | None] = SimpleQueue()  # None: no more will follow
        self._worker = Worker(
            self._store,
            options,
            catalogue=spec.catalogue,
            source=source,
            signer=signer_of(spec.space, spec.signing),
            # Executors log few things: the outcomes of attempts are in the frames, the ledger and the progress.
            observers=[
                LogObserver(statuses=["lost"]),
                PresenceObserver(),
                *([_AttemptQueue(self._settled)] if spec.reports_attempts else []),
            ],
        )
        self._done = threading.Event()
        self._stop = threading.Event()
        self._stop_seen_at: float | None = None
        self._deadline = None if spec.stop_after is None else monotonic() + spec.stop_after
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="holdfast-slot", daemon=True)

    def __enter__(self) -> Self:
        self._worker.prepare()
        # Before anything else happens: the outcomes are complete only if every try is known.
        self._store.do(Write(changes=[Change(kind=SLOT_TRY_KIND, key=self.name, value=b"", ttl=DAY)]))
        self._read_commands()  # Spark may start a copy of a slot after the stop command
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, also when Spark reads no more rows: Spark reuses the Python worker, so no thread may continue."""
        self._worker.stop(at_once=True)
        self._thread.join()
        with contextlib.suppress(StoreError):
            self._report_status(alive=False)

    def outcomes(self) -> Iterator[pa.RecordBatch]:
        """Return the outcomes as attempts end, until there are no more jobs. Raises the error of the worker."""
        while not self._done.is_set():
            with contextlib.suppress(StoreError):  # the worker retries as well
                self._report_status()
                self._read_commands()
                self._reap_earlier_tries()
            yield from self._batches(monotonic() + REPORT_INTERVAL_SECONDS)
        yield from self._batches(0.0)
        if self._stop_seen_at is not None:
            self._await_other_tries()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            self._worker.run(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again by outcomes(), where Spark sees it
            self._error = error
        finally:
            self._done.set()
            self._settled.put(None)  # wakes the thread that waits in _batches

    def _batches(self, deadline: float) -> Iterator[pa.RecordBatch]:
        settled: list[Settled] = []
        ended_at: list[int] = []
        while True:
            seconds = deadline - monotonic()
            try:
                item = self._settled.get(timeout=seconds) if seconds > 0 else self._settled.get_nowait()
            except Empty:
                break
            if item is None:
                break
            attempts, now = item
            settled += attempts
            ended_at += [now] * len(attempts)
            if len(settled) >= BATCH_ROWS:
                yield self._rows(settled, ended_at)
                settled, ended_at = [], []
        if settled:
            yield self._rows(settled, ended_at)

    def _rows(self, settled: Sequence[Settled], ended_at: Sequence[int]) -> pa.RecordBatch:
        return from_settled(settled, ended_at, slot=self._number, executor=self._executor, lease_for=self._lease_for)

    # The other slots of the run, and other tries of this one ----------------------------------------------------

    def _report_status(self, *, alive: bool = True) -> None:
        worker = self._worker
        status = SlotStatus(dict(worker.tally.statuses), alive, worker.held, self._executor)
        ttl = STATUS_TTL if alive else FINAL_STATUS_TTL
        self._store.do(
            Write(changes=[Change(kind=SLOT_STATUS_KIND, key=self.name, value=msgspec.json.encode(status), ttl=ttl)])
        )

    def _read_commands(self) -> None:
        """On a stop command reserve nothing more; release jobs only after every other slot has seen the command.

        A slot that has not seen the stop command would reserve a released job, and Spark could kill that slot while it
        holds the lease: of two copies of a slot, Spark kills the other when the first one has finished.
        """
        now = monotonic()
        command = read_stop(self._store, self._spec.run)
        if command is not None:
            self._worker.hold()
            self._stop_seen_at = self._stop_seen_at or now
            if now - self._stop_seen_at >= STOP_SEEN_SECONDS:
                self._stop.set()
                if command == STOP_AT_ONCE:
                    self._worker.stop(at_once=True)
        if self._deadline is not None and now >= self._deadline:
            self._stop.set()

    def _await_other_tries(self) -> None:
        """Block until no other try of this slot holds a job: Spark kills the others as soon as one is done."""
        slot = self.name.rpartition("/")[0]
        while True:
            with contextlib.suppress(StoreError):
                self._report_status()
                tries = self._store.do(Scan(kind=SLOT_TRY_KIND, prefix=f"{slot}/", limit=MAX_TRIES))
                other_names = [entry.key for entry in tries if entry.key != self.name]
                statuses = self._store.do(Read(kind=SLOT_STATUS_KIND, keys=other_names))
                if not any(SlotStatus.of(entry).held for entry in statuses if entry is not None):
                    return
            threading.Event().wait(POLL_INTERVAL_SECONDS)

    def _reap_earlier_tries(self) -> None:
        """End the leases of earlier tries of this slot that are dead, so that their jobs need not wait for the expiry.

        A try that still reports its status keeps its leases until it stops: a speculative copy, or one killed just now.
        """
        if not self._earlier_tries:
            return
        entries = self._store.do(Read(kind=SLOT_STATUS_KIND, keys=self._earlier_tries))
        for name, entry in list(zip(self._earlier_tries, entries, strict=True)):
            if entry is None or not SlotStatus.of(entry).alive:
                while self._store.do(Reap(worker=name)).count:
                    pass
                self._earlier_tries.remove(name)


class _AttemptQueue(WorkerObserver):
    """Queues the ended attempts with the time. The thread of the Spark task converts them to rows."""

    def __init__(self, queue: SimpleQueue[tuple[Sequence[Settled], int] | None]) -> None:
        self._queue = queue
        self._clock = SystemClock()

    def settled(self, settled: Sequence[Settled]) -> None:
        """Queue these attempts with the instant of the settlement."""
        self._queue.put((settled, self._clock.now()))


def drain_input(batches: Iterator[pa.RecordBatch]) -> None:
    """Read the input of a Spark task to its end: Spark does not reuse a Python worker that leaves input unread."""
    for _ in batches:
        pass
