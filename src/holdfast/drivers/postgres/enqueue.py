"""Enqueue: a batch as columns, and the answers in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.drivers.postgres import batch
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.copying import copy_leased_on, copy_on
from holdfast.drivers.postgres.store import PostgresStore
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Reservation, newly_enqueued


def enqueue_on(
    store: PostgresStore, connection: Connection, jobs: Sequence[JobRecord], given: int | None, *, alone: bool
) -> list[Enqueued]:
    """Inside whatever transaction the connection is in; without one (``alone``), all or nothing in its own."""
    copied = copy_on(store, connection, jobs, given, alone=alone)
    if copied is not None:
        return copied
    runs = list(_runs(jobs))
    if len(runs) == 1:
        return _enqueue(store, connection, runs[0], given, alone=alone)
    with connection.transaction():
        return [answer for run in runs for answer in _enqueue(store, connection, run, given, alone=alone)]


def enqueue_leased_on(
    store: PostgresStore,
    connection: Connection,
    jobs: Sequence[JobRecord],
    given: int | None,
    *,
    lease_for: int,
    worker: str,
) -> tuple[list[Enqueued], list[Reservation]]:
    """The same with a lease for each, or for none."""
    if isinstance(jobs, JobBatch):
        found = copy_leased_on(store, connection, jobs, given, lease_for=lease_for, worker=worker)
        if found is not None:
            return newly_enqueued(jobs.ids), found
    return enqueue_on(store, connection, jobs, given, alone=True), []


def _runs(jobs: Sequence[JobRecord]) -> Iterator[list[JobRecord]]:
    """The batch in parts that name every id once, nearly always one: what comes later sees what came before."""
    run: dict[str, JobRecord] = {}
    for job in jobs:
        if job.id in run:
            yield list(run.values())
            run = {}
        run[job.id] = job
    if run:
        yield list(run.values())


def _enqueue(
    store: PostgresStore, connection: Connection, jobs: list[JobRecord], given: int | None, *, alone: bool
) -> list[Enqueued]:
    arguments = (store.space_name, given, store.channel, alone, batch.WINDOW, *batch.jobs(jobs))
    rows = store.function_on(connection, "enqueue_1", *arguments)
    existed = {item: Enqueued(id=job_id, existed=True, conflict=conflict) for item, job_id, conflict in rows}
    return [existed.get(item) or Enqueued(id=job.id, existed=False) for item, job in enumerate(jobs, 1)]
