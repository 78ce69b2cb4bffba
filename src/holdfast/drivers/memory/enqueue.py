"""Enqueue: answer for the jobs that exist, add the others."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.memory.reserve import lease_rows
from holdfast.drivers.memory.rows import StoredKey
from holdfast.drivers.memory.space import Space
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import must_wait, representatives
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.unique import WHILE_QUEUED, window_of


def enqueue_one(space: Space, job: JobRecord, now: int) -> Enqueued:
    """Add a job, unless its id exists or its idempotency key is taken (L6, L12)."""
    row = space.rows.get(job.id)
    if row is not None:
        return Enqueued(id=job.id, existed=True, conflict=row.job.payload != job.payload)
    if job.idempotency_key is not None:
        place = (job.queue, job.idempotency_key)
        key = space.keys.get(place)
        if key is not None and space.is_taken(key, now):
            return Enqueued(id=key.job_id, existed=True, conflict=key.payload != job.payload)
        until = now + window_of(job.unique_for, space.settings_of(job.queue).dedupe_window)
        space.keys[place] = StoredKey(job.id, job.payload, until, while_queued=job.unique_for == WHILE_QUEUED)
    space.add(job, now)
    return Enqueued(id=job.id, existed=False)


def enqueue_leased(
    space: Space, jobs: Sequence[JobRecord], *, lease_for: int, worker: str, now: int
) -> tuple[list[Enqueued], list[Reservation]]:
    """See ``LeasedEnqueue.enqueue_leased``."""
    answers = [enqueue_one(space, job, now) for job in jobs]
    queues = {job.queue for job in representatives(jobs)}
    if any(answer.existed for answer in answers) or must_wait(jobs) or space.is_limited(queues, now):
        return answers, []
    rows = [space.rows[job.id] for job in jobs]
    return answers, lease_rows(space, rows, expires_at=now + lease_for, worker=worker, now=now, prefetched=True)
