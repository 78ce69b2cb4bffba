"""The options of a worker, checked when they are created, and the same as keyword arguments."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypedDict

from holdfast.clock import DAY, from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.lease import DEFAULT_LEASE, MIN_LEASE
from holdfast.model.limit_proposal import LimitProposal
from holdfast.model.queue_order import QueueOrder
from holdfast.model.retry import DEFAULT, RetryPolicy, check_policy
from holdfast.settings import Settings
from holdfast.worker.breaker import BreakerRule
from holdfast.worker.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How a worker runs jobs. The defaults suit most workers."""

    queues: tuple[str, ...] | None = None  # None: the queues of the app's handlers; without an app, ``default``
    processes: int = field(default_factory=lambda: os.cpu_count() or 1)
    concurrency: int = 1  # jobs at a time in one process: more than one only for handlers that mostly wait
    lease: timedelta | None = None  # None: the settings of the app, else 15 seconds
    drain: timedelta | None = timedelta(seconds=25)  # time that running jobs get after a stop; None: no limit
    grace: timedelta = timedelta(seconds=2)  # between interrupting a handler and killing its process
    # For jobs without a policy, of handlers without a policy. None: the settings of the app, else ``DEFAULT``.
    retry: RetryPolicy | None = None
    until_drained: bool = False  # stop when the queues have no open job left
    max_jobs: int | None = None  # stop after this many jobs
    limits: Limits = field(default_factory=Limits)  # of each child process
    recycle_after: int | None = None  # jobs after which a child process is replaced
    recycle_above: int | None = None  # bytes of resident memory above which a child process is replaced
    keep_processes: bool = False  # do not end the processes that an attempt leaves behind
    # Done and cancelled jobs, ledger rows, and dead letters, which stay until they are purged if nothing is set. Stored
    # as the retention of the store if it has none; otherwise the store decides. None: the settings of the app.
    keep_ended: timedelta | None = None
    keep_ledger: timedelta | None = None
    keep_dead: timedelta | None = None
    # None: as the settings of the app say; without an app, 24 hours, no and every handler in every queue.
    idempotency_ttl: timedelta | None = None  # how long an idempotency key is done, for handlers that set none
    idempotent: bool | None = None  # skip jobs whose key is done, also of handlers that do not say so
    allowed_handlers: Mapping[str, Collection[str]] | None = None  # the types that may run, by queue
    queue_limits: tuple[LimitProposal, ...] = ()  # proposed to the store; empty: the settings of the app
    queue_orders: Mapping[str, QueueOrder] | None = None  # by queue, proposed to the store; None: those of the settings
    breaker: BreakerRule | None = None  # for handlers without their own; None: the settings of the app
    # Fire the schedules of the app beside its jobs. None: if the app has some, and the worker does not only drain.
    cron: bool | None = None
    name: str = ""  # "": host, process id and a random suffix

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for a value out of range."""
        if self.queues is not None:
            _check_queues(self.queues)
        self._check_flags()
        bounds.check_integer("processes", self.processes, least=1, most=1024)
        bounds.check_integer("concurrency", self.concurrency, least=1, most=1024)
        if self.lease is not None:
            bounds.duration_from("lease", self.lease, least=MIN_LEASE)
        bounds.duration_from("grace", self.grace)
        check_policy(self.retry)
        if self.drain is not None:
            bounds.duration_from("drain", self.drain)
        bounds.check_optional_integer("max_jobs", self.max_jobs, least=1)
        bounds.check_optional_integer("recycle_after", self.recycle_after, least=1)
        bounds.check_optional_integer("recycle_above", self.recycle_above, least=1, most=2**62)
        for name, least in (("keep_ended", DAY), ("keep_ledger", 1), ("keep_dead", DAY)):
            if getattr(self, name) is not None:
                bounds.duration_from(name, getattr(self, name), least=least)
        if self.idempotency_ttl is not None:
            bounds.duration_from("idempotency_ttl", self.idempotency_ttl, least=1)
        for queue, types in (self.allowed_handlers or {}).items():
            bounds.check_name("queue", queue)
            for type_ in types:
                bounds.check_name("type", type_)
        bounds.check_text("name", self.name, empty=True)

    @classmethod
    def of(cls, options: WorkerOptions | None, **changes: Any) -> WorkerOptions:
        """Return these options, or the defaults, with some fields changed. Raises ``InvalidInput`` for another type."""
        if not isinstance(options, cls | None):
            raise InvalidInput("options", wanted="WorkerOptions(...), or None for the defaults", got=options)
        return replace(options or cls(), **changes)

    def _check_flags(self) -> None:
        for flag in ("until_drained", "keep_processes"):
            bounds.check_boolean(flag, getattr(self, flag))
        for flag in ("idempotent", "cron"):
            if getattr(self, flag) is not None:
                bounds.check_boolean(flag, getattr(self, flag))

    def with_settings(self, settings: Settings) -> WorkerOptions:
        """Return the same options, with those of the settings where this worker has none."""
        threshold, cooldown = settings.breaker_threshold, settings.breaker_cooldown
        allowed = settings.allowed_handlers or None
        return replace(
            self,
            lease=self.lease or settings.chosen_lease,
            retry=self.retry or settings.chosen_retry,
            queue_limits=self.queue_limits or settings.queue_limits,
            queue_orders=(settings.queue_orders or None) if self.queue_orders is None else self.queue_orders,
            breaker=self.breaker or (BreakerRule(threshold=threshold, cooldown=cooldown) if threshold else None),
            keep_ended=self.keep_ended or settings.chosen_keep_ended,
            keep_ledger=self.keep_ledger or settings.chosen_keep_ledger,
            keep_dead=self.keep_dead or settings.keep_dead,
            idempotent=(settings.idempotent or None) if self.idempotent is None else self.idempotent,
            idempotency_ttl=self.idempotency_ttl or settings.chosen_idempotency_ttl,
            allowed_handlers=allowed if self.allowed_handlers is None else self.allowed_handlers,
        )

    @property
    def lease_for(self) -> int:
        """The length of a lease in microseconds."""
        return DEFAULT_LEASE if self.lease is None else from_timedelta(self.lease)

    @property
    def retry_policy(self) -> RetryPolicy:
        """The retry policy of jobs and handlers that have none."""
        return self.retry or DEFAULT


def _check_queues(queues: object) -> None:
    if isinstance(queues, str) or not isinstance(queues, Collection):
        raise InvalidInput("queues", wanted="a tuple of names, such as ('mail',)", got=queues)
    if not queues:
        raise InvalidInput("queues", wanted="at least one", got="none")
    for queue in queues:
        bounds.check_name("queue", queue)


class WorkerKeywords(TypedDict, total=False):
    """The fields of ``WorkerOptions`` as keyword arguments of ``app.worker``."""

    queues: tuple[str, ...] | None
    processes: int
    concurrency: int
    lease: timedelta | None
    drain: timedelta | None
    grace: timedelta
    retry: RetryPolicy | None
    until_drained: bool
    max_jobs: int | None
    limits: Limits
    recycle_after: int | None
    recycle_above: int | None
    keep_processes: bool
    keep_ended: timedelta | None
    keep_ledger: timedelta | None
    keep_dead: timedelta | None
    idempotency_ttl: timedelta | None
    idempotent: bool | None
    allowed_handlers: Mapping[str, Collection[str]] | None
    queue_limits: tuple[LimitProposal, ...]
    queue_orders: Mapping[str, QueueOrder] | None
    breaker: BreakerRule | None
    cron: bool | None
    name: str
