"""Enqueue: answer for the jobs that exist, add the others."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.drivers.memory.admin import purge
from holdfast.drivers.memory.reserve import lease_rows
from holdfast.drivers.memory.rows import StoredKey
from holdfast.drivers.memory.space import Space
from holdfast.model.job import JobRecord, State
from holdfast.model.job_batch import must_wait, representatives
from holdfast.model.lease import Enqueued, Reservation
from holdfast.model.unique import WHILE_QUEUED, window_of


def enqueue_one(space: Space, job: JobRecord, now: int) -> Enqueued:
    """Add a job, unless its id exists, its idempotency key is taken or its offset is known (L6, L11, L12)."""
    row = space.rows.get(job.id)
    if row is not None:
        return Enqueued(id=job.id, existed=True, conflict=row.job.payload != job.payload)
    if job.idempotency_key is not None:
        key = space.keys.get((job.queue, job.idempotency_key))
        if key is not None and space.is_taken(key, now):
            return Enqueued(id=key.job_id, existed=True, conflict=key.payload != job.payload)
    if job.offset is not None and (known := find_offset(space, job)):
        return known
    if job.idempotency_key is not None:
        until = now + window_of(job.unique_for, space.settings_of(job.queue).dedupe_window)
        space.keys[job.queue, job.idempotency_key] = StoredKey(
            job.id, job.payload, until, while_queued=job.unique_for == WHILE_QUEUED
        )
    space.add(job, now)
    return Enqueued(id=job.id, existed=False)


def replace_dead(
    space: Space, jobs: Sequence[JobRecord], before: int, cursors: Collection[str | None], now: int
) -> None:
    """Remove the dead jobs that ended before an instant and have a key of these new records; free the keys (L12)."""
    for job in jobs:
        place = (job.queue, job.idempotency_key or "")
        key = space.keys.get(place)
        holder = None if key is None or job.id in space.rows else space.rows.get(key.job_id)
        if (
            holder is not None
            and holder.job.state is State.DEAD
            and (holder.ended_at or 0) < before
            and purge(space, [holder.job.id], cursors, now) == [True]
        ):
            del space.keys[place]
    space.update_waits(now)


def find_offset(space: Space, job: JobRecord) -> Enqueued | None:
    """Return the answer for an offset that is open or has ended in its domain; None if it is new (L11)."""
    place = space.place_of(job)
    domain = None if place is None else space.domains.get(place)
    if place is None or domain is None or job.offset is None:
        return None
    open_id = domain.by_offset.get(job.offset)
    if open_id is not None:
        return Enqueued(id=open_id, existed=True, conflict=space.rows[open_id].job.payload != job.payload)
    if job.offset not in domain.ended:
        return None
    kept = [space.rows[job_id] for job_id in space.ended_offsets.get((place, job.offset), ())]
    if not kept:
        return Enqueued(id=job.id, existed=True, past=True)
    last = max(kept, key=lambda row: row.seq)
    return Enqueued(id=last.job.id, existed=True, conflict=last.job.payload != job.payload, past=True)


def enqueue_leased(
    space: Space, jobs: Sequence[JobRecord], *, lease_for: int, worker: str, now: int
) -> tuple[list[Enqueued], list[Reservation]]:
    """Enqueue the jobs and lease all of them, or none of them, in one transaction."""
    answers = [enqueue_one(space, job, now) for job in jobs]
    queues = {job.queue for job in representatives(jobs)}
    if any(answer.existed for answer in answers) or must_wait(jobs) or space.is_limited(queues, now):
        return answers, []
    rows = [space.rows[job.id] for job in jobs]
    return answers, lease_rows(space, rows, expires_at=now + lease_for, worker=worker, now=now, prefetched=True)
