"""Reap: end expired leases and the leases of a dead worker (L2, L7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.model.bounds import MAX_COUNT
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.testing.drivers.oracle.state import OracleJob, OracleState, mark_dead


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


def _expire(state: OracleState, job: OracleJob, available_at: int, now: int) -> None:
    """Count a crash; the job becomes ready, dead, or cancelled if a cancel was requested (L7)."""
    record = replace(job.record, crashes=min(job.record.crashes + 1, MAX_COUNT))
    is_exhausted = record.attempts >= record.max_attempts
    is_poison = record.max_crashes is not None and record.crashes >= record.max_crashes
    if job.cancel_requested:
        state.end(job, Ending.CANCELLED, State.CANCELLED, now, detail="lease expired")
        job.record = replace(job.record, crashes=record.crashes)
    elif is_exhausted or is_poison:
        state.end(job, Ending.EXPIRED, State.DEAD, now)
        job.record = replace(job.record, crashes=record.crashes)
        mark_dead(job, "lease expired" if is_exhausted else "poison", now)
    else:
        state.end(job, Ending.EXPIRED, State.READY, now)
        job.record = replace(job.record, crashes=record.crashes, run_at=None)
        job.available_at = available_at
        job.released_for = 0
