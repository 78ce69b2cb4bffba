"""Domains that have stopped and need an operator: halted by a dead job, or waiting for an offset that is overdue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Settings
from holdfast.drivers.store import Store
from holdfast.log import events
from holdfast.log.records import log_event
from holdfast.model.domain import DomainInfo, DomainStatus
from holdfast.model.queue_settings import Gaps, OnExhausted
from holdfast.worker.blocked_domains import walk_domains

MAX_DOMAINS = 10_000  # that one look reads of each status


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedDomains:
    """The domains that have stopped, at most ``MAX_DOMAINS`` of each kind."""

    halted: Sequence[DomainInfo] = ()
    overdue: Sequence[DomainInfo] = ()


def read_stopped_domains(store: Store, queue: str | None = None) -> StoppedDomains:
    """Return the domains of a queue, or of all queues, that have stopped. Raises ``StoreError``."""
    if not store.capabilities.has(Feature.DOMAINS):
        return StoppedDomains()
    return StoppedDomains(
        halted=_read(store, queue, DomainStatus.HALTED),
        overdue=[one for one in _read(store, queue, DomainStatus.WAITING) if one.is_overdue],
    )


def _read(store: Store, queue: str | None, status: DomainStatus) -> list[DomainInfo]:
    return list(islice(walk_domains(store, queue, status), MAX_DOMAINS))


class StoppedDomainLog:
    """Logs ``domain.halted`` and ``domain.gap``, once for each stop. Every worker logs those of its queues.

    Queues that neither halt domains nor wait for gaps cost one read of their settings.
    """

    def __init__(self, store: Store, queues: Sequence[str]) -> None:
        self._store = store
        can_stop = store.capabilities.has(Feature.LIMITS) and store.capabilities.has(Feature.DOMAINS)
        self._queues = queues if can_stop else ()
        self._logged: set[tuple[str, str, str | int | None]] = set()

    def look(self) -> None:
        """Log what has stopped since the last look. Raises ``StoreError``."""
        found: set[tuple[str, str, str | int | None]] = set()
        for queue in self._queues:
            settings = self._store.do(Settings(queue=queue))
            if settings.on_exhausted is not OnExhausted.HALT and settings.gaps is not Gaps.WAIT:
                continue
            stopped = read_stopped_domains(self._store, queue)
            for one in stopped.halted:
                key = (queue, one.domain, one.halted_by)
                found.add(key)
                if key not in self._logged:
                    log_event(events.DOMAIN_HALTED, queue=queue, domain=one.domain, job_id=one.halted_by)
            for one in stopped.overdue:
                gap = (queue, one.domain, one.waits_for)
                found.add(gap)
                if gap not in self._logged:
                    log_event(events.DOMAIN_GAP, queue=queue, domain=one.domain, offset=one.waits_for)
        self._logged = found
