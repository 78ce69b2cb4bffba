"""Rows become jobs where they are worked on: a slot stores the next ones when it has room for more.

Whoever stores a job may begin with it at once, and the store need not hand it out again, which costs as much as storing
it. That is done with rows that take no longer to run than to store. Slower ones are stored ahead of the work, so that
all slots share them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from uuid_utils import uuid7

from holdfast.clock import DAY, SystemClock, from_timedelta
from holdfast.drivers.contract import LeasedEnqueue, Store
from holdfast.errors import StoreError
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.registry import Change
from holdfast.spark.execution.slot import RUN, STOP, Order, Slot, names_of, store_of
from holdfast.worker.interpreter import tuned_interpreter
from holdfast.worker.job_source import StoreJobSource

TOLD = "refused string, id string"  # a key that stands for two payloads; ids, some of all
EACH = 1000  # jobs of which the id of one is told, to read them later in parts
LOT = 4000  # very short jobs that are stored at a time: less than a second of work
AHEAD = 1000  # longer ones that are stored whenever some are reserved


def run_rows(batches: Iterator[pa.RecordBatch], order: Order, like: JobRecord) -> Iterator[pa.RecordBatch]:
    """The body of a Spark task: rows of key and payload into the store, and through their handler."""
    place, names = names_of(order)
    store = store_of(order.url, order.space)
    source = RowSource(
        store,
        Rows(batches, like),
        run=order.run,
        queues=order.options.queues or (like.queue,),
        types=order.catalogue.types,
        lease_for=from_timedelta(order.options.lease),
        worker=names[-1],
    )
    with Slot(order, place, names, store, source=source) as slot, tuned_interpreter():
        yield from slot.outcomes()
    yield source.told()


class Rows:
    """What is still to be stored, in parts of any size."""

    def __init__(self, batches: Iterator[pa.RecordBatch], like: JobRecord) -> None:
        self._batches = batches
        self._batch: pa.RecordBatch | None = None
        self._like = like
        self._clock = SystemClock()

    def next(self, count: int) -> JobBatch | None:
        """Jobs for up to so many rows; None if there are no more."""
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return None
        part, self._batch = self._batch.slice(0, count), self._batch.slice(count)
        rows = zip(part.column(0).to_pylist(), part.column(1).cast(pa.binary()).to_pylist(), strict=True)
        keys, payloads = zip(*dict.fromkeys(rows), strict=True)  # equal rows are one job
        like = replace(self._like, created_at=self._clock.now())
        return JobBatch(like, [str(uuid7()) for _ in keys], payloads, keys)


class RowSource:
    """A ``JobSource`` that stores the rows of one Spark task as jobs, and leases jobs of the same queue."""

    def __init__(
        self,
        store: Store,
        rows: Rows,
        *,
        run: str,
        queues: Sequence[str],
        types: Collection[str],
        lease_for: int,
        worker: str,
    ) -> None:
        self._store = store
        self._stored = StoreJobSource(store, queues, types, lease_for=lease_for, worker=worker)
        self._rows = rows
        self._run = run
        self._lease_for = lease_for
        self._worker = worker
        self._more = True
        self._next: JobBatch | None = None  # kept until the store has it
        self._pace_is_known = False
        self._ids: list[str] = []
        self._refused: str | None = None

    def reserve(self, limit: int, *, short_jobs: bool) -> list[Reservation]:
        """See ``JobSource.reserve``. Jobs in the store go before new rows: retries, and jobs that were stored ahead."""
        if self._refused is not None:
            return []
        long = self._pace_is_known and not short_jobs
        if self._more and long:
            self._take_in(AHEAD, leased=False)
        found = self._stored.reserve(limit)
        if self._more and not long and len(found) < limit:
            try:
                found += self._take_in(LOT if short_jobs else limit, leased=True)
            except StoreError:
                if not found:  # else they are ours, and the rows come with the next call
                    raise
        self._pace_is_known = True
        return found

    def wait(self, timeout: float) -> None:
        """See ``JobSource.wait``. Returns at once while there are rows to store."""
        if not self._more:
            self._stored.wait(timeout)

    def is_drained(self) -> bool:
        """See ``JobSource.is_drained``. Never while there are rows to store."""
        return not self._more and self._stored.is_drained()

    def _take_in(self, count: int, *, leased: bool) -> list[Reservation]:
        """Store the next rows, with leases or without."""
        jobs = self._next = self._next or self._rows.next(count)
        if jobs is None:
            self._more = False
            return []
        answers, found = self._enqueue(jobs, leased=leased)
        refused = [key for key, answer in zip(jobs.keys or (), answers, strict=True) if answer.conflict]
        if refused:  # no slot may begin with anything more
            self._store.write([Change(kind=RUN, key=self._run, value=STOP, ttl=DAY)])
            self._refused, self._more = refused[0], False
        ids = sorted(answer.id for answer in answers)
        self._ids += [*ids[::EACH], ids[-1]]
        self._next = None
        return found

    def _enqueue(self, jobs: JobBatch, *, leased: bool) -> tuple[list[Enqueued], list[Reservation]]:
        if leased and isinstance(self._store, LeasedEnqueue):
            return self._store.enqueue_leased(jobs, lease_for=self._lease_for, worker=self._worker)
        return self._store.enqueue(jobs), []

    def told(self) -> pa.RecordBatch:
        """The rows of ``TOLD``: what was refused, and the ids."""
        refused = [] if self._refused is None else [self._refused]
        ids = sorted(set(self._ids))
        return pa.RecordBatch.from_pydict(
            {
                "refused": pa.array([*refused, *[None] * len(ids)], pa.string()),
                "id": pa.array([*[None] * len(refused), *ids], pa.string()),
            }
        )
