"""Enqueue: the batch as one array per column, and the answers in its order. Large batches go through ``copy``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

from holdfast.drivers.answers import Stored
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
from holdfast.drivers.postgres.ledger import read_position
from holdfast.drivers.postgres.registry import pack_changes
from holdfast.drivers.requests import Enqueue
from holdfast.errors import WriteRefused
from holdfast.model.columns import Column, Kind
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Enqueued, newly_enqueued
from holdfast.model.registry import Change

PAST = "past"  # the kind in a row of ``enqueue_with_writes`` for an offset that has ended
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
    jobs = list(jobs)  # a JobBatch makes its records each time it is read, and there are many columns
    if len(jobs) == 1 and jobs[0].offset is None:
        return [_enqueue_one(database, connection, jobs[0], caller_now, owns_transaction=owns_transaction)]
    runs = split_into_runs(jobs)
    call = partial(database.call_on, connection)
    if len(runs) == 1:
        return _enqueue(database, call, jobs, caller_now, owns_transaction=owns_transaction)
    with connection.transaction():
        return _enqueue_runs(database, call, jobs, runs, caller_now, owns_transaction=owns_transaction)


def enqueue_alone(database: Database, connection: Connection, *, request: Enqueue) -> Stored:
    """Store the jobs in a transaction of their own."""
    return Stored(enqueue_on(database, connection, request.jobs, (), request.now, owns_transaction=True))


def enqueue_replacing(
    database: Database, connection: Connection, *, request: Enqueue, cursors: Collection[str | None]
) -> Stored:
    """Enqueue with ``replace_dead_before``. ``cursors`` are those of the readers of the ledger."""
    keyed = [(job.id, job.queue, job.idempotency_key) for job in request.jobs if job.idempotency_key is not None]
    columns = [pack_texts(list(column)) for column in zip(*keyed, strict=True)] if keyed else []
    with connection.transaction():
        if columns:
            before = (request.now, request.replace_dead_before)
            database.call_on(connection, "replace_dead", *before, *columns, *read_position(cursors))
        return enqueue_alone(database, connection, request=request)


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
    return _enqueue_runs(database, call, jobs, split_into_runs(jobs), caller_now, owns_transaction=False)


def enqueue_leased_on(database: Database, connection: Connection, *, request: Enqueue) -> Stored:
    """Store the jobs, and lease all of them or none; only of a large ``JobBatch``."""
    jobs, lease = request.jobs, request.lease
    if isinstance(jobs, JobBatch) and lease is not None:
        reservations = copy_leased_jobs(
            database, connection, jobs, request.now, lease_for=lease.lease_for, worker=lease.worker
        )
        if reservations is not None:
            return Stored(newly_enqueued(jobs.ids), reservations)
    return enqueue_alone(database, connection, request=request)


def split_into_runs(jobs: Sequence[JobRecord]) -> Sequence[Sequence[int]]:
    """Return the places of the jobs in runs that name every id once, and every offset; nearly always one run.

    A later run sees what the earlier ones have stored. A job comes in a later run than each job before it that has its
    id, its offset or, in a batch with offsets, its key: so the answers are those of the jobs one after the other.

    A job without an offset must also arrive before the jobs behind it. If it repeats a name of a job that was refused,
    it may be stored: then all jobs behind it come in its run or later. An exact repetition is never stored.
    """
    has_offsets = any(job.offset is not None for job in jobs)
    if not has_offsets and len({job.id for job in jobs}) == len(jobs):
        return [range(len(jobs))]
    runs: list[list[int]] = []
    first_run = 0  # of the jobs that repeat nothing
    run_of: dict[tuple[object, ...], int] = {}  # by name, the last run in which it occurs
    without_offset: set[tuple[object, ...]] = set()  # everything that may refuse such a job
    for place, job in enumerate(jobs):
        names: list[tuple[object, ...]] = [(job.id,)]
        if job.offset is not None:
            names.append((job.queue, job.domain, job.offset))
        if has_offsets and job.idempotency_key is not None:
            names.append((job.queue, job.idempotency_key))
        run = max(first_run, 1 + max(run_of.get(name, -1) for name in names))
        if job.offset is None:
            identity = (job.id, job.queue, job.idempotency_key)
            if run > first_run and identity not in without_offset:
                first_run = run = len(runs)
            without_offset.add(identity)
        if run == len(runs):
            runs.append([])
        runs[run].append(place)
        run_of.update(dict.fromkeys(names, run))
    return runs


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
    first, *others = split_into_runs(jobs)
    some = [jobs[place] for place in first]
    settings = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW)
    rows = call("enqueue_with_writes", *settings, *pack_changes(writes), *pack_jobs(some))
    if rows and rows[0][0] == 0:
        _, _, _, kind, key = rows[0]
        raise WriteRefused(jobs[0].id, kind=kind, key=key)
    answers = dict(zip(first, _read_answers(some, [(*row[:3], row[3] == PAST) for row in rows]), strict=True))
    return _enqueue_runs(database, call, jobs, others, caller_now, owns_transaction=owns_transaction, answers=answers)


def _enqueue_runs(
    database: Database,
    call: Call,
    jobs: Sequence[JobRecord],
    runs: Sequence[Sequence[int]],
    caller_now: int | None,
    *,
    owns_transaction: bool,
    answers: dict[int, Enqueued] | None = None,
) -> list[Enqueued]:
    """Store these runs, one after the other. ``answers`` has those of the jobs that are in none of them, by place."""
    answers = answers or {}
    for run in runs:
        some = [jobs[place] for place in run]
        stored = _enqueue(database, call, some, caller_now, owns_transaction=owns_transaction)
        answers.update(zip(run, stored, strict=True))
    return [answers[place] for place in range(len(jobs))]


def _enqueue(
    database: Database, call: Call, jobs: Sequence[JobRecord], caller_now: int | None, *, owns_transaction: bool
) -> list[Enqueued]:
    arguments = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW, *pack_jobs(jobs))
    return _read_answers(jobs, call("enqueue", *arguments))


def _read_answers(jobs: Sequence[JobRecord], rows: list[Row]) -> list[Enqueued]:
    """Return the answer for each job; the rows are about those that existed."""
    existing = {
        item: Enqueued(id=job_id, existed=True, conflict=conflict, past=past) for item, job_id, conflict, past in rows
    }
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
    values = [digest, *_stored_values(job)]
    values[_META] = pack_meta(job.meta)
    return values


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


_stored_values = attrgetter(*(column.name for column in STORED_COLUMNS))
_META = 1 + [column.name for column in STORED_COLUMNS].index("meta")  # its place in the values of ``enqueue_one``
_COLUMN_PACKERS = [(_value_of(column), _array_packer(column)) for column in STORED_COLUMNS]
