"""A job as it is stored (``JobRecord``) and as a handler sees it (``Job``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from holdfast.errors import InvalidInput
from holdfast.model import bounds


class State(StrEnum):
    """Where a job stands. *Scheduled* is ``READY`` with a later ``run_at``; *expired*, ``INFLIGHT`` past its lease."""

    READY = "ready"
    INFLIGHT = "inflight"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether the job has reached an end (only an operator can requeue it)."""
        return self in _ENDED


_ENDED = frozenset({State.DONE, State.DEAD, State.CANCELLED})

DEFAULT_MAX_ATTEMPTS = 25
DEFAULT_MAX_CRASHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """A job as drivers keep it: encoded payload, integer microseconds, nothing computed."""

    id: str
    type: str
    queue: str
    payload: bytes
    priority: int = 0
    run_at: int | None = None  # not before; None is at once. Moves with retries, cleared when a lease expires
    timeout: int | None = None
    created_at: int
    attempts: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    crashes: int = 0
    max_crashes: int | None = DEFAULT_MAX_CRASHES  # None: never poison
    idempotency_key: str | None = None
    domain: str | None = None
    offset: int | None = None
    name: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    webhook: str | None = None
    signature: str | None = None
    state: State = State.READY
    last_error: str = ""
    failed_at: int | None = None
    dead_reason: str | None = None
    dead_at: int | None = None
    result: bytes | None = None
    requested_run_at: int | None = None  # the run_at that was asked for; part of the signed identity, never moves


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a handler sees: the work and which attempt this is; no other scheduling or queue state."""

    id: str
    type: str
    name: str | None
    payload: object
    queue: str
    attempt: int
    max_attempts: int
    fence: int  # larger in every later lease of this space: hand it to whatever you write to
    created_at: datetime
    run_at: datetime | None  # as requested
    timeout: timedelta | None
    domain: str | None
    offset: int | None
    meta: Mapping[str, object]


def check_new(record: JobRecord) -> None:
    """The driver's door: refuse a record that no driver could keep or that no reserve could ever hand out."""
    bounds.name("id", record.id)
    bounds.name("type", record.type)
    bounds.name("queue", record.queue)
    bounds.blob("payload", record.payload, most=bounds.MAX_STORED_PAYLOAD)
    bounds.integer("priority", record.priority, most=bounds.PRIORITIES[-1])
    bounds.integer("created_at", record.created_at, most=bounds.MAX_INSTANT)
    bounds.integer("max_attempts", record.max_attempts, least=1)
    bounds.integer("attempts", record.attempts, most=record.max_attempts - 1)
    bounds.integer("crashes", record.crashes)
    bounds.optional_integer("run_at", record.run_at, most=bounds.MAX_INSTANT)
    bounds.optional_integer("requested_run_at", record.requested_run_at, most=bounds.MAX_INSTANT)
    bounds.optional_integer("timeout", record.timeout, least=1, most=bounds.MAX_LENGTH)
    bounds.optional_integer("max_crashes", record.max_crashes, least=1)
    bounds.optional_integer("offset", record.offset, most=2**63 - 1)
    bounds.optional_text("idempotency_key", record.idempotency_key)
    bounds.optional_text("domain", record.domain)
    bounds.optional_text("name", record.name)
    if record.last_error != bounds.kept(record.last_error):
        raise InvalidInput("last_error", wanted=f"text of at most {bounds.MAX_ERROR} characters", got=record.last_error)
    if record.webhook is not None:
        bounds.webhook("webhook", record.webhook)
    bounds.optional_text("signature", record.signature)
    if record.offset is not None and record.domain is None:
        raise InvalidInput("offset", wanted="a domain beside it", got="an offset alone")
    if record.state != State.READY:
        raise InvalidInput("state", wanted="ready (only new jobs are enqueued)", got=record.state)
