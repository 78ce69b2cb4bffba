"""Everything that is done with a lease once it is granted: extend, settle, reap."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.drivers.requests import Reap, distinct
from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired
from holdfast.model import transition
from holdfast.model.lease import Lease, Note
from holdfast.model.settlement import Ack, Retry, Settlement


def extend_one(space: Space, lease: Lease, note: Note | None, *, expires_at: int, now: int) -> Lease | LeaseError:
    """Move the end of a lease and store the note, or return why the lease is refused."""
    row = space.rows.get(lease.job_id)
    refusal = space.refusal(lease, now)
    if row is None or refusal is not None:
        return refusal or JobNotInflight(lease.job_id, None)
    space.extend(row, expires_at)
    if note is not None:
        space.store_note(row, note)
    return Lease(
        job_id=lease.job_id,
        token=lease.token,
        fence=lease.fence,
        expires_at=expires_at,
        cancel_requested=row.cancel_requested,
    )


def settle_one(space: Space, settlement: Settlement, now: int) -> LeaseError | None:
    """End a lease with its whole effect, or return why it is refused. A repeated settlement has no effect (L6)."""
    row = space.rows.get(settlement.lease.job_id)
    if transition.is_repeat(None if row is None else row.held, settlement):
        return None
    refusal = space.refusal(settlement.lease, now)
    if row is None or refusal is not None:
        return refusal
    if isinstance(settlement, Ack):
        refused = space.registry.write_all(settlement.writes, now, job_id=row.job.id)
        if refused is not None:
            return refused
    if isinstance(settlement, Retry) and (held_until := settlement.held_until(now)) is not None:
        space.hold_key(row, held_until)
    decided = transition.after_settlement(row.held, settlement, now)
    space.end(row, decided, settlement.verb, now, settlement.started_at)
    return None


def reap(space: Space, request: Reap, now: int) -> int:
    """End expired leases, or those of a dead worker; return how many."""
    queues = list(space.leases) if request.queues is None else distinct(request.queues)
    rows = space.expired(queues, now) if request.worker is None else space.leased_by(request.worker, queues)
    end_leases(space, rows[: request.limit], now)
    return len(rows[: request.limit])


def end_leases(space: Space, rows: Sequence[Row], now: int, *, in_outage: bool = False) -> None:
    """End leases as expired."""
    for row in rows:
        verb = transition.expiry_verb(row.held, in_outage=in_outage)
        space.end(row, transition.after_expiry(row.held, now, in_outage=in_outage), verb, now)


def report_outage_of_one(space: Space, lease: Lease, now: int) -> bool:
    """End an expired lease without a crash, or take back the crash that its expiry counted; return whether either."""
    row = space.rows.get(lease.job_id)
    if row is None:
        return False
    if isinstance(space.refusal(lease, now), LeaseExpired):
        end_leases(space, [row], now, in_outage=True)
        return True
    if transition.has_counted_crash(row.held, lease):
        space.take_crash_back(row)
        return True
    return False
