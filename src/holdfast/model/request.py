"""``JobRequest``: a job that a user wants to enqueue. Its values are checked when it is created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.retry import BuiltInPolicy, format_policy
from holdfast.model.unique import Unique, to_unique_for

if TYPE_CHECKING:
    from holdfast.model.definition import JobDefinition

DEFAULT_QUEUE = "default"
RESERVED_META = "holdfast."  # prefix of the meta keys that Holdfast itself writes
META_RETRY = f"{RESERVED_META}retry"  # the meta key under which a job carries its own retry policy, as text
META_PAYLOAD_REF = f"{RESERVED_META}payload_ref"  # true: an older version stored a reference as the payload
META_SINGLE_INSTANCE = f"{RESERVED_META}single_instance"  # true, or the name of the lock


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job to enqueue. Only ``type`` is required; all values are checked here, once."""

    type: str
    payload: object = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0  # 0 to 9; 9 runs first
    run_at: datetime | None = None  # earliest start; or
    delay: timedelta | None = None  # a delay from the time of enqueue
    timeout: timedelta | None = None  # limit of one attempt; None is no limit
    max_attempts: int | None = None  # runs, not retries; None: of the handler if the app is known, else 25
    retry: BuiltInPolicy | None = None  # delays between the runs; None: the policy of the handler
    idempotency_key: str | None = None  # one job per queue and key
    unique: Unique | None = (
        None  # how long the key is taken: see ``model.unique``; without a key, type and payload are it
    )
    single_instance: bool | str = False  # one at a time: of its queue and type, or of all jobs with this text
    domain: str | None = None  # jobs of a domain run one at a time, in order
    offset: int | None = None  # position in that order; default: the order of arrival
    limit_key: str | None = None  # a host or customer: the key limits of the queue apply to each key
    name: str | None = None  # for people
    meta: Mapping[str, object] = field(default_factory=dict)  # JSON, passed to the handler unchanged
    webhook: str | None = None  # called with the end of the job: see docs/guides/webhooks.md

    def __post_init__(self) -> None:
        """Check every field."""
        check_shared(self)
        if self.domain is not None:
            bounds.check_text("domain", self.domain)
        if self.limit_key is not None:
            bounds.check_text("limit_key", self.limit_key)
        if self.offset is not None:
            bounds.check_integer("offset", self.offset, most=2**63 - 1)
            if self.domain is None:
                raise InvalidInput("offset", wanted="a domain beside it", got="an offset alone")


class SharedKeywords(TypedDict, total=False):
    """The fields of ``JobRequest`` that many jobs can share, as keyword arguments."""

    queue: str
    priority: int
    run_at: datetime | None
    delay: timedelta | None
    timeout: timedelta | None
    max_attempts: int | None
    retry: BuiltInPolicy | None
    unique: Unique | None
    single_instance: bool | str
    domain: str | None
    limit_key: str | None
    name: str | None
    meta: Mapping[str, object]
    webhook: str | None


class RequestKeywords(SharedKeywords, total=False):
    """The fields of ``JobRequest`` as keyword arguments, beside its type and payload."""

    idempotency_key: str | None
    offset: int | None


_OPTIONS = tuple(RequestKeywords.__annotations__)


def check_keywords(keywords: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for a keyword that is no field of a request: most often a part of the payload."""
    for name in keywords:
        if name not in _OPTIONS:
            wanted = f"one payload, as the first argument, and the options {', '.join(_OPTIONS)}"
            raise TypeError(f"unexpected keyword argument {name!r}: wanted {wanted}")


def check_shared(request: JobRequest | JobDefinition) -> None:
    """Check the fields that a request and a definition share."""
    bounds.check_name("type", request.type)
    bounds.check_name("queue", request.queue)
    bounds.check_integer("priority", request.priority, most=bounds.PRIORITIES[-1])
    bounds.check_optional_integer("max_attempts", request.max_attempts, least=1)
    if request.timeout is not None:
        bounds.duration_from("timeout", request.timeout, least=1)
    if request.retry is not None:
        format_policy(request.retry)
    if request.unique is not None:
        to_unique_for(request.unique)
    check_single_instance(request.single_instance)
    if request.run_at is not None:
        bounds.instant_from("run_at", request.run_at)
        if request.delay is not None:
            raise InvalidInput("delay", wanted="either run_at or delay", got="both")
    if request.delay is not None:
        bounds.duration_from("delay", request.delay)
    if request.idempotency_key is not None:
        bounds.check_text("idempotency_key", request.idempotency_key)
    if request.name is not None:
        bounds.check_text("name", request.name)
    if request.webhook is not None:
        bounds.check_webhook("webhook", request.webhook)
    check_meta(request.meta)


def check_single_instance(value: object) -> None:
    """Check that this is a bool, or the name of a lock."""
    if not isinstance(value, bool):
        bounds.check_text("single_instance", value)


def check_meta(meta: object) -> None:
    """Check the keys: texts, none with the prefix that Holdfast reserves. Values are checked when they are encoded."""
    if not isinstance(meta, Mapping):
        raise InvalidInput("meta", wanted="a mapping with text keys", got=meta)
    for key in meta:
        bounds.check_text("meta key", key)
        if key.startswith(RESERVED_META):
            raise InvalidInput("meta key", wanted=f"a key that does not begin with {RESERVED_META!r}", got=key)
