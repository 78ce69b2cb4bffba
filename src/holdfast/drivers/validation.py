"""Checks of the arguments of every verb: the same bounds and the same messages in every driver.

A driver holds one ``Validation`` and calls it first in each verb, so that no unchecked value reaches the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import get_args

from holdfast.drivers.capabilities import Capabilities, Feature
from holdfast.drivers.contract import DomainStatus, Registry, ResumeAction
from holdfast.drivers.cursors import read_domain_cursor
from holdfast.drivers.requests.core import check_meta
from holdfast.errors import CallerClockRefused, InvalidInput
from holdfast.model import bounds, ledger_reader, retention
from holdfast.model.isolation import Isolation
from holdfast.model.job import JobRecord, State, check_new
from holdfast.model.job_batch import JobBatch, representatives
from holdfast.model.lease import Lease
from holdfast.model.queue_settings import SETTINGS_FIELDS, OnExhausted, QueueSettings
from holdfast.model.registry import Change
from holdfast.model.retention import Retention
from holdfast.model.settlement import Retry, Settlement

MAX_WAIT_SECONDS = 86_400

_SETTLEMENTS = frozenset(get_args(Settlement))


class Validation:
    """Checks for one driver: each raises ``InvalidInput``, or ``Unsupported`` for a gap in ``capabilities``."""

    def __init__(self, capabilities: Capabilities, *, caller_clock: bool, read_clock: Callable[[], int]) -> None:
        """``read_clock`` reads the clock of the store; it may be a round trip."""
        self._capabilities = capabilities
        self._caller_clock = caller_clock
        self._read_clock = read_clock

    def now(self, given: int | None) -> int:
        """Return the instant that decides about a call: the caller's if it gave one, else the store's (L1)."""
        instant = self.caller_now(given)
        return self._read_clock() if instant is None else instant

    def caller_now(self, given: int | None) -> int | None:
        """Return the caller's instant; None if it gave none. Raises ``CallerClockRefused`` if it must not (L1)."""
        if given is None:
            return None
        if not self._caller_clock:
            raise CallerClockRefused
        return bounds.check_integer("now", given, most=bounds.MAX_INSTANT)

    def require(self, feature: Feature) -> None:
        """Raise ``Unsupported`` if the driver does not have this feature (L14)."""
        self._capabilities.require(feature)

    def check_enqueue(self, jobs: Sequence[JobRecord]) -> None:
        """Check every record before any is stored. This is where records enter, from a client and from anybody else."""
        bounds.check_batch("jobs", len(jobs))
        if isinstance(jobs, JobBatch):
            jobs.check()
        else:
            for job in jobs:
                check_new(job)
        for job in representatives(jobs):
            check_meta(job.meta)
            if job.offset is not None:
                self.require(Feature.OFFSETS)
            if job.webhook is not None:  # a reader of the ledger calls it, and keeps its place in the registry
                self.require(Feature.LEDGER)
                self.require(Feature.REGISTRY)

    def check_replace_dead(self, jobs: Sequence[JobRecord], writes: Sequence[Change], before: int) -> None:
        """Check an enqueue that replaces dead jobs."""
        self.require(Feature.IDEMPOTENCY)
        bounds.check_integer("replace_dead_before", before, least=0, most=bounds.MAX_INSTANT)
        if writes:
            raise InvalidInput("writes", wanted="none with replace_dead_before", got=str(len(writes)))
        if any(job.offset is not None for job in representatives(jobs)):  # a replaced offset has ended
            raise InvalidInput("offset", wanted="none with replace_dead_before", got="one")

    def check_enqueue_writes(self, jobs: Sequence[JobRecord], writes: Sequence[Change]) -> None:
        """Check the registry writes of an enqueue. Each ``Change`` checked its own values when it was created."""
        self.require(Feature.REGISTRY)
        self.require(Feature.ENQUEUE_WRITES)
        bounds.check_batch("writes", len(writes))
        self._all("write", writes, Change)
        if len({(write.kind, write.key) for write in writes}) < len(writes):
            raise InvalidInput("writes", wanted="every key once", got="two writes to one key")
        if not jobs:
            raise InvalidInput("jobs", wanted="at least one job (without jobs: `write`)", got="none")

    def check_reserve(
        self,
        queues: Sequence[str],
        limit: int,
        lease_for: int,
        worker: str,
        types: Collection[str] | None,
        *,
        max_bytes: int | None,
        isolation: Isolation,
        prefetch: bool,
    ) -> list[str]:
        """Return the queues, each once."""
        bounds.check_integer("limit", limit, least=1, most=bounds.MAX_BATCH_ITEMS)
        bounds.check_optional_integer("max_bytes", max_bytes, least=1)
        if not isinstance(isolation, Isolation):
            raise InvalidInput("isolation", wanted="an Isolation", got=isolation)
        if not isinstance(prefetch, bool):
            raise InvalidInput("prefetch", wanted="True or False", got=prefetch)
        self.check_lease(lease_for, worker)
        if types is not None:
            self._names("type", types)
        return self._names("queue", queues)

    def check_lease(self, lease_for: int, worker: str) -> None:
        """Check the duration of a lease and the name of its worker."""
        bounds.check_integer("lease_for", lease_for, least=1, most=bounds.MAX_DURATION)
        bounds.check_text("worker", worker, empty=True)

    def check_leases(self, leases: Sequence[Lease]) -> None:
        """Check a list of leases."""
        bounds.check_batch("leases", len(leases))
        self._all("lease", leases, Lease)

    def check_extend(self, leases: Sequence[Lease], lease_for: int) -> None:
        """Check the leases and the duration of their extension."""
        self.check_leases(leases)
        bounds.check_integer("lease_for", lease_for, least=1, most=bounds.MAX_DURATION)

    def check_settle(self, settlements: Sequence[Settlement]) -> None:
        """Check that every item is a settlement of a lease."""
        bounds.check_batch("settlements", len(settlements))
        if not self._capabilities.has(Feature.KEY_LIMITS) and any(
            isinstance(settlement, Retry) and settlement.hold_key for settlement in settlements
        ):
            self.require(Feature.KEY_LIMITS)
        for settlement in settlements:
            if type(settlement) not in _SETTLEMENTS:
                raise InvalidInput("settlement", wanted="Ack, Retry, Fail or Release", got=settlement)
            if type(settlement.lease) is not Lease:
                raise InvalidInput("lease", wanted="a Lease", got=settlement.lease)
            started_at = settlement.started_at
            if started_at is not None and not (type(started_at) is int and 1 <= started_at <= bounds.MAX_INSTANT):
                bounds.check_integer("started_at", started_at, least=1, most=bounds.MAX_INSTANT)

    def check_reap(self, queues: Sequence[str] | None, worker: str | None, limit: int) -> list[str] | None:
        """Return the queues, each once; None means all queues."""
        bounds.check_integer("limit", limit, least=1, most=bounds.MAX_BATCH_ITEMS)
        if worker is not None:
            bounds.check_text("worker", worker)
        return None if queues is None else self._names("queue", queues)

    def check_wait(self, queues: Sequence[str], timeout: float) -> list[str]:
        """Return the queues, each once."""
        self._check_timeout(timeout)
        return self._names("queue", queues)

    def check_wait_for_cancel(self, job_ids: Collection[str], timeout: float) -> None:
        """Check a list of job ids, and for how long to wait."""
        self._check_timeout(timeout)
        self.check_ids(job_ids)

    def check_ids(self, job_ids: Collection[str]) -> None:
        """Check a list of job ids."""
        self._not_text("job_ids", job_ids)
        bounds.check_batch("job_ids", len(job_ids))
        for job_id in job_ids:
            bounds.check_name("id", job_id)

    def check_settings(
        self, queue: str, settings: QueueSettings | None, type_: str | None, only: Collection[str] | None = None
    ) -> None:
        """Check the names, and that the driver supports the settings."""
        bounds.check_name("queue", queue)
        if type_ is not None:
            bounds.check_name("type", type_)
        if settings is not None:
            self._check_domain_settings(settings, type_)
            self._check_key_limits(settings, type_)
        if only is not None:
            self._not_text("only", only)
            unknown = sorted(set(only) - set(SETTINGS_FIELDS))
            if unknown:
                raise InvalidInput("only", wanted=f"some of {', '.join(SETTINGS_FIELDS)}", got=", ".join(unknown))
            for rate, burst in (("rate", "burst"), ("key_rate", "key_burst")):
                if (rate in only) != (burst in only):  # a burst without its rate is no setting
                    raise InvalidInput("only", wanted=f"{rate} and {burst} together", got=", ".join(sorted(only)))

    def _check_domain_settings(self, settings: QueueSettings, type_: str | None) -> None:
        """Check the settings that apply to the domains of a queue."""
        if settings.on_exhausted is OnExhausted.HALT:
            self.require(Feature.HALT)
        if settings.has_gap_settings:
            self.require(Feature.GAPS)
        if type_ is not None and (settings.on_exhausted is OnExhausted.HALT or settings.has_gap_settings):
            raise InvalidInput("on_exhausted and gaps", wanted="settings of a queue", got=f"the type {type_}")

    def _check_key_limits(self, settings: QueueSettings, type_: str | None) -> None:
        if settings.has_key_limits:
            self.require(Feature.KEY_LIMITS)
            if type_ is not None:
                raise InvalidInput("key_max_inflight and key_rate", wanted="limits of a queue", got=f"the type {type_}")

    def check_domains(
        self, queue: str | None, status: DomainStatus | None, name: str | None, limit: int, after: str | None
    ) -> tuple[str, str] | None:
        """Check the conditions of a page of domains; return the queue and the name of the last domain before it."""
        self.require(Feature.OFFSETS)
        if queue is not None:
            bounds.check_name("queue", queue)
        if status is not None and not isinstance(status, DomainStatus):
            raise InvalidInput("status", wanted=f"one of {', '.join(DomainStatus)}", got=status)
        bounds.check_optional_text("name", name)
        self.check_page(limit)
        return None if after is None else read_domain_cursor(after)

    def check_resume(self, queue: str, domain: str, action: ResumeAction, position: int | None) -> None:
        """Check how a domain goes on."""
        self.require(Feature.HALT)
        if position is not None:
            self.require(Feature.GAPS)
        self._check_domain(queue, domain)
        if not isinstance(action, ResumeAction):
            raise InvalidInput("action", wanted=f"one of {', '.join(ResumeAction)}", got=action)
        bounds.check_optional_integer("position", position, most=bounds.MAX_OFFSET)

    def check_forget_domain(self, queue: str, domain: str) -> None:
        """Check the name of a domain."""
        self.require(Feature.OFFSETS)
        self._check_domain(queue, domain)

    @staticmethod
    def _check_domain(queue: str, domain: str) -> None:
        bounds.check_name("queue", queue)
        bounds.check_text("domain", domain)

    def check_page(self, limit: int) -> None:
        """Check the limit of a page."""
        bounds.check_integer("limit", limit, least=1, most=bounds.MAX_BATCH_ITEMS)

    def check_find(self, limit: int, after: str | None) -> None:
        """Check the limit of a page of jobs, and the id after which it begins."""
        self.check_page(limit)
        if after is not None:
            bounds.check_name("after", after)

    def check_spaces(self, after: str, limit: int) -> None:
        """Check a page of names of spaces."""
        if after:
            bounds.check_name("after", after)
        self.check_page(limit)

    def check_any_open(self, queues: Sequence[str], types: Collection[str]) -> tuple[list[str], list[str]]:
        """Return the queues and the types, each once."""
        return self._names("queue", queues), self._names("type", types)

    def check_counts(self, queues: Sequence[str] | None, states: Collection[State] | None) -> frozenset[State]:
        """Check the queues to count, None means all queues; return the states to count, None means all states."""
        if queues is not None:
            self._names("queue", queues)
        if states is None:
            return frozenset(State)
        self._not_text("states", states)
        for state in states:
            if state not in frozenset(State):
                raise InvalidInput("states", wanted=f"some of {', '.join(State)}", got=state)
        return frozenset(State(state) for state in states)

    def check_trim(self, ended_for: int | None, ledger_for: int | None, limit: int) -> None:
        """Check the retention of a call: each value, or None for the one of the store."""
        Retention(**_given(ended_for=ended_for, ledger_for=ledger_for))
        bounds.check_integer("limit", limit, least=1, most=bounds.MAX_BATCH_ITEMS)

    def retention(
        self, registry: Registry, *, ended_for: int | None, ledger_for: int | None, now: int | None
    ) -> Retention:
        """Return how long rows stay: as the call says, else as the store says."""
        called_for = _given(ended_for=ended_for, ledger_for=ledger_for)
        if not self._capabilities.has(Feature.REGISTRY):
            return Retention(**called_for)
        [stored] = registry.read(retention.KIND, [retention.KEY], now=now)
        return replace(retention.read_retention(stored) or Retention(), **called_for)

    def reader_cursors(self, registry: Registry, *, now: int | None) -> list[str | None]:
        """Return how far the registered readers of the ledger have read.

        Called before the transaction that removes rows. A reader that registers in between begins at the oldest row
        that is left (L13).
        """
        if not self._capabilities.has(Feature.REGISTRY):
            return []
        readers = registry.scan(ledger_reader.KIND, limit=ledger_reader.MAX_READERS, now=now)
        return [ledger_reader.parse_reader(reader).cursor for reader in readers]

    def check_read(self, kind: str, keys: Sequence[str]) -> None:
        """Check a kind and a list of keys."""
        bounds.check_name("kind", kind)
        self._not_text("keys", keys)
        bounds.check_batch("keys", len(keys))
        for key in keys:
            bounds.check_text("key", key)

    def check_write(self, changes: Sequence[Change]) -> None:
        """Check the batch. Each ``Change`` checked its own values when it was created."""
        bounds.check_batch("changes", len(changes))
        self._all("change", changes, Change)

    def check_scan(self, kind: str, prefix: str, after: str, limit: int) -> None:
        """Check a kind and a page of its keys."""
        bounds.check_name("kind", kind)
        bounds.check_text("prefix", prefix, empty=True)
        bounds.check_text("after", after, empty=True)
        self.check_page(limit)

    @staticmethod
    def _check_timeout(timeout: float) -> None:
        if not isinstance(timeout, int | float) or not 0 <= timeout <= MAX_WAIT_SECONDS:
            raise InvalidInput("timeout", wanted=f"seconds from 0 to {MAX_WAIT_SECONDS}", got=timeout)

    @staticmethod
    def _not_text(field: str, values: Collection[str]) -> None:
        """Refuse a single text: a text is a sequence of texts too, but never the one that the caller meant."""
        if isinstance(values, str):
            raise InvalidInput(field, wanted="a list", got=values)

    @staticmethod
    def _all(field: str, values: Sequence[object], wanted: type) -> None:
        for value in values:
            if not isinstance(value, wanted):
                raise InvalidInput(field, wanted=f"a {wanted.__name__}", got=value)

    @staticmethod
    def _names(field: str, names: Collection[str]) -> list[str]:
        if isinstance(names, str) or not names:
            raise InvalidInput(f"{field}s", wanted=f"a list with at least one {field}", got=names)
        bounds.check_batch(f"{field}s", len(names))
        return list(dict.fromkeys(bounds.check_name(field, value) for value in names))


def _given(**values: int | None) -> dict[str, int]:
    """Return the values that are not None."""
    return {name: value for name, value in values.items() if value is not None}
