"""What ``WorkLease.state`` returns: one domain as it was at one instant."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from holdfast.clock import to_datetime
from holdfast.model.interval_set import IntervalSet
from holdfast.ordering.machine import Domain


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The lease of a domain. ``acquired_at`` is when the offset was acquired for the first time.

    ``token`` is None if the lease has an owner. Only a lease with an owner has ``expires_at``, and ``has_lapsed`` when
    that instant has passed: then another owner may take it over.
    """

    offset: int
    token: str | None = field(repr=False)
    fence: int
    acquired_at: datetime
    retry_count: int
    owner: str | None = None
    expires_at: datetime | None = None
    has_lapsed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainState:
    """A domain: its lease, None if it is idle; its ended offsets; and those that wait, in order.

    ``processed`` and ``failed`` compare with plain sets. ``halted`` is the offset at which the domain was halted.
    """

    lease: LeaseState | None = None
    processed: IntervalSet = field(default_factory=IntervalSet)
    failed: IntervalSet = field(default_factory=IntervalSet)
    backlog: tuple[int, ...] = ()
    halted: int | None = None


def domain_state(domain: Domain, *, expires_at: int | None = None) -> DomainState:
    """Return a copy of a domain as callers see it. ``expires_at``: of its lease, if that is known exactly."""
    lease, shown = domain.lease, None
    if lease is not None:
        if lease.lease_for is not None and expires_at is None:
            expires_at = lease.renewed_at + lease.lease_for
        shown = LeaseState(
            offset=lease.offset,
            token=lease.token if lease.owner is None else None,
            fence=lease.fence,
            acquired_at=to_datetime(lease.acquired_at),
            retry_count=lease.retry_count,
            owner=lease.owner,
            expires_at=None if expires_at is None else to_datetime(expires_at),
            has_lapsed=domain.has_lapsed(lease),
        )
    return DomainState(
        lease=shown,
        processed=IntervalSet.of_ranges(domain.processed.ranges()),
        failed=IntervalSet.of_ranges(domain.failed.ranges()),
        backlog=tuple(domain.backlog),
        halted=None if domain.halt is None or domain.halt.is_released else domain.halt.offset,
    )
