"""A reserved job as it is sent to the process that runs it, and the ``Job`` that the handler sees there.

Neither message carries the token of the lease: a handler cannot settle its own job.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from holdfast.clock import to_datetime, to_timedelta
from holdfast.errors import PayloadError
from holdfast.model.job import Job, JobRecord
from holdfast.model.lease import Reservation
from holdfast.model.request import META_PAYLOAD_REF, RESERVED_META
from holdfast.wire.codec import JSON, Codec, codec_named, decode_payload
from holdfast.wire.envelope import META_CODEC

_NO_META: Mapping[str, object] = {}


class PayloadMessage(msgspec.Struct, array_like=True, tag_field="kind", tag=1, frozen=True, gc=False):
    """The part of a job that is sent if its handler takes the payload alone, without a context. Most handlers do.

    The fields below ``meta`` are for what the handler logs.
    """

    type: str
    payload: bytes
    meta: bytes | None  # JSON; most jobs have none
    id: str
    queue: str
    attempt: int
    fence: int


class JobMessage(PayloadMessage, array_like=True, tag_field="kind", tag=2, frozen=True, gc=False):
    """Every part of a job that a handler may see."""

    max_attempts: int
    crashes: int
    created_at: int
    run_at: int | None  # as requested
    timeout: int | None
    domain: str | None
    offset: int | None
    name: str | None
    checkpoint: bytes | None


def payload_message(reservation: Reservation) -> PayloadMessage:
    """Return the message for a handler that takes the payload alone."""
    record = reservation.job
    return PayloadMessage(
        record.type,
        record.payload,
        _encode_meta(record) if record.meta else None,
        record.id,
        record.queue,
        record.attempts,
        reservation.lease.fence,
    )


def job_message(reservation: Reservation) -> JobMessage:
    """Return the message for any handler."""
    record = reservation.job
    return JobMessage(
        record.type,
        record.payload,
        _encode_meta(record) if record.meta else None,
        record.id,
        record.queue,
        record.attempts,
        reservation.lease.fence,
        record.max_attempts,
        record.crashes,
        record.created_at,
        record.requested_run_at,
        record.timeout,
        record.domain,
        record.offset,
        record.name,
        reservation.checkpoint,
    )


def read_job(message: JobMessage, codec: Codec = JSON) -> Job:
    """Return the job as its handler sees it. Raises ``PayloadError`` if the payload cannot be read.

    The job names the codec of its payload: that is ``codec`` if the names agree, else a registered one.
    """
    meta = _decode_meta(message)
    return Job(
        id=message.id,
        type=message.type,
        name=message.name,
        payload=_decode_payload(message, meta, codec),
        queue=message.queue,
        attempt=message.attempt,
        max_attempts=message.max_attempts,
        fence=message.fence,
        created_at=to_datetime(message.created_at),
        run_at=None if message.run_at is None else to_datetime(message.run_at),
        timeout=None if message.timeout is None else to_timedelta(message.timeout),
        domain=message.domain,
        offset=message.offset,
        meta={key: value for key, value in meta.items() if not key.startswith(RESERVED_META)} if meta else {},
    )


def read_payload(message: PayloadMessage, codec: Codec = JSON) -> object:
    """Return the payload alone, by the rules of ``read_job``."""
    if message.meta is None and codec is JSON:  # nearly always
        return JSON.decode(message.payload)
    return _decode_payload(message, _decode_meta(message), codec)


def _decode_payload(message: PayloadMessage, meta: Mapping[str, object], codec: Codec) -> object:
    if META_PAYLOAD_REF in meta:
        raise PayloadError("payload", wanted="the payload in the store", got="a reference of an older version")
    return decode_payload(_payload_codec(meta, codec), message.payload)


def _encode_meta(record: JobRecord) -> bytes:
    return JSON.encode(record.meta, field="meta")


def _decode_meta(message: PayloadMessage) -> Mapping[str, object]:
    return _NO_META if message.meta is None else cast("dict[str, object]", JSON.decode(message.meta, field="meta"))


def _payload_codec(meta: Mapping[str, object], default: Codec) -> Codec:
    name = meta.get(META_CODEC, JSON.name)
    return default if name == default.name else codec_named(str(name))
