"""Large batches by COPY, which writes rows a page at a time: more than twice as quick as any INSERT.

It costs a few round trips (the store's now, the keys, the rows, a look at what has ended, the commit), and cannot
answer for jobs that exist: if an id or a key of the batch is known, ``enqueue_1`` takes the batch instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import psycopg

from holdfast.drivers.postgres import packing
from holdfast.drivers.postgres.arrays import Array, bigints, integers, names
from holdfast.drivers.postgres.batch import WINDOW
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.packing import Leases
from holdfast.drivers.postgres.store import PostgresStore
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch, lease_batch, must_wait, representatives
from holdfast.model.lease import Enqueued, Reservation, make_tokens, newly_enqueued, token_bytes

COPY_FROM = 500  # jobs; below, one round trip is worth more
Lanes: TypeAlias = dict[tuple[str, str, int], int | None]


def copy_on(
    store: PostgresStore, connection: Connection, jobs: Sequence[JobRecord], given: int | None, *, alone: bool
) -> list[Enqueued] | None:
    """All of them stored, or none and None: they are too few, or some id or key is known."""
    if len(jobs) < COPY_FROM:
        return None
    some = representatives(jobs)
    lanes = _lanes(some)
    domains = {(job.queue, job.domain) for job in some if job.domain is not None}
    columns = packing.columns_of(jobs)
    try:
        with connection.transaction():
            asked = (store.space_name, given, store.channel, alone, WINDOW, *_columns(lanes))
            [(now, windows)] = store.function_on(connection, "copying_1", *asked)
            if packing.KEY in columns:  # first, because it is what fails if a batch is sent again
                until = {queue: now + window for (queue, _, _), window in zip(lanes, windows, strict=True)}
                _copy_keys(store, connection, jobs, until)
            _copy(store, connection, "jobs", columns, packing.packed(store.space_name, jobs, columns, now))
            _look_back(store, connection, jobs, domains)
    except psycopg.errors.UniqueViolation:
        return None
    return newly_enqueued(_ids(jobs))


def copy_leased_on(
    store: PostgresStore, connection: Connection, jobs: JobBatch, given: int | None, *, lease_for: int, worker: str
) -> list[Reservation] | None:
    """All of them stored and leased, or none and None: as above, or they have to stand in line."""
    template = jobs.template
    if len(jobs) < COPY_FROM or must_wait(jobs):
        return None
    columns = tuple(name for name in packing.columns_of(jobs) if name not in packing.LEASE_COLUMNS)
    try:
        with connection.transaction():
            asked = (store.space_name, given, WINDOW, template.queue, len(jobs))
            [(now, window, fences)] = store.function_on(connection, "leasing_1", *asked)
            if fences is None:
                return None
            proofs = make_tokens(fences, token_bytes(len(fences)))
            leases = Leases(now, now + lease_for, worker, template.attempts + 1, fences, proofs)
            if jobs.keys is not None:
                _copy_keys(store, connection, jobs, {template.queue: now + window})
            rows = packing.packed_leased(store.space_name, jobs, columns, leases)
            _copy(store, connection, "jobs", (*columns, *packing.LEASE_COLUMNS), rows)
            _look_back(store, connection, jobs, ())
    except psycopg.errors.UniqueViolation:
        return None
    return lease_batch(jobs, fences, proofs, now + lease_for)


def _copy_keys(
    store: PostgresStore, connection: Connection, jobs: Sequence[JobRecord], until: Mapping[str, int]
) -> None:
    _copy(store, connection, "dedupe", packing.KEY_COLUMNS, [packing.packed_keys(store.space_name, jobs, until)])


def _copy(
    store: PostgresStore, connection: Connection, table: str, columns: Sequence[str], blocks: Iterable[bytes]
) -> None:
    with connection.cursor() as cursor, cursor.copy(store.copy_statement(table, columns)) as copy:
        copy.write(packing.START)
        for block in blocks:
            copy.write(block)
        copy.write(packing.END)


def _look_back(
    store: PostgresStore, connection: Connection, jobs: Sequence[JobRecord], domains: Collection[tuple[str, str]]
) -> None:
    """Whether one of them has ended before; and their domains are told."""
    ids, space = _ids(jobs), store.space_name
    told_of = names([queue for queue, _ in domains]), names([domain for _, domain in domains])
    [(doubtful,)] = store.function_on(connection, "copied_2", space, min(ids), max(ids), *told_of)
    if doubtful:
        store.function_on(connection, "copied_1", space, names(ids), None, None)


def _ids(jobs: Sequence[JobRecord]) -> Sequence[str]:
    return jobs.ids if isinstance(jobs, JobBatch) else [job.id for job in jobs]


def _lanes(jobs: Sequence[JobRecord]) -> Lanes:
    """The lanes, and when the first job of each may run: None is at once."""
    first: Lanes = {}
    for job in jobs:
        lane = job.queue, job.type, job.priority
        other = first.get(lane, job.run_at)
        first[lane] = None if job.run_at is None or other is None else min(job.run_at, other)
    return first


def _columns(lanes: Lanes) -> tuple[Array | None, ...]:
    return (
        names([queue for queue, _, _ in lanes]),
        names([type_ for _, type_, _ in lanes]),
        integers([priority for _, _, priority in lanes]),
        bigints(list(lanes.values())),
    )
