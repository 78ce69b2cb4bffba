"""Enqueue: known ids, idempotency keys and offsets (L6, L11, L12)."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.model import unique
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import QueueSettings
from tests.drivers.oracle.admin import purge_one
from tests.drivers.oracle.domains import known_offset
from tests.drivers.oracle.state import IdempotencyKey, OracleState

_OPEN = frozenset({State.READY, State.INFLIGHT})


def enqueue_one(state: OracleState, job: JobRecord, now: int) -> Enqueued:
    """Store the job, or return the job that has its id, its key or its offset."""
    known = state.jobs.get(job.id)
    if known is not None:  # L6
        return Enqueued(id=job.id, existed=True, conflict=known.record.payload != job.payload)
    if job.idempotency_key is not None:  # L12
        key = state.keys.get((job.queue, job.idempotency_key))
        if key is not None and state.is_key_taken(key, now):
            return Enqueued(id=key.job_id, existed=True, conflict=key.payload != job.payload)
    known_place = known_offset(state, job)
    if known_place is not None:  # L11
        return known_place
    if job.idempotency_key is not None:
        window, states = _key_rule(job, state.settings.get((job.queue, None), QueueSettings()))
        state.keys[job.queue, job.idempotency_key] = IdempotencyKey(job.id, job.payload, now + window, states)
    state.add(job, enqueued_at=now, available_at=now if job.run_at is None else job.run_at)
    return Enqueued(id=job.id, existed=False)


def replace_dead(state: OracleState, jobs: Sequence[JobRecord], before: int, now: int) -> None:
    """Remove the dead jobs that ended before an instant and have the key of a new record, and free the key (L12)."""
    for job in jobs:
        place = (job.queue, job.idempotency_key or "")
        key = state.keys.get(place)
        holder = None if key is None or job.id in state.jobs else state.jobs.get(key.job_id)
        if holder is not None and holder.state is State.DEAD and (holder.ended_at or 0) < before:
            purge_one(state, holder.record.id, now)
            del state.keys[place]


def _key_rule(job: JobRecord, settings: QueueSettings) -> tuple[int, frozenset[State]]:
    """Return how long the job has its key at least, and the states in which it has the key after that."""
    match job.unique_for:
        case None:
            return settings.dedupe_window, _OPEN
        case unique.WHILE_OPEN:
            return 0, _OPEN
        case unique.WHILE_QUEUED:
            return 0, frozenset({State.READY})
        case window:
            return window, _OPEN
