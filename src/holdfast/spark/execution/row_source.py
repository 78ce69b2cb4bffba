"""Rows become jobs where they are worked on: a slot stores the next ones when it has room for more.

Whoever stores a job may begin with it at once, and the store need not hand it out again, which costs as much as storing
it. That is done with rows that take no longer to run than to store. Slower ones are stored ahead of the work, so that
all slots share them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
from uuid_utils import uuid7

from holdfast.clock import DAY, SystemClock
from holdfast.drivers.contract import LeasedEnqueue, Store
from holdfast.errors import StoreError
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.registry import Change
from holdfast.spark.execution.slot import RUN, STOP, Order, Slot, names_of, store_of
from holdfast.worker.interpreter import rarely_disturbed

TOLD = "refused string, id string"  # a key that stands for two payloads; ids, some of all
EACH = 1000  # jobs of which the id of one is told, to read them later in parts
MANY = 500  # jobs that a worker has room for only if they are very short
LOT = 4000  # of those that are stored at a time: less than a second of work
AHEAD = 1000  # longer ones that are stored whenever some are reserved


def run_rows(batches: Iterator[pa.RecordBatch], order: Order, like: JobRecord) -> Iterator[pa.RecordBatch]:
    """The body of a Spark task: rows of key and payload into the store, and through their handler."""
    place, names = names_of(order)
    store = FilledStore(store_of(order.url, order.space), Rows(batches, like), order.run)
    with Slot(order, place, names, cast("Store", store)) as slot, rarely_disturbed():
        yield from slot.outcomes()
    yield store.told()


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


class FilledStore:
    """A store as its one worker sees it, who fills it: it is drained once there are no more rows, either."""

    def __init__(self, store: Store, rows: Rows, run: str) -> None:
        self._store = store
        self._rows = rows
        self._run = run
        self._more = True
        self._next: JobBatch | None = None  # kept until the store has it
        self._pace_is_known = False
        self._ids: list[str] = []
        self._refused: str | None = None

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    def reserve(
        self, queues: Sequence[str], *, limit: int, lease_for: int, worker: str, **others: Any
    ) -> list[Reservation]:
        """See ``Driver.reserve``. What waits goes first: retries, and what was stored ahead.

        May give more than ``limit`` of those that are very short.
        """
        if self._refused is not None:
            return []
        long = self._pace_is_known and limit < MANY
        if self._more and long:
            self._take_in(AHEAD)
        found = self._store.reserve(queues, limit=limit, lease_for=lease_for, worker=worker, **others)
        if self._more and not long and len(found) < limit:
            try:
                found += self._take_in(LOT if limit >= MANY else limit, lease_for=lease_for, worker=worker)
            except StoreError:
                if not found:  # else they are ours, and the rows come with the next call
                    raise
        self._pace_is_known = True
        return found

    def any_open(self, queues: Sequence[str], types: Collection[str]) -> bool:
        """See ``Admin.any_open``."""
        return self._more or self._store.any_open(queues, types)

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``."""
        if not self._more:
            self._store.wait(queues, timeout=timeout)

    def _take_in(self, count: int, **lease: Any) -> list[Reservation]:
        """Store the next rows, with leases or without."""
        jobs = self._next = self._next or self._rows.next(count)
        if jobs is None:
            self._more = False
            return []
        answers, found = self._enqueue(jobs, lease)
        refused = [key for key, answer in zip(jobs.keys or (), answers, strict=True) if answer.conflict]
        if refused:  # no slot may begin with anything more
            self._store.write([Change(kind=RUN, key=self._run, value=STOP, ttl=DAY)])
            self._refused, self._more = refused[0], False
        ids = sorted(answer.id for answer in answers)
        self._ids += [*ids[::EACH], ids[-1]]
        self._next = None
        return found

    def _enqueue(self, jobs: JobBatch, lease: dict[str, Any]) -> tuple[list[Enqueued], list[Reservation]]:
        if lease and isinstance(self._store, LeasedEnqueue):
            return self._store.enqueue_leased(jobs, **lease)
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
