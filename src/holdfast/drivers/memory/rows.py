"""What is stored of a job and of an idempotency key, and the counter of a space."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.job import JobRecord
from holdfast.model.lease import Note
from holdfast.model.order import Lane
from holdfast.model.queue_settings import Bucket
from holdfast.model.transition import HeldJob


@dataclass(slots=True, kw_only=True)
class Row:
    """A job with its lease and everything else that is stored beside its record."""

    job: JobRecord
    seq: int
    enqueued_at: int
    available_at: int
    token: str | None = None
    fence: int | None = None
    worker: str = ""
    reserved_at: int | None = None
    started_at: int | None = None
    expires_at: int | None = None
    released_for: int = 0
    cancel_requested: bool = False
    last_verb: str | None = None
    last_token: str | None = None
    ended_at: int | None = None
    note: Note | None = None
    prefetched: bool = False
    suspect: bool = False

    @property
    def lane(self) -> Lane:
        """The lane that holds the job while it is ready and has the turn of its domain."""
        return Lane(self.job.queue, self.job.type, self.job.priority, self.isolated)

    @property
    def isolated(self) -> bool:
        """Whether the job must run alone."""
        return self.suspect or self.job.crashes > 0

    @property
    def held(self) -> HeldJob:
        """The stored values that decide about a call with a lease."""
        job = self.job
        return HeldJob(
            state=job.state,
            token=self.token,
            expires_at=self.expires_at,
            reserved_at=self.reserved_at,
            available_at=self.available_at,
            run_at=job.run_at,
            attempts=job.attempts,
            max_attempts=job.max_attempts,
            crashes=job.crashes,
            max_crashes=job.max_crashes,
            released_for=self.released_for,
            cancel_requested=self.cancel_requested,
            last_verb=self.last_verb,
            last_token=self.last_token,
            last_error=job.last_error,
            failed_at=job.failed_at,
            started_at=self.started_at,
            prefetched=self.prefetched,
            suspect=self.suspect,
        )

    def clear_lease(self) -> None:
        """Remove everything that belongs to a lease."""
        self.token = self.fence = self.expires_at = self.reserved_at = self.started_at = None
        self.worker, self.prefetched = "", False


@dataclass(slots=True)
class StoredKey:
    """The job that an idempotency key belongs to, the end of the key's window, and whether only a ready job has it."""

    job_id: str
    payload: bytes
    until: int
    while_queued: bool


@dataclass(slots=True)
class StoredLimitKey:
    """The rate bucket of a limit key, and the instant before which none of its jobs is reserved."""

    bucket: Bucket | None = None
    held_until: int | None = None


class Counter:
    """The one counter of a space: fences and registry versions come from it, so both only grow (L4)."""

    def __init__(self) -> None:
        self.last = 0

    def take(self, count: int) -> int:
        """Take ``count`` numbers and return the first."""
        first = self.last + 1
        self.last += count
        return first
