"""Extend, and the check of a lease that extend and settle share (L5)."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.lease import Lease, Note
from tests.drivers.oracle.state import OracleJob, OracleState


def extend_one(state: OracleState, lease: Lease, expires_at: int, note: Note | None, now: int) -> Lease | LeaseError:
    """Move the end of a valid lease and store the fields that the note has."""
    job = leased_job(state, lease, now)
    if isinstance(job, LeaseError):
        return job
    if note is not None:
        job.started_at = job.started_at if note.started_at is None else note.started_at
        job.progress = job.progress if note.progress is None else note.progress
        job.checkpoint = job.checkpoint if note.checkpoint is None else note.checkpoint
    assert job.lease is not None
    job.lease = replace(job.lease, expires_at=expires_at, cancel_requested=job.cancel_requested)
    return job.lease


def leased_job(state: OracleState, lease: Lease, now: int) -> OracleJob | LeaseError:
    """Return the job of a valid lease, or the error that L5 requires; the order of the checks is that of L5."""
    job = state.jobs.get(lease.job_id)
    if job is None:
        return JobNotInflight(lease.job_id, None)
    if job.state is not State.INFLIGHT or job.lease is None:
        return JobNotInflight(lease.job_id, job.state)
    if job.lease.token != lease.token:
        return LeaseMismatch(lease.job_id)
    if now >= job.lease.expires_at:
        return LeaseExpired(lease.job_id, expires_at=job.lease.expires_at, now=now)
    return job
