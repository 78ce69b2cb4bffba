"""One row per attempt: what a slot tells of its work, and the schema that pipelines go on from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Fail, Retry
from holdfast.worker.worker import Settled

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


class Outcome(NamedTuple):
    """A row, in the order of the schema."""

    job_id: str
    type: str
    queue: str
    attempt: int
    fence: int
    slot: int
    executor: str
    reserved_at: int | None
    started_at: int | None
    ended_at: int
    ending: str
    error_class: str | None
    error: str | None


def from_settled(settled: Settled, *, slot: int, executor: str, lease_for: int, now: int) -> Outcome:
    """As the slot itself saw it. The lease began when the store said, not when the answer came."""
    job, lease = settled.run.reservation.job, settled.run.reservation.lease
    settlement = settled.settlement
    error = str(settled.refused) if settled.refused is not None else getattr(settlement, "error", "")
    return Outcome(
        job_id=job.id,
        type=job.type,
        queue=job.queue,
        attempt=job.attempts,
        fence=lease.fence,
        slot=slot,
        executor=executor,
        reserved_at=lease.expires_at - lease_for,
        started_at=settled.run.started_at,
        ended_at=now,
        ending=LOST if settled.refused is not None else ENDINGS[settlement.verb],
        error_class=_class_of(settled),
        error=error or None,
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


def from_ledger(row: LedgerRow, *, slot: int, executor: str) -> Outcome:
    """As the ledger has it: for attempts whose slot died before it could tell."""
    return Outcome(
        job_id=row.job_id,
        type=row.type,
        queue=row.queue,
        attempt=row.attempt,
        fence=row.fence or 0,
        slot=slot,
        executor=executor,
        reserved_at=row.reserved_at,
        started_at=row.started_at,
        ended_at=row.ended_at,
        ending=row.ending,
        error_class=row.detail or None,
        error=row.error or None,
    )


def to_arrow(outcomes: Iterable[Outcome]) -> pa.RecordBatch:
    """Rows as a batch."""
    columns = list(zip(*outcomes, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
