"""What runs on an executor: a slot is a Spark task that works like a worker, and tells what it did row by row.

It reserves for itself, so that no lease ever travels: one that the Spark driver handed out would run twice under one
token when its Spark task is retried. Heartbeats come from the Spark task's own Python process and handlers run in a
child of it, by the same machinery as in ``holdfast work``: nothing that a handler does can fail the Spark task.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Self

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from holdfast.clock import DAY, SECOND, SystemClock, from_timedelta, monotonic
from holdfast.connect import connect
from holdfast.drivers.contract import Store
from holdfast.errors import StoreError
from holdfast.model.registry import Change, Entry
from holdfast.spark.execution.outcomes import from_settled
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.interpreter import tuned_interpreter
from holdfast.worker.job_source import JobSource
from holdfast.worker.options import WorkerOptions
from holdfast.worker.status import Settled
from holdfast.worker.worker import Worker

ROWS = 1000  # outcomes in a batch
TELL_EVERY = 0.5  # seconds in which a batch is given on, however small; and in which a slot looks for orders
PRESENCE = "spark.slot"  # registry: a slot that is alive, and how it stands
TRY = "spark.try"  # registry: a try of a slot that has begun; its name is run/stage/slot/try
RUN = "spark.run"  # registry: orders for all slots of a run
ALL_KNOW = 2 * TELL_EVERY  # seconds in which every slot has looked for orders
LOOK_AGAIN = 0.1  # seconds between two looks at the other tries, once this one is done
MOST_TRIES = 100  # of one slot
ALIVE_FOR = 5 * SECOND  # without news from a slot, after which it is thought dead
STOP = b"stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What the Spark driver sends to every slot. Travels inside the task's closure, which no page or log shows."""

    run: str
    url: str
    space: str
    catalogue: Catalogue
    options: WorkerOptions
    stop_after: float | None = None  # seconds
    ledger_from: str | None = None  # where the ledger ended when the run began
    tell: bool = True  # a row for each attempt; a pipeline that goes on from the jobs' own endings needs none

    def __repr__(self) -> str:
        return f"Order(run={self.run!r})"  # a URL may hold a password


class Standing(msgspec.Struct, frozen=True):
    """How a slot stands, for whoever watches."""

    settled: dict[str, int]
    alive: bool = True
    held: int = 0  # jobs that it has reserved and not yet settled
    executor: str = ""  # host and process


def run_slot(rows: Iterator[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    """The body of the Spark task."""
    read_out(rows)
    place, names = names_of(order)
    store = store_of(order.url, order.space)
    with Slot(order, place, names, store) as slot, tuned_interpreter():  # it does no other work meanwhile
        yield from slot.outcomes()


def names_of(order: Order) -> tuple[int, list[str]]:
    """The number of this Spark task among the slots, and its name behind those of its earlier tries."""
    context = TaskContext.get()
    assert context is not None
    place, number, try_ = context.partitionId(), context.stageId(), context.attemptNumber()
    return place, [f"{order.run}/{number}/{place}/{earlier}" for earlier in range(try_ + 1)]


class Slot:
    """One Spark task at work."""

    def __init__(
        self, order: Order, place: int, names: Sequence[str], store: Store, *, source: JobSource | None = None
    ) -> None:
        *self._earlier, self.name = names
        self._order = order
        self._place = place
        self._executor = f"{socket.gethostname()}:{os.getpid()}"
        self._clock = SystemClock()
        self._store = store
        options = replace(order.options, name=self.name)
        self._lease_for = from_timedelta(options.lease)
        told = self._settled if order.tell else None
        self._worker = Worker(self._store, options, catalogue=order.catalogue, source=source, on_settled=told)
        self._told: SimpleQueue[tuple[Sequence[Settled], int] | None] = SimpleQueue()  # None: there will be no more
        self._done = threading.Event()
        self._stop = threading.Event()
        self._stopped_at: float | None = None  # when the order to stop was first seen
        self._ends_at = None if order.stop_after is None else monotonic() + order.stop_after
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="holdfast-slot", daemon=True)

    def __enter__(self) -> Self:
        self._worker.prepare()
        self._store.write([Change(kind=TRY, key=self.name, value=b"", ttl=DAY)])  # before it has done anything
        self._obey()  # Spark may start one more copy of a slot when all others are about to leave
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Also when Spark wants no more rows: a Python worker is used again, so nothing may go on behind its back."""
        self._worker.stop(at_once=True)
        self._thread.join()
        with contextlib.suppress(StoreError):
            self._tell(alive=False)

    def outcomes(self) -> Iterator[pa.RecordBatch]:
        """What was done, as it is done, until there is no more to do."""
        while not self._done.is_set():
            with contextlib.suppress(StoreError):  # the worker goes on trying; so does this
                self._tell()
                self._obey()
                self._bury_the_dead()
            yield from self._batches(monotonic() + TELL_EVERY)
        yield from self._batches(0.0)
        if self._stopped_at is not None:
            self._await_other_tries()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            self._worker.run(self._stop)
        except BaseException as error:  # noqa: BLE001 - raised again where Spark sees it
            self._error = error
        finally:
            self._done.set()
            self._told.put(None)  # ends a wait for more

    def _settled(self, settled: Sequence[Settled]) -> None:
        """In a thread of the worker, which has more to do: rows are made by the one that tells them."""
        self._told.put((settled, self._clock.now()))

    def _batches(self, until: float) -> Iterator[pa.RecordBatch]:
        settled: list[Settled] = []
        ended: list[int] = []
        while True:
            left = until - monotonic()
            try:
                told = self._told.get(timeout=left) if left > 0 else self._told.get_nowait()
            except Empty:
                break
            if told is None:
                break
            batch, now = told
            settled += batch
            ended += [now] * len(batch)
            if len(settled) >= ROWS:
                yield self._rows(settled, ended)
                settled, ended = [], []
        if settled:
            yield self._rows(settled, ended)

    def _rows(self, settled: Sequence[Settled], ended: Sequence[int]) -> pa.RecordBatch:
        return from_settled(settled, ended, slot=self._place, executor=self._executor, lease_for=self._lease_for)

    # Others -----------------------------------------------------------------------------------------------------

    def _tell(self, *, alive: bool = True) -> None:
        worker = self._worker
        standing = msgspec.json.encode(Standing(dict(worker.tally.statuses), alive, worker.held, self._executor))
        ttl = ALIVE_FOR if alive else 60 * SECOND
        self._store.write([Change(kind=PRESENCE, key=self.name, value=standing, ttl=ttl)])

    def _obey(self) -> None:
        """Once stopped, reserve nothing more; but give nothing back before every other slot has been told, too.

        One that has not would take it, and may be ended by Spark with the job in its hands: of two copies of a slot
        only the first to end is let live.
        """
        now = monotonic()
        [order] = self._store.read(RUN, [self._order.run])
        if order is not None and order.value == STOP:
            self._worker.hold()
            self._stopped_at = self._stopped_at or now
            if now - self._stopped_at >= ALL_KNOW:
                self._stop.set()
        if self._ends_at is not None and now >= self._ends_at:
            self._stop.set()

    def _await_other_tries(self) -> None:
        """Of two copies of a slot Spark ends the other as soon as one is done: not before it has let go of its jobs."""
        slot = self.name.rpartition("/")[0]
        while True:
            with contextlib.suppress(StoreError):
                self._tell()
                tries = [entry.key for entry in self._store.scan(TRY, prefix=f"{slot}/", limit=MOST_TRIES)]
                others = self._store.read(PRESENCE, [name for name in tries if name != self.name])
                if not any(_standing(entry).held for entry in others if entry is not None):
                    return
            threading.Event().wait(LOOK_AGAIN)

    def _bury_the_dead(self) -> None:
        """End the leases of earlier tries of this Spark task, once they are dead: their jobs need not wait.

        One that still shows signs of life (speculation, or a kill of a moment ago) is left alone until they stop.
        """
        if not self._earlier:
            return
        seen = self._store.read(PRESENCE, self._earlier)
        for name, entry in list(zip(self._earlier, seen, strict=True)):
            if entry is None or not _standing(entry).alive:
                while self._store.reap(worker=name):
                    pass
                self._earlier.remove(name)


def _standing(entry: Entry) -> Standing:
    return msgspec.json.decode(entry.value or b"{}", type=Standing)


def read_out(rows: Iterator[pa.RecordBatch]) -> None:
    """To the end, for nothing: Spark ends a Python worker that leaves input unread, and the next would connect anew."""
    for _ in rows:
        pass


_stores: dict[tuple[int, str, str], Store] = {}


def store_of(url: str, space: str) -> Store:
    """One connection per Python worker, which serves many Spark tasks, one after the other."""
    key = (os.getpid(), url, space)
    if key not in _stores:
        _stores[key] = connect(url, space=space)
    return _stores[key]
