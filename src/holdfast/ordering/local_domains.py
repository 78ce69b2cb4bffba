"""Domains in the memory of this process: one monitor per domain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.model.lease import is_expired
from holdfast.ordering.machine import Domain, LeaseRecord
from holdfast.ordering.state import DomainState, domain_state

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

    def change(self, name: str, action: Callable[[Domain], T], offset: int | None = None) -> T:
        """Let the action change the domain. Nothing else reads or changes the domain meanwhile."""
        del offset  # all of them are at hand
        record = self._record(name)
        with record.monitor:
            return action(record.domain)

    def read(self, name: str) -> DomainState:
        """Return a copy of the domain."""
        record = self._records.get(name)
        if record is None:
            return DomainState()
        with record.monitor:
            return domain_state(record.domain)

    def _record(self, name: str) -> _Record:
        record = self._records.get(name)
        if record is None:
            with self._create_lock:
                record = self._records.setdefault(name, _Record(Domain(name=name, has_lapsed=self._has_lapsed)))
        return record

    def _has_lapsed(self, lease: LeaseRecord) -> bool:
        if lease.lease_for is None:
            return False
        return is_expired(lease.renewed_at + lease.lease_for, self._clock.now())
