"""The expired leases that a store object has ended, with what a report of each needs."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.drivers.store import Store
from holdfast.ledger_reader import read_jobs
from holdfast.model.job import State
from holdfast.model.ledger import LedgerRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredLease:
    """A lease that was ended as expired. ``dead_reason`` says why its job is dead by that; None if it is not dead."""

    row: LedgerRow
    dead_reason: str | None = None


def take_expired(store: Store) -> list[ExpiredLease]:
    """Return the leases that calls of this store object have ended since the last time."""
    rows = store.take_expired()
    if not rows:
        return []
    dead = read_jobs(store, [row.job_id for row in rows if row.state is State.DEAD])
    reasons = {job.id: job.dead_reason for job in dead.values()}
    return [
        ExpiredLease(row=row, dead_reason=reasons.get(row.job_id) if row.state is State.DEAD else None) for row in rows
    ]
