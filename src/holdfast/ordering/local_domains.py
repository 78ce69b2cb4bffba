"""Domains in the memory of this process: one monitor per domain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.model.interval_set import IntervalSet
from holdfast.model.lease import is_expired
from holdfast.ordering.backlog import Backlog
from holdfast.ordering.machine import Domain, LeaseRecord
from holdfast.ordering.state import DomainState, lease_state

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Record:
    """A domain and its monitor. Neither is ever replaced."""

    domain: Domain
    monitor: threading.Lock = field(default_factory=threading.Lock)


class LocalDomains:
    """All domains of one ``WorkLease`` without a store. Every read and change of a domain is under its monitor."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, _Record] = {}
        self._create_lock = threading.Lock()

    def change(self, name: str, action: Callable[[Domain, Callable[[LeaseRecord], bool]], T]) -> T:
        """Let the action change the domain. Nothing else reads or changes the domain meanwhile."""
        record = self._record(name)
        with record.monitor:
            return action(record.domain, self._has_lapsed)

    def read(self, name: str) -> DomainState:
        """Return a copy of the domain."""
        record = self._records.get(name)
        if record is None:
            return DomainState()
        with record.monitor:
            domain = record.domain
            assert isinstance(domain.processed, IntervalSet)
            assert isinstance(domain.failed, IntervalSet)
            assert isinstance(domain.backlog, Backlog)
            lease = domain.lease
            if lease is not None:
                expires_at = None if lease.lease_for is None else lease.renewed_at + lease.lease_for
                shown = lease_state(lease, expires_at=expires_at, has_lapsed=self._has_lapsed(lease))
            return DomainState(
                lease=None if lease is None else shown,
                processed=IntervalSet.of_ranges(domain.processed.ranges()),
                failed=IntervalSet.of_ranges(domain.failed.ranges()),
                backlog=tuple(domain.backlog),
                halted=None if domain.halt is None or domain.halt.is_released else domain.halt.offset,
            )

    def _record(self, name: str) -> _Record:
        record = self._records.get(name)
        if record is None:
            with self._create_lock:
                record = self._records.setdefault(name, _Record(Domain(name=name)))
        return record

    def _has_lapsed(self, lease: LeaseRecord) -> bool:
        if lease.lease_for is None:
            return False
        return is_expired(lease.renewed_at + lease.lease_for, self._clock.now())
