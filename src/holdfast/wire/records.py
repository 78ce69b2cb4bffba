"""Between what people see and what stores keep: a request becomes a record, a reservation a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from uuid_utils import uuid7

from holdfast.clock import from_datetime, from_timedelta, to_datetime, to_timedelta
from holdfast.model import bounds
from holdfast.model.alike import Alike
from holdfast.model.draft import draft_of
from holdfast.model.job import Job, JobRecord
from holdfast.model.lease import Reservation
from holdfast.model.request import META_RETRY, RESERVED_META, JobRequest
from holdfast.model.retry import written
from holdfast.wire.codec import JSON, Codec, codec, decoded, encoded
from holdfast.wire.envelope import META_CODEC

_JobDraft = draft_of(Job)


def to_record(
    request: JobRequest,
    *,
    now: int,
    codec: Codec = JSON,
    max_payload: int = bounds.MAX_PAYLOAD,
) -> JobRecord:
    """A new record with an id of its own: payload and meta encoded and bounded, lengths turned into instants.

    ``now`` becomes ``created_at``, and a delay counts from it. Raises ``PayloadError`` for a payload or meta
    that cannot be stored; everything else was checked when the request was made.
    """
    run_at = _run_at(request, now)
    return JobRecord(
        id=str(uuid7()),  # grows with time: a store appends instead of inserting all over its index
        type=request.type,
        queue=request.queue,
        payload=encoded(codec, request.payload, most=max_payload),
        priority=request.priority,
        run_at=run_at,
        timeout=None if request.timeout is None else from_timedelta(request.timeout),
        created_at=now,
        max_attempts=request.max_attempts,
        idempotency_key=request.idempotency_key,
        domain=request.domain,
        offset=request.offset,
        name=request.name,
        meta=_meta(request, codec),
        webhook=request.webhook,
        requested_run_at=run_at,
    )


def to_records(
    like: JobRequest,
    payloads: Iterable[object],
    keys: Iterable[str | None] | None = None,
    *,
    now: int,
    codec: Codec = JSON,
    max_payload: int = bounds.MAX_PAYLOAD,
) -> Alike:
    """The same for many payloads at once, with everything else like ``like``."""
    shared = to_record(like, now=now, codec=codec, max_payload=max_payload)
    data = [encoded(codec, payload, most=max_payload) for payload in payloads]
    return Alike(shared, [str(uuid7()) for _ in data], data, None if keys is None else list(keys))


def to_job(reservation: Reservation, codec: Codec = JSON) -> Job:
    """What a handler sees of a reserved job. Raises ``PayloadError`` if its payload cannot be read.

    The record names the codec of its payload: that is ``codec`` if the names agree, else a registered one.
    """
    record, lease = reservation.job, reservation.lease
    job = _JobDraft()
    job.id = record.id
    job.type = record.type
    job.name = record.name
    job.payload = decoded(_codec_of(record, codec), record.payload)
    job.queue = record.queue
    job.attempt = record.attempts
    job.max_attempts = record.max_attempts
    job.fence = lease.fence
    job.created_at = to_datetime(record.created_at)
    job.run_at = None if record.requested_run_at is None else to_datetime(record.requested_run_at)
    job.timeout = None if record.timeout is None else to_timedelta(record.timeout)
    job.domain = record.domain
    job.offset = record.offset
    job.meta = {key: value for key, value in record.meta.items() if not key.startswith(RESERVED_META)}
    job.__class__ = Job
    return cast("Job", job)


def _run_at(request: JobRequest, now: int) -> int | None:
    if request.run_at is not None:
        return from_datetime(request.run_at)
    return now + from_timedelta(request.delay) if request.delay else None


def _meta(request: JobRequest, codec: Codec) -> dict[str, object]:
    """A copy in plain JSON values, so that nothing the caller does to theirs later can change the job's."""
    own: dict[str, object] = {} if codec.name == JSON.name else {META_CODEC: codec.name}
    if request.retry is not None:
        own[META_RETRY] = written(request.retry)
    if not request.meta:
        return own
    data = JSON.encode({**request.meta, **own}, field="meta")
    return cast("dict[str, object]", JSON.decode(bounds.blob("meta", data, most=bounds.MAX_META)))


def _codec_of(record: JobRecord, given: Codec) -> Codec:
    name = record.meta.get(META_CODEC, JSON.name)
    return given if name == given.name else codec(str(name))
