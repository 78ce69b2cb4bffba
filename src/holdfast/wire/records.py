"""Between what people see and what stores keep: a request becomes a record, a reservation a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import msgspec
from uuid_utils import uuid7

from holdfast.clock import from_datetime, from_timedelta, to_datetime, to_timedelta
from holdfast.model import bounds
from holdfast.model.fast_construction import mutable_twin
from holdfast.model.job import Job, JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Reservation
from holdfast.model.request import META_RETRY, RESERVED_META, JobRequest
from holdfast.model.retry import format_policy
from holdfast.wire.codec import JSON, Codec, codec, decoded, encoded
from holdfast.wire.envelope import META_CODEC

_JobDraft = mutable_twin(Job)
_NO_META: Mapping[str, object] = {}


def to_record(
    request: JobRequest,
    *,
    now: int,
    codec: Codec = JSON,
    max_payload: int = bounds.MAX_PAYLOAD_BYTES,
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
    max_payload: int = bounds.MAX_PAYLOAD_BYTES,
) -> JobBatch:
    """The same for many payloads at once, with everything else like ``like``."""
    shared = to_record(like, now=now, codec=codec, max_payload=max_payload)
    data = [encoded(codec, payload, most=max_payload) for payload in payloads]
    return JobBatch(shared, [str(uuid7()) for _ in data], data, None if keys is None else list(keys))


class Gist(msgspec.Struct, array_like=True, tag_field="kind", tag=1, frozen=True, gc=False):
    """What of a reservation a handler is called with that takes the payload alone: most do."""

    type: str
    payload: bytes
    meta: bytes | None  # JSON; most jobs have none


class Brief(Gist, array_like=True, tag_field="kind", tag=2, frozen=True, gc=False):
    """All of a reservation that any handler may see. No token: whoever has that can settle the job."""

    id: str
    queue: str
    attempt: int
    max_attempts: int
    crashes: int
    fence: int
    created_at: int
    run_at: int | None  # as requested
    timeout: int | None
    domain: str | None
    offset: int | None
    name: str | None
    checkpoint: bytes | None


def gist(reservation: Reservation) -> Gist:
    """The reservation, for a handler that sees no more of it than the payload."""
    record = reservation.job
    return Gist(record.type, record.payload, _meta_bytes(record) if record.meta else None)


def brief(reservation: Reservation) -> Brief:
    """The reservation, for whoever runs it."""
    record = reservation.job
    return Brief(
        record.type,
        record.payload,
        _meta_bytes(record) if record.meta else None,
        record.id,
        record.queue,
        record.attempts,
        record.max_attempts,
        record.crashes,
        reservation.lease.fence,
        record.created_at,
        record.requested_run_at,
        record.timeout,
        record.domain,
        record.offset,
        record.name,
        reservation.checkpoint,
    )


def _meta_bytes(record: JobRecord) -> bytes:
    return JSON.encode(record.meta, field="meta")


def to_job(reserved: Reservation | Brief, codec: Codec = JSON) -> Job:
    """What a handler sees of a reserved job. Raises ``PayloadError`` if its payload cannot be read.

    The record names the codec of its payload: that is ``codec`` if the names agree, else a registered one.
    """
    told = reserved if isinstance(reserved, Brief) else brief(reserved)
    meta = _meta_of(told)
    job = _JobDraft()
    job.id = told.id
    job.type = told.type
    job.name = told.name
    job.payload = decoded(_codec_of(meta, codec), told.payload)
    job.queue = told.queue
    job.attempt = told.attempt
    job.max_attempts = told.max_attempts
    job.fence = told.fence
    job.created_at = to_datetime(told.created_at)
    job.run_at = None if told.run_at is None else to_datetime(told.run_at)
    job.timeout = None if told.timeout is None else to_timedelta(told.timeout)
    job.domain = told.domain
    job.offset = told.offset
    job.meta = {key: value for key, value in meta.items() if not key.startswith(RESERVED_META)} if meta else {}
    job.__class__ = Job
    return cast("Job", job)


def payload_of(told: Gist, codec: Codec = JSON) -> object:
    """The payload alone. Raises ``PayloadError`` if it cannot be read."""
    if told.meta is None and codec is JSON:  # nearly always
        return JSON.decode(told.payload)
    return decoded(_codec_of(_meta_of(told), codec), told.payload)


def _meta_of(told: Gist) -> Mapping[str, object]:
    return _NO_META if told.meta is None else cast("dict[str, object]", JSON.decode(told.meta, field="meta"))


def _run_at(request: JobRequest, now: int) -> int | None:
    if request.run_at is not None:
        return from_datetime(request.run_at)
    return now + from_timedelta(request.delay) if request.delay else None


def _meta(request: JobRequest, codec: Codec) -> dict[str, object]:
    """A copy in plain JSON values, so that nothing the caller does to theirs later can change the job's."""
    own: dict[str, object] = {} if codec.name == JSON.name else {META_CODEC: codec.name}
    if request.retry is not None:
        own[META_RETRY] = format_policy(request.retry)
    if not request.meta:
        return own
    data = JSON.encode({**request.meta, **own}, field="meta")
    return cast("dict[str, object]", JSON.decode(bounds.check_blob("meta", data, most=bounds.MAX_META_BYTES)))


def _codec_of(meta: Mapping[str, object], given: Codec) -> Codec:
    name = meta.get(META_CODEC, JSON.name)
    return given if name == given.name else codec(str(name))
