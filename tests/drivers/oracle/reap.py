"""Reap: end expired leases and the leases of a dead worker (L2, L7)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.model.bounds import MAX_COUNT
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending
from tests.drivers.oracle.state import OracleJob, OracleState, mark_dead


def reap(state: OracleState, queues: Sequence[str] | None, *, worker: str | None, limit: int, now: int) -> int:
    """End the expired leases, or all leases of ``worker``, oldest expiry first; return how many ended."""
    due: list[tuple[int, int, OracleJob]] = []
    for job in state.jobs.values():
        if job.lease is not None and (queues is None or job.record.queue in queues):
            is_of_worker = worker is not None and job.worker == worker
            is_expired = worker is None and now >= job.lease.expires_at  # L2
            if is_of_worker or is_expired:
                due.append((job.lease.expires_at, job.seq, job))
    due.sort(key=lambda entry: entry[:2])
    for expires_at, _, job in due[:limit]:
        _expire(state, job, min(expires_at, now), now)
    return len(due[:limit])


def report_outage_of_one(state: OracleState, lease: Lease, now: int) -> bool:
    """Expire the lease without a crash, or take back the crash that its expiry has counted."""
    job = state.jobs.get(lease.job_id)
    if job is None:
        return False
    if job.lease is not None and job.lease.token == lease.token and now >= job.lease.expires_at:
        _expire(state, job, job.lease.expires_at, now, counts_crash=False)
        return True
    if job.counted_crash_of == lease.token and not job.state.has_ended:
        job.record = replace(job.record, crashes=max(0, job.record.crashes - 1))
        job.counted_crash_of = None
        return True
    return False


def _expire(state: OracleState, job: OracleJob, available_at: int, now: int, *, counts_crash: bool = True) -> None:
    """The job becomes ready, dead, or cancelled if a cancel was requested. If it had begun, the attempt counts (L7)."""
    assert job.lease is not None
    token, begun = job.lease.token, not job.is_prefetched or job.started_at is not None
    counts_crash = counts_crash and begun
    attempts = job.record.attempts if begun else job.record.attempts - 1
    crashes = min(job.record.crashes + counts_crash, MAX_COUNT)
    is_exhausted = begun and attempts >= job.record.max_attempts
    is_poison = begun and job.record.max_crashes is not None and crashes >= job.record.max_crashes
    detail = "" if counts_crash else "outage of the store" if begun else "not begun"
    if job.cancel_requested:
        state.end(job, Ending.CANCELLED, State.CANCELLED, now, detail="lease expired")
    elif is_exhausted or is_poison:
        state.end(job, Ending.EXPIRED, State.DEAD, now, detail=detail)
        mark_dead(job, "lease expired" if is_exhausted else "poison", now)
    else:
        state.end(job, Ending.EXPIRED, State.READY, now, detail=detail)
        job.record = replace(job.record, run_at=None)
        job.available_at = available_at
        job.released_for = 0
    job.record = replace(job.record, attempts=attempts, crashes=crashes)
    job.is_suspect = not begun
    job.counted_crash_of = token if counts_crash else None
