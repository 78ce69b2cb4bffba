"""Enqueue: the batch as one array per column, and the answers in its order. Large batches go through ``copy``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from holdfast.drivers.packing import Row, digest_of, pack_meta
from holdfast.drivers.postgres.arrays import (
    Array,
    pack_bigints,
    pack_blobs,
    pack_integers,
    pack_optional_texts,
    pack_texts,
)
from holdfast.drivers.postgres.caller_connection import CallerConnection
from holdfast.drivers.postgres.columns import STORED_COLUMNS, sql_type
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.copy import DEFAULT_DEDUPE_WINDOW, copy_jobs, copy_leased_jobs
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.registry import pack_changes
from holdfast.errors import WriteRefused
from holdfast.model.columns import Column, Kind
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, Reservation, newly_enqueued
from holdfast.model.registry import Change

Call: TypeAlias = Callable[..., list[Row]]  # of a function of ``functions/``, for the space


def enqueue_on(
    database: Database,
    connection: Connection,
    jobs: Sequence[JobRecord],
    writes: Sequence[Change],
    caller_now: int | None,
    *,
    owns_transaction: bool,
) -> list[Enqueued]:
    """Store the jobs and make the writes inside the transaction of the connection; all or none.

    ``owns_transaction`` is False in a transaction of the caller. With ``writes``, the connection is in a transaction.
    """
    if writes:
        call = partial(database.call_on, connection)
        return _enqueue_with_writes(database, call, jobs, writes, caller_now, owns_transaction=owns_transaction)
    enqueued = copy_jobs(database, connection, jobs, caller_now, owns_transaction=owns_transaction)
    if enqueued is not None:
        return enqueued
    if len(jobs) == 1:
        return [_enqueue_one(database, connection, jobs[0], caller_now, owns_transaction=owns_transaction)]
    runs = list(_split_repeated_ids(jobs))
    call = partial(database.call_on, connection)
    if len(runs) == 1:
        return _enqueue(database, call, runs[0], caller_now, owns_transaction=owns_transaction)
    with connection.transaction():
        return _enqueue_runs(database, call, runs, caller_now, owns_transaction=owns_transaction)


def enqueue_with(
    database: Database,
    caller: CallerConnection,
    jobs: Sequence[JobRecord],
    writes: Sequence[Change],
    caller_now: int | None,
) -> list[Enqueued]:
    """Store the jobs inside the caller's transaction, without COPY: all or none, because an error aborts it."""

    def call(function: str, *arguments: object) -> list[Row]:
        parameters = (database.space, *arguments)
        return caller.fetch(database.statements.call(function, len(parameters)), parameters)

    if writes:
        return _enqueue_with_writes(database, call, jobs, writes, caller_now, owns_transaction=False)
    return _enqueue_runs(database, call, _split_repeated_ids(jobs), caller_now, owns_transaction=False)


def enqueue_leased_on(
    database: Database,
    connection: Connection,
    jobs: Sequence[JobRecord],
    caller_now: int | None,
    *,
    lease_for: int,
    worker: str,
) -> tuple[list[Enqueued], list[Reservation]]:
    """Store the jobs, and lease all of them or none."""
    if isinstance(jobs, JobBatch):
        reservations = copy_leased_jobs(database, connection, jobs, caller_now, lease_for=lease_for, worker=worker)
        if reservations is not None:
            return newly_enqueued(jobs.ids), reservations
    return enqueue_on(database, connection, jobs, (), caller_now, owns_transaction=True), []


def _split_repeated_ids(jobs: Sequence[JobRecord]) -> Iterator[list[JobRecord]]:
    """Split the batch into runs that name every id once (nearly always one run); a later run sees the earlier ones."""
    run: dict[str, JobRecord] = {}
    for job in jobs:
        if job.id in run:
            yield list(run.values())
            run = {}
        run[job.id] = job
    if run:
        yield list(run.values())


def _enqueue_with_writes(
    database: Database,
    call: Call,
    jobs: Sequence[JobRecord],
    writes: Sequence[Change],
    caller_now: int | None,
    *,
    owns_transaction: bool,
) -> list[Enqueued]:
    """Make the writes with the first run of jobs. Raises ``WriteRefused`` before anything is changed."""
    first, *others = _split_repeated_ids(jobs)
    settings = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW)
    rows = call("enqueue_with_writes", *settings, *pack_changes(writes), *pack_jobs(first))
    if rows and rows[0][0] == 0:
        _, _, _, kind, key = rows[0]
        raise WriteRefused(jobs[0].id, kind=kind, key=key)
    later = _enqueue_runs(database, call, others, caller_now, owns_transaction=owns_transaction)
    return [*_read_answers(first, rows), *later]


def _enqueue_runs(
    database: Database,
    call: Call,
    runs: Iterable[list[JobRecord]],
    caller_now: int | None,
    *,
    owns_transaction: bool,
) -> list[Enqueued]:
    return [
        answer
        for run in runs
        for answer in _enqueue(database, call, run, caller_now, owns_transaction=owns_transaction)
    ]


def _enqueue(
    database: Database, call: Call, jobs: list[JobRecord], caller_now: int | None, *, owns_transaction: bool
) -> list[Enqueued]:
    arguments = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW, *pack_jobs(jobs))
    return _read_answers(jobs, call("enqueue", *arguments))


def _read_answers(jobs: list[JobRecord], rows: list[Row]) -> list[Enqueued]:
    """Return the answer for each job; the rows are about those that existed."""
    existing = {item: Enqueued(id=job_id, existed=True, conflict=conflict) for item, job_id, conflict, *_ in rows}
    return [existing.get(item) or Enqueued(id=job.id, existed=False) for item, job in enumerate(jobs, 1)]


def _enqueue_one(
    database: Database, connection: Connection, job: JobRecord, caller_now: int | None, *, owns_transaction: bool
) -> Enqueued:
    arguments = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW, *pack_job(job))
    existing, conflict = database.call_value_on(connection, "enqueue_one", *arguments)
    return Enqueued(id=existing or job.id, existed=existing is not None, conflict=bool(conflict))


def pack_job(job: JobRecord) -> list[object]:
    """Return the values of ``enqueue_one``: the payload digest of a job with a key, then the columns of the job."""
    digest = None if job.idempotency_key is None else digest_of(job.payload)
    return [digest, *(value_of(job) for value_of, _ in _COLUMN_PACKERS)]


def pack_jobs(jobs: Sequence[JobRecord]) -> list[Array | None]:
    """Return the arrays of ``enqueue``: the payload digests of jobs with a key, then the columns of the jobs."""
    digests = [None if job.idempotency_key is None else digest_of(job.payload) for job in jobs]
    arrays: list[Array | None] = [pack_blobs(digests)]
    for value_of, pack in _COLUMN_PACKERS:
        values = list(map(value_of, jobs))
        arrays.append(None if values.count(None) == len(values) else pack(values))
    return arrays


def _array_packer(column: Column) -> Callable[[Sequence[Any]], Array | None]:
    match sql_type(column):
        case "text":
            return pack_optional_texts if column.nullable else pack_texts
        case "bytea":
            return pack_blobs
        case "bigint":
            return pack_bigints
        case _:
            return pack_integers


def _value_of(column: Column) -> Callable[[JobRecord], Any]:
    return (lambda job: pack_meta(job.meta)) if column.kind is Kind.JSON else attrgetter(column.name)


_COLUMN_PACKERS = [(_value_of(column), _array_packer(column)) for column in STORED_COLUMNS]
