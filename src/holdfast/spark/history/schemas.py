"""The schemas of a history's stored tables, and ledger rows and jobs as Arrow tables. Runs on the Spark driver.

A schema only gains columns, before ``day`` and nullable. Files are read by column name with the reader's schema, so an
old file has nulls in a new column, and an old reader ignores a new column. ``day`` is last: Spark puts columns that
folders are named after there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

import msgspec
import pyarrow as pa

from holdfast.clock import DAY
from holdfast.model.fingerprint import fingerprint, normalise
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.spark.column_schemas import INSTANT, job_fields, ledger_fields

POSITION = pa.field("position", pa.int64())
JOB_ID = pa.field("job_id", pa.string())
DAY_FIELD = pa.field("day", pa.date32())

# One row of the ledger. ``position`` is its place in the ledger's order, counted from the first row of this history:
# order by it, never by an instant. ``day`` is the day of ``ended_at``.
LEASES = pa.schema([POSITION, *ledger_fields(), DAY_FIELD])

# A job as it was when ``position`` rows of the ledger had been read. Without payload and result: more people read a
# history than a store, and the two are the largest columns. ``error`` is normalised, ``fingerprint`` is that of
# ``holdfast dead groups``; both are set for dead letters only. ``day`` is the day of ``created_at``. ``arrival`` is the
# place of a job with a domain in the order of arrival; see ``Inspection``.
_JOB_COLUMNS = (
    *("type", "queue", "name", "priority", "domain", "offset", "limit_key", "idempotency_key", "unique_for"),
    *("attempts", "max_attempts", "max_crashes", "created_at", "run_at", "state", "dead_at", "dead_reason"),
)
JOBS = pa.schema(
    [
        *(POSITION, JOB_ID),
        *job_fields(*_JOB_COLUMNS),
        pa.field("error", pa.string()),
        pa.field("fingerprint", pa.string()),
        pa.field("arrival", pa.int64()),
        DAY_FIELD,
    ]
)

# The other columns that a new job needs, in a separate table: audits and reports never read it, its folder can have
# stricter permissions, and a sync can leave it out. ``timeout`` is in microseconds.
PAYLOADS = pa.schema(
    [
        *(POSITION, JOB_ID),
        *job_fields("payload", "meta"),
        pa.field("timeout", pa.int64()),
        *job_fields("webhook"),
        DAY_FIELD,
    ]
)

# Summaries: the results of ``history_health.sql`` and ``history_failures.sql``. Percentiles are in seconds.
HEALTH = pa.schema(
    [
        *ledger_fields("queue", "type"),
        ("minute", INSTANT),
        *((name, pa.int64()) for name in ("arrivals", "leases", "acked", "retried", "failed", "released", "expired")),
        *((name, pa.int64()) for name in ("cancelled", "dead")),
        *((f"{what}_p{share}", pa.float64()) for what in ("wait", "run") for share in (50, 95, 99)),
        DAY_FIELD,
    ]
)
FAILURES = pa.schema(
    [
        *((name, pa.string()) for name in ("fingerprint", "type", "reason", "error")),
        ("dead", pa.int64()),
        ("first_at", INSTANT),
        ("last_at", INSTANT),
        ("queues", pa.list_(pa.string())),
        ("forgotten", pa.int64()),  # dead letters whose records this history no longer has
        DAY_FIELD,  # of last_at
    ]
)

_encode = msgspec.json.Encoder().encode
_ledger_columns = attrgetter(*(field.name for field in ledger_fields()))
_job_columns = attrgetter(*_JOB_COLUMNS)


def leases_table(rows: Sequence[LedgerRow], *, position: int = 0, positions: Sequence[int] | None = None) -> pa.Table:
    """Return ledger rows at their ``positions``, or in their order with the first of them at ``position``."""
    places = range(position, position + len(rows)) if positions is None else positions
    return _table(
        LEASES,
        [(place, *_ledger_columns(row), row.ended_at // DAY) for place, row in zip(places, rows, strict=True)],
    )


def jobs_table(jobs: Iterable[JobRecord], *, position: int, arrivals: Mapping[str, int] | None = None) -> pa.Table:
    """Return jobs as they are after ``position`` rows of the ledger have been read, with their ``arrivals`` by id."""
    return _table(JOBS, [_job_row(job, position, (arrivals or {}).get(job.id)) for job in jobs])


def _job_row(job: JobRecord, position: int, arrival: int | None) -> tuple[object, ...]:
    error = hashed = None
    if job.state is State.DEAD:
        error = normalise(job.last_error)
        hashed = fingerprint(type=job.type, reason=job.dead_reason, error=job.last_error)
    return position, job.id, *_job_columns(job), error, hashed, arrival, job.created_at // DAY


def payloads_table(jobs: Iterable[JobRecord], *, position: int) -> pa.Table:
    """Return the columns of the same jobs that ``jobs_table`` leaves out."""
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
