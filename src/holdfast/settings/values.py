"""The settings as one frozen value, and where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from holdfast.clock import to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import lease
from holdfast.model import retry as retry_policy
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.limit_proposal import LimitProposal, QueueLimits
from holdfast.model.queue_order import QueueOrder
from holdfast.model.queue_settings import DEFAULT_BREAKER_COOLDOWN, LimitOrigin
from holdfast.model.retention import Retention
from holdfast.model.retry import BuiltInPolicy
from holdfast.model.secret import Secret
from holdfast.settings.named_stores import NamedStore, store_name_of
from holdfast.settings.names import FILE_NAME, STORES_PREFIX
from holdfast.settings.serve import ServeSettings
from holdfast.settings.webhooks import WebhookSettings

DEFAULT_ORIGIN = "default"
DEFAULT_KEEP_ENDED = to_timedelta(Retention().ended_for)
DEFAULT_KEEP_LEDGER = to_timedelta(Retention().ledger_for)
DEFAULT_LEASE = to_timedelta(lease.DEFAULT_LEASE)


class LogFormat(StrEnum):
    """How ``holdfast work`` writes its log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level that ``holdfast work`` logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class SigningMode(StrEnum):
    """Whether jobs are signed and verified. The order is from lenient to strict."""

    OFF = "off"
    ACCEPT = "accept"  # sign, verify what is signed, and run what is not: while unsigned jobs are drained
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """What ``[queues.NAME]`` says about a queue. The limits are proposals: see ``model.limit_proposal``."""

    limits: QueueLimits | None = None
    types: Mapping[str, QueueLimits] = field(default_factory=dict)  # limits of one type in the queue
    handlers: tuple[str, ...] | None = None  # the types that may run; None: all
    order: QueueOrder | None = None  # of the domains of the queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. ``origin`` returns where a value came from."""

    url: str | None = field(default=None, repr=False)  # the store, or ``store:NAME``; it may contain a password
    space: str = "main"
    environment: str = ""  # such as production: schedules with ``environments`` fire only where it is one of them
    max_attempts: int = DEFAULT_MAX_ATTEMPTS  # for jobs that set none
    timeout: timedelta | None = None  # of one attempt, for jobs that set none
    retry: BuiltInPolicy = retry_policy.DEFAULT  # of a worker, for jobs and handlers that have none
    lease: timedelta = DEFAULT_LEASE  # of a worker
    # The circuit breaker of handlers that have none of their own; without a threshold they have no breaker.
    breaker_threshold: int | None = None
    breaker_cooldown: timedelta = DEFAULT_BREAKER_COOLDOWN
    app: str | None = None  # MODULE:APP, whose handlers say how ``holdfast enqueue`` stores their jobs
    metrics: str | None = None  # a collector, ``module:object``: see ``observability.metrics``
    # How long done and cancelled jobs, and ledger rows, are kept: in a store that has no retention yet.
    keep_ended: timedelta = DEFAULT_KEEP_ENDED
    keep_ledger: timedelta = DEFAULT_KEEP_LEDGER
    keep_dead: timedelta | None = None  # dead letters; None: until they are purged
    idempotent: bool = False  # skip jobs whose idempotency key is done, for handlers that do not say
    idempotency_ttl: timedelta = timedelta(hours=24)  # how long a key is done
    log: LogFormat = LogFormat.TEXT  # of ``holdfast work``
    log_level: LogLevel = LogLevel.INFO
    log_redact: tuple[str, ...] = ()  # parts of names whose values the log masks, besides the built-in ones
    # What the built-in handlers may do. Empty: nothing.
    allowed_shell_commands: tuple[str, ...] = ()  # absolute paths of programs
    allowed_urls: tuple[str, ...] = ()  # scheme://host[:port]/prefix
    allowed_networks: tuple[str, ...] = ()  # private networks that requests to allowed URLs may reach
    allowed_events: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    signing: SigningMode = SigningMode.OFF
    signing_key: Secret | None = None  # secrets with commas between them: the first one signs, all of them verify
    signing_key_file: str | None = None  # see ``key_file``
    token: Secret | None = None  # for a store that is an HTTP service
    artifacts: str | None = None  # the folder of artifacts; None: there are none
    serve: ServeSettings = field(default_factory=ServeSettings)  # of the HTTP service
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)  # of callbacks and notifications
    queues: Mapping[str, QueueTable] = field(default_factory=dict)  # by name
    schedules: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # by name: see ``cron.table``
    stores: Mapping[str, NamedStore] = field(default_factory=dict)  # by name
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Return where a value came from: a file, a variable, an argument, or ``default``."""
        return self.origins.get(name, DEFAULT_ORIGIN)

    def value_of(self, name: str) -> object:
        """Return a value by the name of its setting, such as ``lease`` or ``serve_lease``."""
        table, _, rest = name.partition("_")
        return getattr(getattr(self, table), rest) if table in {"serve", "webhooks"} else getattr(self, name)

    def is_chosen(self, name: str) -> bool:
        """Whether someone chose this value; False if it is the default."""
        return self.origin(name) != DEFAULT_ORIGIN

    @property
    def chosen_keep_ended(self) -> timedelta | None:
        """``keep_ended`` if someone chose it; None if it is the default."""
        return self.keep_ended if self.is_chosen("keep_ended") else None

    @property
    def chosen_keep_ledger(self) -> timedelta | None:
        """``keep_ledger`` if someone chose it; None if it is the default."""
        return self.keep_ledger if self.is_chosen("keep_ledger") else None

    @property
    def chosen_idempotency_ttl(self) -> timedelta | None:
        """``idempotency_ttl`` if someone chose it; None if it is the default."""
        return self.idempotency_ttl if self.is_chosen("idempotency_ttl") else None

    @property
    def chosen_lease(self) -> timedelta | None:
        """``lease`` if someone chose it; None if it is the default."""
        return self.lease if self.is_chosen("lease") else None

    @property
    def chosen_retry(self) -> BuiltInPolicy | None:
        """``retry`` if someone chose it; None if it is the default."""
        return self.retry if self.is_chosen("retry") else None

    @property
    def allowed_handlers(self) -> dict[str, tuple[str, ...]]:
        """The types that may run, by queue, of the queues that have ``handlers``."""
        return {name: table.handlers for name, table in self.queues.items() if table.handlers is not None}

    @property
    def queue_limits(self) -> tuple[LimitProposal, ...]:
        """The limits of ``[queues.NAME]`` and ``[queues.NAME.types.TYPE]``."""
        return tuple(
            LimitProposal(queue=queue, type=type_, limits=limits, origin=LimitOrigin.SETTINGS)
            for queue, table in self.queues.items()
            for type_, limits in ((None, table.limits), *table.types.items())
            if limits is not None
        )

    @property
    def queue_orders(self) -> dict[str, QueueOrder]:
        """What ``[queues.NAME]`` says about domains, by queue."""
        return {name: table.order for name, table in self.queues.items() if table.order is not None}

    def resolve_url(self, url: str) -> str:
        """Return the URL that a driver opens: that of the named store for ``store:NAME``. Raises ``InvalidInput``."""
        return url if (name := store_name_of(url)) is None else self._find_store(name).url

    def space_of(self, url: str) -> str:
        """Return the space for a URL: that of an argument, else that of the named store, else the setting ``space``."""
        name = store_name_of(url)
        if name is None or self.origin("space").startswith("--"):
            return self.space
        return self._find_store(name).space or self.space

    def _find_store(self, name: str) -> NamedStore:
        found = self.stores.get(name)
        if found is None:
            ways = f"url in [stores.{name}] of {FILE_NAME}, or {STORES_PREFIX}{name.upper()}_URL, on this machine"
            got = f"none; known are {', '.join(self.stores)}" if self.stores else "none"
            raise InvalidInput(f"store {name}", wanted=ways, got=got)
        return found
