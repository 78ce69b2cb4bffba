"""The calls of operators: cancel, requeue, resume, purge, trim and counts (L9)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.drivers.answers import QueueCounts, Trimmed
from holdfast.model.domain import ResumeAction
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.queue_settings import QueueSettings
from tests.drivers.oracle.registry import is_expired
from tests.drivers.oracle.state import OracleJob, OracleState, Place


def cancel_one(state: OracleState, job_id: str, now: int) -> State | None:
    """End a ready job, or request that a running job stops; return the state."""
    job = state.jobs.get(job_id)
    if job is not None and job.state is State.READY:
        state.end(job, Ending.CANCELLED, State.CANCELLED, now)
    elif job is not None and job.state is State.INFLIGHT:
        job.cancel_requested = True
    return None if job is None else job.state


def requeue_one(state: OracleState, job_id: str, now: int) -> bool:
    """Add a dead or cancelled job again, behind all others; one that halted its domain at its old place."""
    old = state.jobs.get(job_id)
    if old is None or old.state not in (State.DEAD, State.CANCELLED):
        return False
    if old.place is not None and _is_offset_open(state, old):
        return False
    halted_by, _ = (None, None) if old.place is None else state.halts.get(old.place, (None, None))
    if old.place is not None and halted_by == job_id:
        del state.halts[old.place]
    state.end(old, Ending.REQUEUED, State.READY, now)
    record = replace(old.record, attempts=0, crashes=0, run_at=None, dead_reason=None, dead_at=None)
    seq = old.seq if halted_by == job_id else None
    job = state.add(record, enqueued_at=old.enqueued_at, available_at=now, seq=seq)
    job.last_settlement, job.progress, job.checkpoint = old.last_settlement, old.progress, old.checkpoint
    return True


def _is_offset_open(state: OracleState, old: OracleJob) -> bool:
    """Whether an open job has the offset of an ended one: its domain was forgotten in between."""
    offset = old.record.offset
    return offset is not None and any(
        job.place == old.place and job.record.offset == offset and not job.state.has_ended
        for job in state.jobs.values()
    )


def resume(state: OracleState, place: Place, action: ResumeAction, position: int | None, now: int) -> bool:
    """End the halt of a domain and move its start; return whether either changed."""
    is_moved = position is not None and position != state.starts.get(place, 0)
    if position is not None:
        state.starts[place] = position
    halted_by, _ = state.halts.get(place, (None, None))
    if halted_by is not None and not (action is ResumeAction.RETRY and requeue_one(state, halted_by, now)):
        del state.halts[place]
    state.changed.add(place)
    return is_moved or halted_by is not None


def purge_one(state: OracleState, job_id: str, now: int) -> bool:
    """Remove an ended job, but not its ledger rows; return whether it was removed."""
    job = state.jobs.get(job_id)
    if job is None or not job.state.has_ended:
        return False
    state.end(job, Ending.PURGED, None, now)
    del state.jobs[job_id]
    if job.place is not None and state.halts.get(job.place, (None, 0))[0] == job_id:
        del state.halts[job.place]
        state.changed.add(job.place)
    return True


def trim(state: OracleState, *, ended_for: int, ledger_for: int, now: int) -> Trimmed:
    """Remove everything that is old enough, except dead letters."""
    job_ids = [
        job.record.id
        for job in state.jobs.values()
        if job.state in (State.DONE, State.CANCELLED) and job.ended_at is not None and now - job.ended_at >= ended_for
    ]
    for job_id in job_ids:
        del state.jobs[job_id]
    rows = len([row for row in state.ledger if now - row.ended_at >= ledger_for])
    del state.ledger[:rows]  # rows are in the order of time, so the old rows are the first
    state.trimmed_rows += rows
    requeueable = {job.record.id for job in state.jobs.values() if job.state is not State.DONE}
    keys = [
        name for name, key in state.keys.items() if not state.is_key_taken(key, now) and key.job_id not in requeueable
    ]
    for name in keys:
        del state.keys[name]
    unlimited = [
        place for place in state.key_buckets if state.settings.get((place[0], None), QueueSettings()).key_rate is None
    ]
    for place in unlimited:
        del state.key_buckets[place]
    entries = [name for name, entry in state.registry.items() if is_expired(entry, now)]
    for name in entries:
        del state.registry[name]
    return Trimmed(jobs=len(job_ids), ledger=rows, dedupe=len(keys), registry=len(entries))


def count_jobs(state: OracleState, now: int) -> list[QueueCounts]:
    """Return how many jobs of each queue and type are in each state, and how old the oldest ready one is."""
    words: dict[tuple[str, str], list[str]] = {}
    ages: dict[tuple[str, str], list[int]] = {}
    for job in state.jobs.values():
        is_scheduled = job.state is State.READY and job.available_at > now
        word = "scheduled" if is_scheduled else job.state.value
        name = job.record.queue, job.record.type
        words.setdefault(name, []).append(word)
        if word == State.READY:
            ages.setdefault(name, []).append(now - job.available_at)
    return [
        QueueCounts(
            queue=name[0], type=name[1], oldest_ready_age=max(ages.get(name, ()), default=None), **_tally(states)
        )
        for name, states in sorted(words.items())
    ]


def _tally(words: list[str]) -> dict[str, Any]:
    return {word: words.count(word) for word in words}
