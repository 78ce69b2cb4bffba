"""Between table rows and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Reservation, make_reservation
from holdfast.model.ledger import Ending, LedgerRow
from holdfast.model.order import Lane
from holdfast.model.queue_settings import OnExhausted, QueueSettings

Row = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_decode_meta = msgspec.json.Decoder(dict[str, Any]).decode


def as_json(values: Iterable[object]) -> str:
    """An argument for ``json_each``: a list of any length in one parameter."""
    return _encode(list(values)).decode()


def pack_meta(meta: Mapping[str, object]) -> bytes | None:
    """Most jobs have none; NULL costs nothing."""
    return _encode(meta) if meta else None


def unpack_meta(meta: bytes | None) -> dict[str, Any]:
    """What ``pack_meta`` packed."""
    return {} if meta is None else _decode_meta(meta)


def insertion(job: JobRecord, space: str, now: int) -> Row:
    """The parameters of ``enqueue.sql``."""
    return (
        space,
        job.id,
        job.queue,
        job.type,
        job.priority,
        1 if job.domain is None else 0,
        now if job.run_at is None else job.run_at,
        now,
        job.run_at,
        job.attempts,
        job.max_attempts,
        job.crashes,
        job.max_crashes,
        job.created_at,
        job.requested_run_at,
        job.timeout,
        job.idempotency_key,
        job.domain,
        job.offset,
        job.name,
        pack_meta(job.meta) if job.meta else None,
        job.webhook,
        job.signature,
        job.last_error,
        job.failed_at,
        job.payload,
    )


def birth(found: Reservation, space: str, now: int, worker: str) -> Row:
    """The parameters of ``enqueue_leased.sql``: a new job, and its lease."""
    lease = found.lease
    return *insertion(found.job, space, now), lease.fence, lease.token, lease.expires_at, now, worker


JobDraft = mutable_twin(JobRecord)


def reservation(
    lane: Lane, row: Row, *, token: str, fence: int, expires_at: int, checkpoint: bytes | None
) -> Reservation:
    """The job in a row of ``due.sql`` as it is once it is leased, and its lease."""
    job = JobDraft()
    (
        _,
        _,
        job.id,
        job.payload,
        job.run_at,
        job.timeout,
        job.created_at,
        attempts,
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
        _,
    ) = row
    job.queue, job.type, job.priority = lane
    job.attempts = attempts + 1
    job.meta = {} if meta is None else unpack_meta(meta)
    job.state = State.INFLIGHT
    job.dead_reason = job.dead_at = job.result = None
    job.__class__ = JobRecord
    return make_reservation(job, token, fence, expires_at, checkpoint)


def record(row: Row) -> JobRecord:
    """The job in a row of ``get.sql`` or ``find_*.sql``, in any state."""
    return JobRecord(
        id=row[0],
        type=row[1],
        queue=row[2],
        payload=row[3],
        priority=row[4],
        run_at=row[5],
        timeout=row[6],
        created_at=row[7],
        attempts=row[8],
        max_attempts=row[9],
        crashes=row[10],
        max_crashes=row[11],
        idempotency_key=row[12],
        domain=row[13],
        offset=row[14],
        name=row[15],
        meta=unpack_meta(row[16]),
        webhook=row[17],
        signature=row[18],
        requested_run_at=row[19],
        state=State(row[20]),
        last_error=row[21],
        failed_at=row[22],
        dead_reason=row[23],
        dead_at=row[24],
        result=row[25],
    )


_LedgerDraft = mutable_twin(LedgerRow)
_ENDINGS = {ending.value: ending for ending in Ending}
_STATES: dict[str | None, State | None] = {None: None, **{state.value: state for state in State}}


def ledger_row(row: Row) -> LedgerRow:
    """From a row of ``ledger.sql``, whose last column is its number."""
    made = _LedgerDraft()
    (
        made.job_id,
        made.type,
        made.queue,
        made.domain,
        made.offset,
        made.attempt,
        made.fence,
        made.worker,
        made.enqueued_at,
        made.available_at,
        made.reserved_at,
        made.started_at,
        made.ended_at,
        ending,
        state,
        made.detail,
        made.error,
        _,
    ) = row
    made.ending = _ENDINGS[ending]
    made.state = _STATES[state]
    made.__class__ = LedgerRow
    return cast("LedgerRow", made)


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
