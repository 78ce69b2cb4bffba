"""``Delivery``: one request to send. That of a callback is the payload of a job in the system queue of its space."""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import msgspec
from uuid_utils import uuid7

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord

MAX_ATTEMPTS = 10  # of one callback; then it is a dead letter
QUEUE = "holdfast.webhooks"
CALLBACK = "holdfast.callback"  # repeated until it is accepted, else a dead letter


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A request. ``id`` is the same in every attempt, and when a crashed process sends it again."""

    id: str
    url: str
    body: str  # JSON, as it is sent and signed


def host_of(url: str) -> str | None:
    """Return the host as limit key: a host that answers slowly does not delay the others."""
    try:
        host = urlsplit(url).hostname
    except ValueError:
        return None
    return host if host and len(host.encode()) <= bounds.MAX_TEXT_BYTES and host.isprintable() else None


def message_id(*parts: object) -> str:
    """Return an id that is always the same for the same parts, and has no dot: a dot separates what is signed."""
    return "msg_" + hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def callback_record(delivery: Delivery, *, key: str, now: int) -> JobRecord:
    """Return the job of a callback. ``key`` makes it one job, however often its end is read."""
    return JobRecord(
        id=str(uuid7()),
        type=CALLBACK,
        queue=QUEUE,
        payload=msgspec.json.encode(delivery),
        created_at=now,
        max_attempts=MAX_ATTEMPTS,
        max_crashes=None,  # the death of a sender says nothing about the request
        idempotency_key=key,
        limit_key=host_of(delivery.url),
    )


def read_delivery(job: JobRecord) -> Delivery:
    """Return the request of a job. Raises ``InvalidInput``."""
    try:
        return msgspec.json.decode(job.payload, type=Delivery)
    except msgspec.DecodeError as error:
        raise InvalidInput("payload", wanted="a delivery", got="another payload") from error
