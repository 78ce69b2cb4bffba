"""A domain of a queue as an operator sees it, and what the operator can do with one that has stopped."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DomainStatus(StrEnum):
    """What a domain does now."""

    OPEN = "open"  # its first job is due, or it has no job
    RUNNING = "running"  # a job is in flight
    BACKOFF = "backoff"  # its first job is not due yet: a retry, or a later ``run_at``
    WAITING = "waiting"  # its first job is behind a gap, and the queue waits for the missing offset
    HALTED = "halted"  # a job of it failed for good, and the queue halts its domains on that


class ResumeAction(StrEnum):
    """How a halted domain goes on."""

    RESUME = "resume"  # with the jobs that it has: somebody has looked after the dead one, or nobody will
    SKIP = "skip"  # the dead job stays dead, and the next job runs; for the store the same as RESUME
    RETRY = "retry"  # the dead job runs next, at its old place and with all its attempts


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainInfo:
    """One domain of a queue."""

    queue: str
    domain: str
    status: DomainStatus
    position: int  # the smallest offset, from the start of the domain, that has not ended
    open: int  # jobs that are ready or in flight
    waits_for: int | None = None  # the missing offset, of a waiting domain
    waiting_since: int | None = None  # when ``reserve``, or the end of a job, found the gap; None: not yet
    halted_by: str | None = None  # the id of the dead job
    halted_at: int | None = None
    head_id: str | None = None  # the job in flight, else the first open job; None: no open job
    head_offset: int | None = None
    is_overdue: bool = False  # waiting for at least ``gap_report_after``
