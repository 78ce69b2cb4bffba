"""Conversions between user values and stored records: a request becomes a record, a reservation becomes a job."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import cast

import msgspec
from uuid_utils import uuid7

from holdfast.clock import from_datetime, from_timedelta
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS, Job, JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Reservation
from holdfast.model.request import META_RETRY, META_SINGLE_INSTANCE, JobRequest
from holdfast.model.retry import format_policy
from holdfast.model.unique import to_unique_for
from holdfast.wire.codec import JSON, Codec, encode_payload, is_flat_object
from holdfast.wire.envelope import META_CODEC
from holdfast.wire.job_message import job_message, read_job

PREFIX = "unique:"  # tells people, and later readers of keys, that nobody chose the key
DIGEST_BYTES = 16

_encode_sorted = msgspec.json.Encoder(order="sorted").encode


def with_unique_key(type_: str, payload: bytes, codec: Codec) -> tuple[bytes, str]:
    """Return the payload to store, and the key. JSON objects that differ in the order of their keys are equal.

    So the stored payload has the keys in order, too: the store compares the payloads of a key byte by byte.
    """
    if codec.name == JSON.name:
        payload = _encode_sorted(msgspec.json.decode(payload))
    digest = hashlib.blake2b(type_.encode() + b"\0" + payload, digest_size=DIGEST_BYTES)
    return payload, PREFIX + digest.hexdigest()


def to_record(
    request: JobRequest,
    *,
    now: int,
    default_attempts: int = DEFAULT_MAX_ATTEMPTS,
    codec: Codec = JSON,
    max_payload: int = bounds.MAX_PAYLOAD_BYTES,
) -> JobRecord:
    """Return a new record with a new id: payload and meta are encoded and bounded, a delay becomes an instant.

    ``now`` becomes ``created_at``, and a delay counts from it. A request without attempts gets ``default_attempts``. A
    payload over ``max_payload`` is refused. Raises ``PayloadError`` for a payload or meta that cannot be stored;
    everything else was checked when the request was created.
    """
    run_at = _run_at(request, now)
    payload, key = encode_payload(codec, request.payload, most=max_payload), request.idempotency_key
    if request.unique is not None and key is None:
        payload, key = with_unique_key(request.type, payload, codec)
    return JobRecord(
        id=str(uuid7()),  # grows with time: a store appends to its index instead of inserting in the middle
        type=request.type,
        queue=request.queue,
        payload=payload,
        priority=request.priority,
        run_at=run_at,
        timeout=None if request.timeout is None else from_timedelta(request.timeout),
        created_at=now,
        max_attempts=request.max_attempts or default_attempts,
        idempotency_key=key,
        unique_for=None if request.unique is None else to_unique_for(request.unique),
        domain=request.domain,
        offset=request.offset,
        limit_key=request.limit_key,
        name=request.name,
        meta=_meta(request, codec),
        webhook=request.webhook,
        requested_run_at=run_at,
    )


def to_records(
    template: JobRequest,
    payloads: Sequence[bytes],
    keys: Sequence[str | None] | None = None,
    limit_keys: Sequence[str | None] | None = None,
    *,
    now: int,
    default_attempts: int = DEFAULT_MAX_ATTEMPTS,
    codec: Codec = JSON,
) -> JobBatch:
    """Return one record per encoded payload; all but id, payload and the given keys is as in ``template``."""
    shared = to_record(template, now=now, default_attempts=default_attempts, codec=codec)
    if template.unique is not None:
        given = [None] * len(payloads) if keys is None else keys
        # JobBatch compares the lengths.
        unique = [
            with_unique_key(template.type, payload, codec) if key is None else (payload, key)
            for payload, key in zip(payloads, given, strict=False)
        ]
        payloads, keys = [payload for payload, _ in unique], [key for _, key in unique]
    return JobBatch(shared, [str(uuid7()) for _ in payloads], payloads, keys, limit_keys=limit_keys)


def to_job(reservation: Reservation, codec: Codec = JSON) -> Job:
    """Return the job as its handler sees it. Raises ``PayloadError`` if the payload cannot be read.

    The record names the codec of its payload: that is ``codec`` if the names agree, else a registered one.
    """
    return read_job(job_message(reservation), codec)


def _run_at(request: JobRequest, now: int) -> int | None:
    if request.run_at is not None:
        return from_datetime(request.run_at)
    return now + from_timedelta(request.delay) if request.delay else None


def _meta(request: JobRequest, codec: Codec) -> dict[str, object]:
    """Return a copy in plain JSON values: what the caller later does to the request's meta does not change the job."""
    reserved: dict[str, object] = {} if codec.name == JSON.name else {META_CODEC: codec.name}
    if request.retry is not None:
        reserved[META_RETRY] = format_policy(request.retry)
    if request.single_instance:
        reserved[META_SINGLE_INSTANCE] = request.single_instance
    if not request.meta:
        return reserved
    meta = {**request.meta, **reserved}
    if is_flat_object(meta, most=bounds.MAX_META_BYTES):
        return meta
    data = JSON.encode(meta, field="meta")
    return cast("dict[str, object]", JSON.decode(bounds.check_blob("meta", data, most=bounds.MAX_META_BYTES)))
