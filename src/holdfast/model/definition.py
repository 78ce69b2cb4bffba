"""Reusable job definitions: a builder makes a definition, and a definition makes requests."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self, Unpack

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.request import DEFAULT_QUEUE, JobRequest, RequestKeywords, check_meta, check_shared
from holdfast.model.retry import BuiltInPolicy
from holdfast.model.unique import Unique


class _Unset:
    """Marks a payload that was not passed; None is a valid payload."""

    def __repr__(self) -> str:
        return "the definition's payload"


_UNSET: Final = _Unset()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """The fields that requests for one kind of job share. Immutable: every ``with_*`` returns a changed copy.

    Payload and meta are copied when the definition and its requests are made. ``schedule``, ``timezone``, ``enabled``,
    ``environments`` and ``depends_on`` are those of the schedule that ``app.cron(definition)`` makes; requests ignore
    them.
    """

    type: str
    payload: object = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    timeout: timedelta | None = None
    max_attempts: int | None = None
    retry: BuiltInPolicy | None = None
    unique: Unique | None = None
    single_instance: bool | str = False
    name: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    webhook: str | None = None
    idempotency_key: str | None = None
    run_at: datetime | None = None
    delay: timedelta | None = None
    schedule: str | None = None  # a cron expression, which ``app.cron`` checks
    timezone: str = "UTC"  # of the schedule
    enabled: bool = True
    environments: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()  # names of schedules

    def __post_init__(self) -> None:
        """Check the fields as a request does, and copy what the caller could change."""
        check_shared(self)
        bounds.check_optional_text("schedule", self.schedule)
        bounds.check_text("timezone", self.timezone)
        bounds.check_boolean("enabled", self.enabled)
        for name in ("environments", "depends_on"):
            object.__setattr__(self, name, _check_names(name, getattr(self, name)))
        object.__setattr__(self, "payload", deepcopy(self.payload))
        object.__setattr__(self, "meta", deepcopy(dict(self.meta)))

    def request(self, payload: object = _UNSET, **keywords: Unpack[RequestKeywords]) -> JobRequest:
        """Return a request for one job. A keyword replaces the value of the definition; ``meta`` is added to it."""
        has_time = "run_at" in keywords or "delay" in keywords  # each of them replaces both
        fields: dict[str, Any] = {
            "run_at": None if has_time else self.run_at,
            "delay": None if has_time else self.delay,
            "idempotency_key": self.idempotency_key,
            "queue": self.queue,
            "priority": self.priority,
            "timeout": self.timeout,
            "max_attempts": self.max_attempts,
            "retry": self.retry,
            "unique": self.unique,
            "single_instance": self.single_instance,
            "name": self.name,
            "meta": deepcopy(self.meta) if self.meta else {},
            "webhook": self.webhook,
            **keywords,
        }
        if self.meta and "meta" in keywords:
            check_meta(keywords["meta"])
            fields["meta"] = {**deepcopy(self.meta), **keywords["meta"]}
        return JobRequest(type=self.type, payload=deepcopy(self.payload) if payload is _UNSET else payload, **fields)

    def with_payload(self, payload: object) -> JobDefinition:
        """Return a copy with another payload."""
        return replace(self, payload=payload)

    def with_queue(self, queue: str) -> JobDefinition:
        """Return a copy for another queue."""
        return replace(self, queue=queue)

    def with_priority(self, priority: int) -> JobDefinition:
        """Return a copy with another priority, 0 to 9."""
        return replace(self, priority=priority)

    def with_timeout(self, timeout: timedelta | None) -> JobDefinition:
        """Return a copy with another time limit for one attempt."""
        return replace(self, timeout=timeout)

    def with_max_attempts(self, max_attempts: int | None) -> JobDefinition:
        """Return a copy with another maximum number of runs; None: that of the handler."""
        return replace(self, max_attempts=max_attempts)

    def with_retry(self, retry: BuiltInPolicy | None) -> JobDefinition:
        """Return a copy with another retry policy; None uses the policy of the handler."""
        return replace(self, retry=retry)

    def with_unique(self, unique: Unique | None) -> JobDefinition:
        """Return a copy whose jobs are unique in this way; None: only jobs with an idempotency key are."""
        return replace(self, unique=unique)

    def with_single_instance(self, single_instance: bool | str) -> JobDefinition:  # noqa: FBT001 - the value of a field
        """Return a copy whose jobs run one at a time, of this queue and type or of all jobs with this text."""
        return replace(self, single_instance=single_instance)

    def with_name(self, name: str | None) -> JobDefinition:
        """Return a copy with another name."""
        return replace(self, name=name)

    def with_meta(self, **meta: object) -> JobDefinition:
        """Return a copy with these meta values added or replaced."""
        return replace(self, meta={**self.meta, **meta})

    def with_webhook(self, webhook: str | None) -> JobDefinition:
        """Return a copy with another webhook: the URL that is called when the job has ended."""
        return replace(self, webhook=webhook)

    def with_idempotency_key(self, idempotency_key: str | None) -> JobDefinition:
        """Return a copy with another idempotency key."""
        return replace(self, idempotency_key=idempotency_key)

    def with_run_at(self, run_at: datetime | None) -> JobDefinition:
        """Return a copy with another earliest start, and without a delay."""
        return replace(self, run_at=run_at, delay=None)

    def with_delay(self, delay: timedelta | None) -> JobDefinition:
        """Return a copy with another delay, and without an earliest start."""
        return replace(self, delay=delay, run_at=None)

    def with_schedule(self, schedule: str | None, timezone: str = "UTC") -> JobDefinition:
        """Return a copy with another cron expression and its time zone."""
        return replace(self, schedule=schedule, timezone=timezone)

    def with_enabled(self, enabled: bool) -> JobDefinition:  # noqa: FBT001 - the value of a field
        """Return a copy whose schedule fires, or does not."""
        return replace(self, enabled=enabled)

    def with_environments(self, *environments: str) -> JobDefinition:
        """Return a copy whose schedule fires only in these environments; none: everywhere."""
        return replace(self, environments=environments)

    def with_depends_on(self, *schedules: str) -> JobDefinition:
        """Return a copy whose schedule comes after these schedules."""
        return replace(self, depends_on=schedules)


def _check_names(field: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, tuple | list):
        raise InvalidInput(field, wanted="several names", got=names)
    return tuple(dict.fromkeys(bounds.check_name(field, name) for name in names))


class JobBuilder:
    """Builds a definition step by step: ``JobBuilder("mail.send").queue("mail").priority(5).build()``."""

    def __init__(self, type: str) -> None:
        self._fields: dict[str, Any] = {"type": type}

    def _set(self, **fields: object) -> Self:
        self._fields.update(fields)
        return self

    def payload(self, payload: object) -> Self:
        """Set the payload of requests that pass none."""
        return self._set(payload=payload)

    def queue(self, queue: str) -> Self:
        """Set the queue."""
        return self._set(queue=queue)

    def priority(self, priority: int) -> Self:
        """Set the priority, 0 to 9; 9 runs first."""
        return self._set(priority=priority)

    def timeout(self, timeout: timedelta) -> Self:
        """Set the time limit of one attempt."""
        return self._set(timeout=timeout)

    def max_attempts(self, max_attempts: int) -> Self:
        """Set the maximum number of runs."""
        return self._set(max_attempts=max_attempts)

    def retry(self, retry: BuiltInPolicy) -> Self:
        """Set the retry policy; it replaces the policy of the handler."""
        return self._set(retry=retry)

    def unique(self, unique: Unique) -> Self:
        """Let one job of each payload exist at a time: ``"while_queued"``, ``"while_open"`` or for a timedelta."""
        return self._set(unique=unique)

    def single_instance(self, key: str | None = None) -> Self:
        """Run one of these jobs at a time: of its queue and type, or of all jobs with the same ``key``."""
        return self._set(single_instance=True if key is None else key)

    def named(self, name: str) -> Self:
        """Set a name for people."""
        return self._set(name=name)

    def meta(self, **meta: object) -> Self:
        """Add values that are passed to the handler unchanged."""
        return self._set(meta={**self._fields.get("meta", {}), **meta})

    def webhook(self, webhook: str) -> Self:
        """Set the URL that is called when the job has ended."""
        return self._set(webhook=webhook)

    def idempotency_key(self, key: str) -> Self:
        """Set the idempotency key: one job of the queue has it."""
        return self._set(idempotency_key=key)

    def run_at(self, instant: datetime) -> Self:
        """Set the earliest start."""
        return self._set(run_at=instant)

    def delay(self, delay: timedelta) -> Self:
        """Set how long a job waits from the time of its enqueue."""
        return self._set(delay=delay)

    def schedule(self, expression: str, timezone: str = "UTC") -> Self:
        """Set a cron expression, in this time zone, for ``app.cron``. ``ScheduleBuilder`` has words for it."""
        return self._set(schedule=expression, timezone=timezone)

    def enabled(self, flag: bool = True) -> Self:  # noqa: FBT001, FBT002 - the value of a field
        """Let the schedule fire only if this is true."""
        return self._set(enabled=flag)

    def environments(self, *names: str) -> Self:
        """Let the schedule fire only where the setting ``environment`` is one of these."""
        return self._set(environments=names)

    def depends_on(self, *schedules: str) -> Self:
        """Let the schedule come after these schedules."""
        return self._set(depends_on=schedules)

    def build(self) -> JobDefinition:
        """Return the definition. Raises ``InvalidInput``."""
        return JobDefinition(**self._fields)
