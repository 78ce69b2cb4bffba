"""What a user asks for: ``JobRequest``, checked at the door, and the descriptions that make requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.retry import BuiltIn, written

if TYPE_CHECKING:
    from holdfast.model.definition import JobDefinition

DEFAULT_QUEUE = "default"
RESERVED_META = "holdfast."  # prefix of the meta keys that Holdfast itself writes
META_RETRY = f"{RESERVED_META}retry"  # the meta key under which a job carries its own retry policy, as text


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job to be enqueued. Only ``type`` is required; everything is checked here, once."""

    type: str
    payload: object = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0  # 0 to 9; 9 runs first
    run_at: datetime | None = None  # not before; or
    delay: timedelta | None = None  # this long after it is enqueued
    timeout: timedelta | None = None  # of one attempt; None is no limit
    max_attempts: int = DEFAULT_MAX_ATTEMPTS  # runs, not retries
    retry: BuiltIn | None = None  # how long to wait between them; None is as its handler says
    idempotency_key: str | None = None  # one job per queue and key
    domain: str | None = None  # its jobs run one at a time, in order
    offset: int | None = None  # the place in that order, if it is not the order of arrival
    name: str | None = None  # for people
    meta: Mapping[str, object] = field(default_factory=dict)  # JSON; handed to the handler as it is
    webhook: str | None = None  # called when the job has ended

    def __post_init__(self) -> None:
        """Refuse anything that does not fit, saying what was wanted and what was got."""
        check_shared(self)
        if self.run_at is not None:
            bounds.instant("run_at", self.run_at)
            if self.delay is not None:
                raise InvalidInput("delay", wanted="either run_at or delay", got="both")
        if self.delay is not None:
            bounds.length("delay", self.delay)
        if self.idempotency_key is not None:
            bounds.text("idempotency_key", self.idempotency_key)
        if self.domain is not None:
            bounds.text("domain", self.domain)
        if self.offset is not None:
            bounds.integer("offset", self.offset, most=2**63 - 1)
            if self.domain is None:
                raise InvalidInput("offset", wanted="a domain beside it", got="an offset alone")


def check_shared(asked: JobRequest | JobDefinition) -> None:
    """The checks that a request and a definition have in common."""
    bounds.name("type", asked.type)
    bounds.name("queue", asked.queue)
    bounds.integer("priority", asked.priority, most=bounds.PRIORITIES[-1])
    bounds.integer("max_attempts", asked.max_attempts, least=1)
    if asked.timeout is not None:
        bounds.length("timeout", asked.timeout, least=1)
    if asked.retry is not None:
        written(asked.retry)
    if asked.name is not None:
        bounds.text("name", asked.name)
    if asked.webhook is not None:
        bounds.webhook("webhook", asked.webhook)
    check_meta(asked.meta)


def check_meta(meta: object) -> None:
    """Text keys, none with the prefix Holdfast keeps for itself. The values are checked when they are encoded."""
    if not isinstance(meta, Mapping):
        raise InvalidInput("meta", wanted="a mapping with text keys", got=meta)
    for key in meta:
        bounds.text("meta key", key)
        if key.startswith(RESERVED_META):
            raise InvalidInput("meta key", wanted=f"a key that does not begin with {RESERVED_META!r}", got=key)
