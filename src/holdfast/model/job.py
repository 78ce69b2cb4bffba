"""A job as it is stored (``JobRecord``) and as a handler sees it (``Job``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import astuple, replace

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.unique import WHILE_QUEUED, check_unique_for


class State(StrEnum):
    """The state of a job. A *scheduled* job is ``READY`` with a later ``run_at``; an *expired* one is ``INFLIGHT``."""

    READY = "ready"
    INFLIGHT = "inflight"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        """Whether the job is done, dead or cancelled: it runs again only if an operator requeues it."""
        return self in _ENDED


_ENDED = frozenset({State.DONE, State.DEAD, State.CANCELLED})

DEFAULT_MAX_ATTEMPTS = 25
DEFAULT_MAX_CRASHES = 3


class JobRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """A job as drivers store it: encoded payload, integer microseconds, no computed fields.

    Encoded by msgspec it is an array, and ``msgspec.convert`` makes it of a row: a sixth of the bytes of an object.

    ``gc=False`` here, in ``Lease``, ``Reservation``, ``Enqueued`` and the settlements: they are made by the thousand,
    and none of their values can refer back to them. Reserving and acking 1000 jobs in memory takes a seventh less time.
    """

    id: str
    type: str
    queue: str
    payload: bytes
    priority: int = 0
    run_at: int | None = None  # earliest start; None is at once. Retries move it, and an expired lease clears it
    timeout: int | None = None
    created_at: int
    attempts: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    crashes: int = 0
    max_crashes: int | None = DEFAULT_MAX_CRASHES  # None: no limit
    idempotency_key: str | None = None
    unique_for: int | None = None  # how long the key is taken: see model.unique
    domain: str | None = None
    offset: int | None = None
    limit_key: str | None = None  # a host or customer: the key limits of the queue apply to each key
    name: str | None = None
    meta: Mapping[str, object] = msgspec.field(default_factory=dict)
    webhook: str | None = None
    signature: str | None = None
    state: State = State.READY
    last_error: str = ""
    failed_at: int | None = None
    dead_reason: str | None = None
    dead_at: int | None = None
    result: bytes | None = None
    requested_run_at: int | None = None  # the run_at of the request: signed, and never changed


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a handler sees of a job: the work and the number of this attempt."""

    id: str
    type: str
    name: str | None
    payload: object
    queue: str
    attempt: int
    max_attempts: int
    fence: int  # larger in every later lease of this space: pass it to the systems that the handler writes to
    created_at: datetime
    run_at: datetime | None  # as requested
    timeout: timedelta | None
    domain: str | None
    offset: int | None
    meta: Mapping[str, object]


def is_sound(record: JobRecord) -> bool:
    """Whether every value is one that an enqueue or a transition can have stored; its types are known to be right.

    This is ``check_stored`` in a fifth of its time: every job is checked when it is enqueued and when it is read.
    """
    return (
        bounds.match_name(record.id) is not None
        and bounds.is_name(record.type)
        and bounds.is_name(record.queue)
        and len(record.payload) <= bounds.MAX_STORED_PAYLOAD_BYTES
        and record.priority in bounds.PRIORITIES
        and 0 <= record.created_at <= bounds.MAX_INSTANT
        and 0 <= record.attempts <= bounds.MAX_COUNT
        and 1 <= record.max_attempts <= bounds.MAX_COUNT
        and 0 <= record.crashes <= bounds.MAX_COUNT
        and (record.max_crashes is None or 1 <= record.max_crashes <= bounds.MAX_COUNT)
        and (record.run_at is None or 0 <= record.run_at <= bounds.LAST_INSTANT)
        and (record.requested_run_at is None or 0 <= record.requested_run_at <= bounds.MAX_INSTANT)
        and (record.timeout is None or 1 <= record.timeout <= bounds.MAX_DURATION)
        and (record.unique_for is None or WHILE_QUEUED <= record.unique_for <= bounds.MAX_DURATION)
        and (record.idempotency_key is None or bounds.is_text(record.idempotency_key))
        and (record.domain is None or bounds.is_text(record.domain))
        and (record.offset is None or (record.domain is not None and 0 <= record.offset <= bounds.MAX_OFFSET))
        and (record.limit_key is None or bounds.is_text(record.limit_key))
        and (record.name is None or bounds.is_text(record.name))
        and (record.webhook is None or bounds.is_webhook(record.webhook))
        and (record.signature is None or bounds.is_text(record.signature))
        and (not record.last_error or record.last_error == bounds.truncate_text(record.last_error))
        and (record.failed_at is None or 0 <= record.failed_at <= bounds.MAX_INSTANT)
        and (not record.dead_reason or record.dead_reason == bounds.truncate_text(record.dead_reason))
        and (record.dead_at is None or 0 <= record.dead_at <= bounds.MAX_INSTANT)
        and (record.result is None or len(record.result) <= bounds.MAX_STORED_PAYLOAD_BYTES)
    )


def convert_fields(fields: Sequence[object]) -> JobRecord | None:
    """Return the record of these values, in the order of the fields; None if one has another type than its field."""
    try:
        record = msgspec.convert(fields, JobRecord)
    except (msgspec.ValidationError, UnicodeError):
        return None
    # It decodes base64 where it finds a text instead of bytes.
    return record if record.payload is fields[_PAYLOAD] and record.result is fields[_RESULT] else None


_PAYLOAD, _RESULT = (JobRecord.__struct_fields__.index(name) for name in ("payload", "result"))


def check_new(record: JobRecord) -> None:
    """Refuse a record that a driver could not store, or could never reserve. Most records are accepted at once."""
    if (
        convert_fields(astuple(record)) is not None
        and type(record.id) is type(record.type) is type(record.queue) is str  # no enum
        and is_sound(record)
        and record.attempts < record.max_attempts
        and (record.run_at is None or record.run_at <= bounds.MAX_INSTANT)
        and record.state == State.READY
    ):
        return
    check_each(record)


def check_each(record: JobRecord) -> None:
    """Check a new record value by value: raises ``InvalidInput`` that names the field."""
    bounds.check_new_name("id", record.id)
    bounds.check_name("type", record.type)
    bounds.check_name("queue", record.queue)
    bounds.check_blob("payload", record.payload, most=bounds.MAX_STORED_PAYLOAD_BYTES)
    bounds.check_integer("priority", record.priority, most=bounds.PRIORITIES[-1])
    bounds.check_integer("created_at", record.created_at, most=bounds.MAX_INSTANT)
    bounds.check_integer("max_attempts", record.max_attempts, least=1)
    bounds.check_integer("attempts", record.attempts, most=record.max_attempts - 1)
    bounds.check_integer("crashes", record.crashes)
    bounds.check_optional_integer("run_at", record.run_at, most=bounds.MAX_INSTANT)
    bounds.check_optional_integer("requested_run_at", record.requested_run_at, most=bounds.MAX_INSTANT)
    bounds.check_optional_integer("timeout", record.timeout, least=1, most=bounds.MAX_DURATION)
    bounds.check_optional_integer("max_crashes", record.max_crashes, least=1)
    bounds.check_optional_integer("offset", record.offset, most=bounds.MAX_OFFSET)
    bounds.check_optional_text("idempotency_key", record.idempotency_key)
    check_unique_for(record.unique_for)
    bounds.check_optional_text("domain", record.domain)
    bounds.check_optional_text("limit_key", record.limit_key)
    bounds.check_optional_text("name", record.name)
    bounds.check_error("last_error", record.last_error)
    if record.webhook is not None:
        bounds.check_webhook("webhook", record.webhook)
    bounds.check_optional_text("signature", record.signature)
    if record.offset is not None and record.domain is None:
        raise InvalidInput("offset", wanted="a domain beside it", got="an offset alone")
    if record.state != State.READY:
        raise InvalidInput("state", wanted="ready (only new jobs are enqueued)", got=record.state)


def check_stored(record: JobRecord) -> None:
    """Refuse a record that no enqueue and no transition can have stored: somebody else has changed its row."""
    bounds.check_integer("attempts", record.attempts)
    bounds.check_optional_integer("run_at", record.run_at, most=bounds.LAST_INSTANT)
    bounds.check_optional_integer("failed_at", record.failed_at, most=bounds.MAX_INSTANT)
    bounds.check_optional_integer("dead_at", record.dead_at, most=bounds.MAX_INSTANT)
    if record.dead_reason is not None:
        bounds.check_error("dead_reason", record.dead_reason)
    if record.result is not None:
        bounds.check_blob("result", record.result, most=bounds.MAX_STORED_PAYLOAD_BYTES)
    check_each(replace(record, attempts=0, run_at=None, state=State.READY))
