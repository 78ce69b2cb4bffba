"""Ledger rows and jobs as Spark sees them: the schemas of a history's stored tables, and the way into them.

A schema only ever gains columns, at its end and nullable: files are read by name with the schema of the reader, so an
old file has nulls in a new column, and a new file's column is not seen by an old reader.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa

from holdfast.clock import DAY
from holdfast.model.fingerprint import fingerprint, normalise
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow

INSTANT = pa.timestamp("us", tz="UTC")

# As it happened: one row of the ledger. ``position`` is its place in the order of the ledger, counted from the first
# row that this history holds; order by it, never by an instant.
LEASES = pa.schema(
    [
        ("position", pa.int64()),
        ("job_id", pa.string()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("domain", pa.string()),
        ("offset", pa.int64()),
        ("attempt", pa.int32()),
        ("fence", pa.int64()),
        ("worker", pa.string()),
        ("enqueued_at", INSTANT),
        ("available_at", INSTANT),
        ("reserved_at", INSTANT),
        ("started_at", INSTANT),
        ("ended_at", INSTANT),
        ("ending", pa.string()),
        ("state", pa.string()),
        ("detail", pa.string()),
        ("error", pa.string()),
        ("day", pa.date32()),
    ]
)

# A job as it stood when ``position`` rows of the ledger had been read. No payload and no result: a history is read by
# more people than a store is, and they are the bulk of it.
JOBS = pa.schema(
    [
        ("position", pa.int64()),
        ("job_id", pa.string()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("name", pa.string()),
        ("priority", pa.int32()),
        ("domain", pa.string()),
        ("offset", pa.int64()),
        ("idempotency_key", pa.string()),
        ("attempts", pa.int32()),
        ("max_attempts", pa.int32()),
        ("max_crashes", pa.int32()),
        ("created_at", INSTANT),
        ("run_at", INSTANT),
        ("state", pa.string()),
        ("dead_at", INSTANT),
        ("dead_reason", pa.string()),
        ("error", pa.string()),  # normalised, of a dead letter
        ("fingerprint", pa.string()),  # the one of ``holdfast dead groups``
        ("day", pa.date32()),  # of its creation
    ]
)

# What else it takes to enqueue a job again is in ``payloads``, a folder of its own: audits and reports never read it,
# who may is a matter of that folder's rights, and a sync can leave it out.
PAYLOADS = pa.schema(
    [
        ("position", pa.int64()),
        ("job_id", pa.string()),
        ("payload", pa.binary()),
        ("meta", pa.string()),
        ("timeout", pa.int64()),  # microseconds
        ("webhook", pa.string()),
        ("day", pa.date32()),  # of the job's creation
    ]
)

# Summaries, as ``history_health.sql`` and ``history_failures.sql`` give them.
HEALTH = pa.schema(
    [
        ("queue", pa.string()),
        ("type", pa.string()),
        ("minute", INSTANT),
        *((name, pa.int64()) for name in ("arrivals", "leases", "acked", "retried", "failed", "released", "expired")),
        *((name, pa.int64()) for name in ("cancelled", "dead")),
        *((f"{what}_p{share}", pa.float64()) for what in ("wait", "run") for share in (50, 95, 99)),  # seconds
        ("day", pa.date32()),
    ]
)
FAILURES = pa.schema(
    [
        ("fingerprint", pa.string()),
        ("type", pa.string()),
        ("reason", pa.string()),
        ("error", pa.string()),
        ("dead", pa.int64()),
        ("first_at", INSTANT),
        ("last_at", INSTANT),
        ("queues", pa.list_(pa.string())),
        ("forgotten", pa.int64()),  # dead letters whose records this history no longer has
        ("day", pa.date32()),  # of the last one
    ]
)

_SPARK = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.float64(): "double",
    pa.list_(pa.string()): "array<string>",
    pa.date32(): "date",
    INSTANT: "timestamp",
}


_encode = msgspec.json.Encoder().encode


def ddl(schema: pa.Schema) -> str:
    """The same schema in Spark's words."""
    return ", ".join(f"`{field.name}` {_SPARK[field.type]}" for field in schema)


def leases_table(rows: Iterable[LedgerRow], *, position: int) -> pa.Table:
    """Ledger rows in their order, the first of them at ``position``."""
    return _table(
        LEASES,
        [
            (
                place,
                row.job_id,
                row.type,
                row.queue,
                row.domain,
                row.offset,
                row.attempt,
                row.fence,
                row.worker,
                row.enqueued_at,
                row.available_at,
                row.reserved_at,
                row.started_at,
                row.ended_at,
                str(row.ending),
                None if row.state is None else str(row.state),
                row.detail,
                row.error,
                row.ended_at // DAY,
            )
            for place, row in enumerate(rows, position)
        ],
    )


def jobs_table(jobs: Iterable[JobRecord], *, position: int) -> pa.Table:
    """Jobs as they stand now, when ``position`` rows of the ledger have been read."""
    return _table(JOBS, [_job(job, position) for job in jobs])


def _job(job: JobRecord, position: int) -> tuple[object, ...]:
    dead = job.state is State.DEAD
    return (
        position,
        job.id,
        job.type,
        job.queue,
        job.name,
        job.priority,
        job.domain,
        job.offset,
        job.idempotency_key,
        job.attempts,
        job.max_attempts,
        job.max_crashes,
        job.created_at,
        job.run_at,
        str(job.state),
        job.dead_at,
        job.dead_reason,
        normalise(job.last_error) if dead else None,
        fingerprint(type=job.type, reason=job.dead_reason, error=job.last_error) if dead else None,
        job.created_at // DAY,
    )


def payloads_table(jobs: Iterable[JobRecord], *, position: int) -> pa.Table:
    """What a record in ``jobs`` leaves out, of the same jobs."""
    return _table(
        PAYLOADS,
        [
            (position, job.id, job.payload, _encode(job.meta).decode(), job.timeout, job.webhook, job.created_at // DAY)
            for job in jobs
        ],
    )


def _table(schema: pa.Schema, rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
