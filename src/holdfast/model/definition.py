"""Reusable descriptions of work: a builder makes a definition, a definition makes requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.request import DEFAULT_QUEUE, JobRequest, check_shared
from holdfast.model.retry import BuiltIn


class _Unset:
    """The payload was not given: None would be a payload."""

    def __repr__(self) -> str:
        return "the definition's payload"


_UNSET: Final = _Unset()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """What a job is, apart from any single run of it. Immutable: every ``with_*`` gives a changed copy."""

    type: str
    payload: object = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    timeout: timedelta | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    retry: BuiltIn | None = None
    name: str | None = None
    meta: Mapping[str, object] = field(default_factory=dict)
    webhook: str | None = None

    def __post_init__(self) -> None:
        """The same checks as a request, before the first one is made."""
        check_shared(self)

    def request(
        self,
        payload: object = _UNSET,
        *,
        run_at: datetime | None = None,
        delay: timedelta | None = None,
        retry: BuiltIn | None = None,
        idempotency_key: str | None = None,
        domain: str | None = None,
        offset: int | None = None,
    ) -> JobRequest:
        """A request for one run, with this definition's payload and retry policy unless others are given."""
        return JobRequest(
            type=self.type,
            payload=self.payload if payload is _UNSET else payload,
            queue=self.queue,
            priority=self.priority,
            run_at=run_at,
            delay=delay,
            timeout=self.timeout,
            max_attempts=self.max_attempts,
            retry=self.retry if retry is None else retry,
            idempotency_key=idempotency_key,
            domain=domain,
            offset=offset,
            name=self.name,
            meta=self.meta,
            webhook=self.webhook,
        )

    def with_payload(self, payload: object) -> JobDefinition:
        """A copy with another payload."""
        return replace(self, payload=payload)

    def with_queue(self, queue: str) -> JobDefinition:
        """A copy for another queue."""
        return replace(self, queue=queue)

    def with_priority(self, priority: int) -> JobDefinition:
        """A copy with another priority, 0 to 9."""
        return replace(self, priority=priority)

    def with_timeout(self, timeout: timedelta | None) -> JobDefinition:
        """A copy with another limit for one attempt."""
        return replace(self, timeout=timeout)

    def with_max_attempts(self, max_attempts: int) -> JobDefinition:
        """A copy with another number of runs."""
        return replace(self, max_attempts=max_attempts)

    def with_retry(self, retry: BuiltIn | None) -> JobDefinition:
        """A copy whose jobs wait otherwise between their runs; None is as their handler says."""
        return replace(self, retry=retry)

    def with_name(self, name: str | None) -> JobDefinition:
        """A copy under another name."""
        return replace(self, name=name)

    def with_meta(self, **meta: object) -> JobDefinition:
        """A copy with these meta values added to, or put in place of, the ones it has."""
        return replace(self, meta={**self.meta, **meta})

    def with_webhook(self, webhook: str | None) -> JobDefinition:
        """A copy that calls another address when its jobs have ended."""
        return replace(self, webhook=webhook)


class JobBuilder:
    """Gathers a definition step by step: ``JobBuilder("mail.send").queue("mail").priority(5).build()``."""

    def __init__(self, type: str) -> None:
        self._fields: dict[str, Any] = {"type": type}

    def _set(self, **fields: object) -> Self:
        self._fields.update(fields)
        return self

    def payload(self, payload: object) -> Self:
        """The payload of requests that bring none."""
        return self._set(payload=payload)

    def queue(self, queue: str) -> Self:
        """Where its jobs wait."""
        return self._set(queue=queue)

    def priority(self, priority: int) -> Self:
        """0 to 9; 9 runs first."""
        return self._set(priority=priority)

    def timeout(self, timeout: timedelta) -> Self:
        """The limit of one attempt."""
        return self._set(timeout=timeout)

    def max_attempts(self, max_attempts: int) -> Self:
        """The most runs."""
        return self._set(max_attempts=max_attempts)

    def retry(self, retry: BuiltIn) -> Self:
        """How long its jobs wait between their runs, whatever their handler says."""
        return self._set(retry=retry)

    def named(self, name: str) -> Self:
        """A name for people."""
        return self._set(name=name)

    def meta(self, **meta: object) -> Self:
        """Values handed to the handler as they are."""
        return self._set(meta={**self._fields.get("meta", {}), **meta})

    def webhook(self, webhook: str) -> Self:
        """An address to call when the job has ended."""
        return self._set(webhook=webhook)

    def build(self) -> JobDefinition:
        """The immutable definition, checked."""
        return JobDefinition(**self._fields)
