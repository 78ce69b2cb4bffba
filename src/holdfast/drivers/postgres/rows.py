"""Between rows and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.queue_settings import OnExhausted, QueueSettings

Row = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode


def pack_meta(meta: Mapping[str, object]) -> bytes | None:
    """Most jobs have none; NULL costs nothing."""
    return _encode(meta) if meta else None


def unpack_meta(meta: bytes | None) -> dict[str, Any]:
    """What ``pack_meta`` packed."""
    return {} if meta is None else _decode_meta(meta)


JobDraft = mutable_twin(JobRecord)
LeaseDraft = mutable_twin(Lease)
ReservationDraft = mutable_twin(Reservation)


def reservation(row: Row) -> Reservation:
    """A leased job, from a row of ``reserve_1``."""
    job = JobDraft()
    lease = LeaseDraft()
    made = ReservationDraft()
    (
        job.id,
        job.queue,
        job.type,
        job.priority,
        job.payload,
        job.run_at,
        job.timeout,
        job.created_at,
        job.attempts,
        job.max_attempts,
        job.crashes,
        job.max_crashes,
        job.idempotency_key,
        job.domain,
        job.offset,
        job.name,
        meta,
        job.webhook,
        job.signature,
        job.requested_run_at,
        job.last_error,
        job.failed_at,
        lease.token,
        lease.fence,
        lease.expires_at,
        made.checkpoint,
    ) = row
    job.meta = {} if meta is None else _decode_meta(meta)
    job.state = State.INFLIGHT
    job.dead_reason = job.dead_at = job.result = None
    job.__class__ = JobRecord
    lease.job_id = job.id
    lease.cancel_requested = False
    lease.__class__ = Lease
    made.job, made.lease = job, lease
    made.__class__ = Reservation
    return cast("Reservation", made)


RECORD = (  # the columns of get.sql, inspect.sql and find.sql that a job is made of
    "id",
    "type",
    "queue",
    "payload",
    "priority",
    "run_at",
    "timeout",
    "created_at",
    "attempts",
    "max_attempts",
    "crashes",
    "max_crashes",
    "idempotency_key",
    "domain",
    "offset",
    "name",
    "meta",
    "webhook",
    "signature",
    "requested_run_at",
    "state",
    "last_error",
    "failed_at",
    "dead_reason",
    "dead_at",
    "result",
)


def record(row: Row) -> JobRecord:
    """The job in a row that begins with these columns, in any state."""
    job = JobDraft()
    (
        job.id,
        job.type,
        job.queue,
        job.payload,
        job.priority,
        job.run_at,
        job.timeout,
        job.created_at,
        job.attempts,
        job.max_attempts,
        job.crashes,
        job.max_crashes,
        job.idempotency_key,
        job.domain,
        job.offset,
        job.name,
        meta,
        job.webhook,
        job.signature,
        job.requested_run_at,
        state,
        job.last_error,
        job.failed_at,
        job.dead_reason,
        job.dead_at,
        job.result,
    ) = row[: len(RECORD)]
    job.meta = {} if meta is None else _decode_meta(meta)
    job.state = State(state)
    job.__class__ = JobRecord
    return cast("JobRecord", job)


def ledger_row(row: Row) -> LedgerRow:
    """From the columns of ``ledger.sql`` that follow its cursor."""
    return LedgerRow(
        job_id=row[0],
        type=row[1],
        queue=row[2],
        domain=row[3],
        offset=row[4],
        attempt=row[5],
        fence=row[6],
        worker=row[7],
        enqueued_at=row[8],
        available_at=row[9],
        reserved_at=row[10],
        started_at=row[11],
        ended_at=row[12],
        ending=Ending(row[13]),
        state=None if row[14] is None else State(row[14]),
        detail=row[15],
        error=row[16],
    )


def settings(row: Row) -> QueueSettings:
    """From the columns paused_until, max_inflight, rate, burst, on_exhausted, dedupe_window."""
    paused_until, max_inflight, rate, burst, on_exhausted, dedupe_window = row
    return QueueSettings(
        paused_until=paused_until,
        max_inflight=max_inflight,
        rate=rate,
        burst=burst,
        on_exhausted=OnExhausted(on_exhausted),
        dedupe_window=dedupe_window,
    )
