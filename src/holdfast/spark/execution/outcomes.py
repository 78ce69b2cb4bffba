"""One row per attempt: what a slot tells of its work, and the schema that pipelines go on from."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Fail, Retry
from holdfast.worker.status import Settled

INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        pa.field("job_id", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("queue", pa.string(), nullable=False),
        pa.field("attempt", pa.int32(), nullable=False),
        pa.field("fence", pa.int64(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("executor", pa.string(), nullable=False),
        pa.field("reserved_at", INSTANT),
        pa.field("started_at", INSTANT),
        pa.field("ended_at", INSTANT, nullable=False),
        pa.field("ending", pa.string(), nullable=False),
        pa.field("error_class", pa.string()),
        pa.field("error", pa.string()),
    ]
)
DDL = (
    "job_id string not null, type string not null, queue string not null, attempt int not null, fence bigint not null, "
    "slot int not null, executor string not null, reserved_at timestamp, started_at timestamp, "
    "ended_at timestamp not null, ending string not null, error_class string, error string"
)
ENDINGS = {"ack": "acked", "retry": "retried", "fail": "failed", "release": "released"}
LOST = "lost"  # the store refused the settlement: the attempt has ended otherwise, and the ledger says how


def from_settled(
    settled: Sequence[Settled], ended: Sequence[int], *, slot: int, executor: str, lease_for: int
) -> pa.RecordBatch:
    """As the slot itself saw them and when; their leases began when the store said, not when its answer came."""
    reserved = [one.run.reservation for one in settled]
    jobs, leases = [each.job for each in reserved], [each.lease for each in reserved]
    return _batch(
        slot=[slot] * len(settled),
        job_id=[job.id for job in jobs],
        type=[job.type for job in jobs],
        queue=[job.queue for job in jobs],
        attempt=[job.attempts for job in jobs],
        fence=[lease.fence for lease in leases],
        executor=[executor] * len(settled),
        reserved_at=[lease.expires_at - lease_for for lease in leases],
        started_at=[one.run.started_at for one in settled],
        ended_at=ended,
        ending=[LOST if one.refused is not None else ENDINGS[one.settlement.verb] for one in settled],
        error_class=[_class_of(one) for one in settled],
        error=[_error_of(one) for one in settled],
    )


def _class_of(settled: Settled) -> str | None:
    if settled.refused is not None:
        return type(settled.refused).__name__
    match settled.settlement:
        case Retry() as retry:
            return retry.detail or None
        case Fail() as fail:
            return fail.reason
        case _:
            return None


def _error_of(settled: Settled) -> str | None:
    if settled.refused is not None:
        return str(settled.refused)
    match settled.settlement:
        case Retry() | Fail() as ending:
            return ending.error or None
        case _:
            return None


def from_ledger(rows: Sequence[LedgerRow]) -> pa.RecordBatch:
    """As the ledger has them. It knows their worker only, whose name is run/stage/slot/try."""
    return _batch(
        slot=[int(row.worker.split("/")[-2]) for row in rows],
        job_id=[row.job_id for row in rows],
        type=[row.type for row in rows],
        queue=[row.queue for row in rows],
        attempt=[row.attempt for row in rows],
        fence=[row.fence or 0 for row in rows],
        executor=[row.worker for row in rows],
        reserved_at=[row.reserved_at for row in rows],
        started_at=[row.started_at for row in rows],
        ended_at=[row.ended_at for row in rows],
        ending=[row.ending for row in rows],
        error_class=[row.detail or None for row in rows],
        error=[row.error or None for row in rows],
    )


def _batch(**columns: Sequence[object]) -> pa.RecordBatch:
    """Column by column: a value for each row in between would cost as much as the rest of a slot's telling."""
    arrays = [pa.array(columns[field.name], type=field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
