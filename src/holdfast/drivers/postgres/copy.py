"""Large batches by COPY, which writes rows a page at a time: more than twice as fast as INSERT.

COPY costs a few round trips (the clock, the keys, the rows, a probe of ended jobs, the commit) and cannot answer for
jobs that exist. If an id or key of the batch is known, the functions here return None and the caller uses ``enqueue``.
They do so for jobs with offsets, too: these are often sent again, and one known offset would abort the COPY. And for
batches with large payloads: most of their time is the writing of the payloads, and these go to another table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import psycopg

from holdfast.drivers.packing import MAX_INLINE_BYTES
from holdfast.drivers.postgres import copy_rows
from holdfast.drivers.postgres.arrays import Array, pack_bigints, pack_integers, pack_texts
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.copy_rows import NewLeases
from holdfast.drivers.postgres.database import Database
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch, lease_batch, must_wait, representatives
from holdfast.model.lease import Enqueued, Reservation, make_tokens, newly_enqueued, token_bytes
from holdfast.model.queue_settings import QueueSettings

MIN_COPY_JOBS = 500  # below, the additional round trips cost more than COPY saves
DEFAULT_DEDUPE_WINDOW = QueueSettings().dedupe_window
Lanes: TypeAlias = dict[tuple[str, str, int], int | None]  # queue, type and priority


def copy_jobs(
    database: Database,
    connection: Connection,
    jobs: Sequence[JobRecord],
    caller_now: int | None,
    *,
    owns_transaction: bool,
) -> list[Enqueued] | None:
    """Store all jobs and return the answers; store none and return None if only ``enqueue`` can store them."""
    shapes = representatives(jobs)
    if len(jobs) < MIN_COPY_JOBS or any(job.offset is not None for job in shapes) or _has_large_payload(jobs):
        return None
    lanes = _lanes_of(shapes)
    domains = {(job.queue, job.domain) for job in shapes if job.domain is not None}
    columns = copy_rows.columns_of(jobs)
    try:
        with connection.transaction():
            arguments = (caller_now, database.channel, owns_transaction, DEFAULT_DEDUPE_WINDOW, *_pack_lanes(lanes))
            [(now, windows)] = database.call_on(connection, "prepare_copy", *arguments)
            if copy_rows.KEY in columns:  # first: in a repeated batch it is the keys that exist
                by_queue = {queue: window for (queue, *_), window in zip(lanes, windows, strict=True)}
                _copy_keys(database, connection, jobs, now, by_queue)
            _copy(database, connection, "jobs", columns, copy_rows.pack_jobs(database.space, jobs, columns, now))
            _finish(database, connection, jobs, domains)
    except psycopg.errors.UniqueViolation:
        return None
    return newly_enqueued(_ids_of(jobs))


def copy_leased_jobs(
    database: Database,
    connection: Connection,
    jobs: JobBatch,
    caller_now: int | None,
    *,
    lease_for: int,
    worker: str,
) -> list[Reservation] | None:
    """Store and lease all jobs; store none and return None as ``copy_jobs`` does, or if the jobs must wait."""
    template = jobs.template
    if len(jobs) < MIN_COPY_JOBS or must_wait(jobs) or _has_large_payload(jobs):
        return None
    columns = tuple(name for name in copy_rows.columns_of(jobs) if name not in copy_rows.LEASE_COLUMNS)
    try:
        with connection.transaction():
            arguments = (caller_now, DEFAULT_DEDUPE_WINDOW, template.queue, len(jobs))
            [(now, window, fences)] = database.call_on(connection, "prepare_leased_copy", *arguments)
            if fences is None:
                return None
            lease_tokens = make_tokens(fences, token_bytes(len(fences)))
            leases = NewLeases(now, now + lease_for, worker, template.attempts + 1, fences, lease_tokens)
            if jobs.keys is not None:
                _copy_keys(database, connection, jobs, now, {template.queue: window})
            rows = copy_rows.pack_leased_jobs(database.space, jobs, columns, leases)
            _copy(database, connection, "jobs", (*columns, *copy_rows.LEASE_COLUMNS), rows)
            _finish(database, connection, jobs, ())
    except psycopg.errors.UniqueViolation:
        return None
    return lease_batch(jobs, fences, lease_tokens, now + lease_for)


def _copy_keys(
    database: Database, connection: Connection, jobs: Sequence[JobRecord], now: int, windows: Mapping[str, int]
) -> None:
    rows = copy_rows.pack_keys(database.space, jobs, now, windows)
    _copy(database, connection, "dedupe", copy_rows.KEY_COLUMNS, [rows])


def _copy(
    database: Database, connection: Connection, table: str, columns: Sequence[str], blocks: Iterable[bytes]
) -> None:
    statement = database.statements.copy(table, columns).encode()
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        copy.write(copy_rows.START)
        for block in blocks:
            copy.write(block)
        copy.write(copy_rows.END)


def _finish(
    database: Database, connection: Connection, jobs: Sequence[JobRecord], domains: Collection[tuple[str, str]]
) -> None:
    """Record the domains. Raises ``UniqueViolation`` if a job of the batch has ended before."""
    ids = _ids_of(jobs)
    queues, names = pack_texts([queue for queue, _ in domains]), pack_texts([domain for _, domain in domains])
    [(may_have_ended,)] = database.call_on(connection, "finish_copy", min(ids), max(ids), queues, names)
    if may_have_ended:
        database.call_on(connection, "refuse_ended_ids", pack_texts(ids))


def _ids_of(jobs: Sequence[JobRecord]) -> Sequence[str]:
    return jobs.ids if isinstance(jobs, JobBatch) else [job.id for job in jobs]


def _has_large_payload(jobs: Sequence[JobRecord]) -> bool:
    payloads = jobs.payloads if isinstance(jobs, JobBatch) else [job.payload for job in jobs]
    return max(map(len, payloads)) > MAX_INLINE_BYTES


def _lanes_of(jobs: Sequence[JobRecord]) -> Lanes:
    """Return the lanes, each with the instant at which its first job can run; None is at once."""
    first: Lanes = {}
    for job in jobs:
        lane = job.queue, job.type, job.priority
        earliest = first.get(lane, job.run_at)
        first[lane] = None if job.run_at is None or earliest is None else min(job.run_at, earliest)
    return first


def _pack_lanes(lanes: Lanes) -> tuple[Array | None, ...]:
    return (
        pack_texts([queue for queue, _, _ in lanes]),
        pack_texts([type_ for _, type_, _ in lanes]),
        pack_integers([priority for _, _, priority in lanes]),
        pack_bigints(list(lanes.values())),
    )
