"""Enqueue: known ids and idempotency keys (L6, L12)."""

from __future__ import annotations

from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import QueueSettings
from holdfast.testing.drivers.oracle.state import IdempotencyKey, OracleState


def enqueue_one(state: OracleState, job: JobRecord, now: int) -> Enqueued:
    """Store the job, or return the job that has its id or its key."""
    known = state.jobs.get(job.id)
    if known is not None:  # L6
        return Enqueued(id=job.id, existed=True, conflict=known.record.payload != job.payload)
    if job.idempotency_key is not None:  # L12
        key = state.keys.get((job.queue, job.idempotency_key))
        if key is not None and state.is_key_taken(key, now):
            return Enqueued(id=key.job_id, existed=True, conflict=key.payload != job.payload)
        window = state.settings.get((job.queue, None), QueueSettings()).dedupe_window
        state.keys[job.queue, job.idempotency_key] = IdempotencyKey(job.id, job.payload, now + window)
    state.add(job, enqueued_at=now, available_at=now if job.run_at is None else job.run_at)
    return Enqueued(id=job.id, existed=False)
