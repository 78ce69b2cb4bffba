"""Domains: whose turn it is, offsets that are known, halts and gaps (L11). Every question looks at all jobs."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from holdfast.model.bounds import MAX_OFFSET
from holdfast.model.domain import DomainInfo, DomainStatus
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Enqueued
from holdfast.model.queue_settings import Gaps, QueueSettings
from tests.drivers.oracle.state import OracleJob, OracleState, Place


def open_jobs(state: OracleState, place: Place) -> list[OracleJob]:
    """Return the open jobs of a domain in its order: by offset, then those without one by arrival."""
    jobs = [job for job in state.jobs.values() if job.place == place and not job.state.has_ended]
    return sorted(jobs, key=lambda job: (job.record.offset is None, job.record.offset or 0, job.seq))


def has_turn(state: OracleState, job: OracleJob) -> bool:
    """Whether a ready job is the one of its domain that may run."""
    if job.place is None:
        return True
    jobs = open_jobs(state, job.place)
    is_stopped = job.place in state.halts or gap_of(state, job.place) is not None
    return not is_stopped and jobs[0] is job and not _is_running(jobs)


def _is_running(jobs: Collection[OracleJob]) -> bool:
    return any(job.state is State.INFLIGHT for job in jobs)


def position_of(state: OracleState, place: Place) -> int:
    """Return the smallest offset, from the start of the domain on, that has not ended."""
    ended = state.ended_offsets.get(place, set())
    return min(next(offset for offset in count(state.starts.get(place, 0)) if offset not in ended), MAX_OFFSET)


def gap_of(state: OracleState, place: Place) -> int | None:
    """Return the missing offset that keeps a domain from running; None if nothing or something else does."""
    jobs = open_jobs(state, place)
    if _settings(state, place).gaps is Gaps.PASS or place in state.halts or not jobs or _is_running(jobs):
        return None
    offset, position = jobs[0].record.offset, position_of(state, place)
    return None if offset is None or offset <= position else position


def _settings(state: OracleState, place: Place) -> QueueSettings:
    return state.settings.get((place[0], None), QueueSettings())


def known_offset(state: OracleState, record: JobRecord) -> Enqueued | None:
    """Return the answer for an offset that is open or has ended; None if it is new."""
    if record.domain is None or record.offset is None:
        return None
    place = record.queue, record.domain
    with_offset = [job for job in state.jobs.values() if job.place == place and job.record.offset == record.offset]
    for job in with_offset:
        if not job.state.has_ended:
            return Enqueued(id=job.record.id, existed=True, conflict=job.record.payload != record.payload)
    if record.offset not in state.ended_offsets.get(place, set()):
        return None
    if not with_offset:
        return Enqueued(id=record.id, existed=True, past=True)
    last = max(with_offset, key=lambda job: job.seq).record
    return Enqueued(id=last.id, existed=True, conflict=last.payload != record.payload, past=True)


def find_gaps(state: OracleState, queues: Collection[str], now: int) -> None:
    """Do what reserve does with gaps: find those that new jobs have left, then pass those that are old enough."""
    arrived = {place for place in state.arrived if place[0] in queues}
    state.arrived -= arrived
    state.changed |= arrived
    update_waits(state, now)
    for place, (offset, since) in list(state.waits.items()):
        after = _settings(state, place).gap_pass_after
        is_old = place[0] in queues and after is not None and now >= since + after
        if is_old and gap_of(state, place) == offset:
            state.starts[place] = open_jobs(state, place)[0].record.offset or 0
            del state.waits[place]


def update_waits(state: OracleState, now: int) -> None:
    """At the end of a call: remember since when the domains that it changed wait, and for which offset."""
    for place in state.changed:
        gap = gap_of(state, place)
        if gap is None:
            state.waits.pop(place, None)
        elif place not in state.waits or state.waits[place][0] != gap:
            state.waits[place] = gap, now
    state.changed.clear()


def forget(state: OracleState, place: Place) -> bool:
    """Remove what a domain without open jobs remembers; return whether there was something."""
    memory = (state.ended_offsets.get(place), state.starts.get(place), state.halts.get(place))
    if open_jobs(state, place) or not any(memory):
        return False
    for table in (state.ended_offsets, state.starts, state.halts):
        table.pop(place, None)
    return True


def list_domains(state: OracleState, now: int) -> list[DomainInfo]:
    """Return all domains that have an open job or are halted."""
    places = {job.place for job in state.jobs.values() if job.place is not None and not job.state.has_ended}
    return [describe(state, place, now) for place in sorted(places | state.halts.keys())]


def describe(state: OracleState, place: Place, now: int) -> DomainInfo:
    """Return a domain with its status."""
    jobs, gap = open_jobs(state, place), gap_of(state, place)
    head = next((job for job in jobs if job.state is State.INFLIGHT), jobs[0] if jobs else None)
    halted_by, halted_at = state.halts.get(place, (None, None))
    waits_for, since = state.waits.get(place, (None, None))
    waiting_since = since if gap is not None and waits_for == gap else None
    report_after = _settings(state, place).gap_report_after
    return DomainInfo(
        queue=place[0],
        domain=place[1],
        status=_status(head, is_halted=halted_by is not None, is_waiting=gap is not None, now=now),
        position=position_of(state, place),
        open=len(jobs),
        waits_for=gap,
        waiting_since=waiting_since,
        halted_by=halted_by,
        halted_at=halted_at,
        head_id=None if head is None else head.record.id,
        head_offset=None if head is None else head.record.offset,
        is_overdue=waiting_since is not None and report_after is not None and now - waiting_since >= report_after,
    )


def _status(head: OracleJob | None, *, is_halted: bool, is_waiting: bool, now: int) -> DomainStatus:
    if is_halted:
        return DomainStatus.HALTED
    if head is not None and head.state is State.INFLIGHT:
        return DomainStatus.RUNNING
    if is_waiting:
        return DomainStatus.WAITING
    return DomainStatus.BACKOFF if head is not None and head.available_at > now else DomainStatus.OPEN
