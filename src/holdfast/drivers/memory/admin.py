"""The verbs of ``Admin``: reading jobs, requeue, cancel, purge, retention."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.drivers.answers import Inspection, Page, QueueCounts, Trimmed
from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.drivers.requests import FIND_BYTES
from holdfast.model.filters import JobFilter
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Note, is_expired
from holdfast.model.ledger_reader import unread_since
from holdfast.model.retention import Retention

# Reading jobs -----------------------------------------------------------------------------------------------------


def inspect(space: Space, job_ids: Sequence[str], *, payloads: bool) -> dict[str, Inspection]:
    """Return these jobs, in any state, with their leases and notes, by id."""
    rows = (space.rows.get(job_id) for job_id in dict.fromkeys(job_ids))
    return {row.job.id: _inspect(row, payloads=payloads) for row in rows if row is not None}


def _inspect(row: Row, *, payloads: bool) -> Inspection:
    note = row.note if payloads or row.note is None else Note()
    return Inspection(
        job=row.job if payloads else replace(row.job, payload=b"", result=None),
        available_at=row.available_at,
        worker=row.worker,
        fence=row.fence,
        reserved_at=row.reserved_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        cancel_requested=row.cancel_requested,
        note=None if note is None else replace(note, started_at=row.started_at),
        arrival=row.seq,
    )


def find(space: Space, where: JobFilter, *, limit: int, after: str | None, newest: bool) -> Page[JobRecord]:
    """Return a page of the jobs that match, ordered by id."""
    is_beyond = operator.lt if newest else operator.gt
    jobs = (row.job for row in space.rows.values())
    matching = sorted(
        (job for job in jobs if _matches(job, where) and (after is None or is_beyond(job.id, after))),
        key=lambda job: job.id,
        reverse=newest,
    )
    page: list[JobRecord] = []
    size = 0
    for job in matching[:limit]:
        page.append(job)
        size += len(job.payload) + len(job.result or b"")
        if size >= FIND_BYTES:
            break
    return Page(page, page[-1].id if len(matching) > len(page) else None)


def _matches(job: JobRecord, where: JobFilter) -> bool:
    exact = (
        (where.queue, job.queue),
        (where.type, job.type),
        (where.domain, job.domain),
        (where.name, job.name),
        (where.idempotency_key, job.idempotency_key),
        (where.reason, job.dead_reason),
    )
    return (
        all(wanted is None or wanted == value for wanted, value in exact)
        and (where.states is None or job.state in where.states)
        and (where.created_from is None or job.created_at >= where.created_from)
        and (where.created_before is None or job.created_at < where.created_before)
    )


def any_open(space: Space, queues: Collection[str], types: Collection[str]) -> bool:
    """Whether a job of these types is ready, scheduled or in flight in these queues."""
    jobs = (row.job for row in space.rows.values())
    return any(not job.state.has_ended and job.queue in queues and job.type in types for job in jobs)


def counts(space: Space, queues: Sequence[str] | None, states: Collection[State], now: int) -> list[QueueCounts]:
    """Return one row per queue and type that has jobs, ordered by both."""
    counted: dict[tuple[str, str], dict[str, Any]] = {}
    for row in space.rows.values():
        job = row.job
        if job.state in states and (queues is None or job.queue in queues):
            is_scheduled = job.state is State.READY and row.available_at > now
            word = "scheduled" if is_scheduled else job.state.value
            tally = counted.setdefault((job.queue, job.type), {})
            tally[word] = tally.get(word, 0) + 1
            if word == State.READY:
                tally["oldest_ready_age"] = max(tally.get("oldest_ready_age", 0), now - row.available_at)
    return [QueueCounts(queue=queue, type=type_, **tally) for (queue, type_), tally in sorted(counted.items())]


# Changing jobs ----------------------------------------------------------------------------------------------------


def requeue_one(space: Space, job_id: str, now: int) -> bool:
    """Make a dead or cancelled job ready again; return whether it was one."""
    row = space.rows.get(job_id)
    if row is None or row.job.state not in (State.DEAD, State.CANCELLED):
        return False
    return space.requeue(row, now)


def cancel_one(space: Space, job_id: str, now: int) -> State | None:
    """Cancel a ready job, or request the cancellation of a running one; return the state after it."""
    row = space.rows.get(job_id)
    if row is None:
        return None
    if row.job.state is State.READY:
        space.cancel(row, now)
    elif row.job.state is State.INFLIGHT:
        row.cancel_requested = True
    return row.job.state


def is_cancel_requested(space: Space, job_ids: Collection[str]) -> bool:
    """Whether a cancel was requested for one of these jobs, and the job is in flight."""
    rows = (space.rows.get(job_id) for job_id in job_ids)
    return any(row is not None and row.cancel_requested and row.job.state is State.INFLIGHT for row in rows)


def purge(space: Space, job_ids: Sequence[str], cursors: Collection[str | None], now: int) -> list[bool]:
    """Remove ended jobs, each with a ``purged`` ledger row. ``cursors`` are those of the readers of the ledger."""
    unread = {row.job_id for row in space.ledger.unread(cursors)}
    return [_purge_one(space, job_id, unread, now) for job_id in job_ids]


def _purge_one(space: Space, job_id: str, unread: Collection[str], now: int) -> bool:
    row = space.rows.get(job_id)
    if row is None or not row.job.state.has_ended or job_id in unread:
        return False
    space.purge(row, now)
    return True


# Retention --------------------------------------------------------------------------------------------------------


def trim(space: Space, keep: Retention, cursors: Collection[str | None], *, limit: int, now: int) -> Trimmed:
    """Remove old rows: done and cancelled jobs, ledger rows, idempotency keys and registry entries.

    ``cursors`` are those of the readers of the ledger.
    """
    unread = space.ledger.unread(cursors)
    before = now - keep.ended_for
    if cursors:
        before = min(before, unread_since(unread[0].ended_at if unread else None, now) - 1)
    jobs = [row.job.id for row in space.rows.values() if _may_be_trimmed(row, before)][:limit]
    for job_id in jobs:
        space.remove(space.rows[job_id])
    ledger = space.ledger.trim(now - keep.ledger_for, min(limit, len(space.ledger.rows) - len(unread)))
    keys = [  # a job that is open needs its key, and so does one that may be requeued: a done job never is
        place
        for place, key in space.keys.items()
        if is_expired(key.until, now) and ((row := space.rows.get(key.job_id)) is None or row.job.state is State.DONE)
    ][:limit]
    for place in keys:
        del space.keys[place]
    registry = space.registry.trim(now, limit)
    space.forget_idle_keys(now)
    removed = (len(jobs), ledger, len(keys), registry)
    return Trimmed(jobs=len(jobs), ledger=ledger, dedupe=len(keys), registry=registry, more=limit in removed)


def _may_be_trimmed(row: Row, before: int) -> bool:
    """Whether a job ended long enough ago and is not a dead letter: only ``purge`` removes dead letters."""
    return row.ended_at is not None and row.ended_at <= before and row.job.state in (State.DONE, State.CANCELLED)
