"""What is stored of a job and of an idempotency key, and the counter of a space."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.job import JobRecord
from holdfast.model.lease import Note
from holdfast.model.order import Lane
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

    @property
    def lane(self) -> Lane:
        """The lane that holds the job while it is ready and has the turn of its domain."""
        return Lane(self.job.queue, self.job.type, self.job.priority)

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
        )

    def clear_lease(self) -> None:
        """Remove everything that belongs to a lease."""
        self.token = self.fence = self.expires_at = self.reserved_at = self.started_at = None
        self.worker = ""


@dataclass(slots=True)
class StoredKey:
    """The job that an idempotency key belongs to, and the end of the key's window."""

    job_id: str
    payload: bytes
    until: int


class Counter:
    """The one counter of a space: fences and registry versions come from it, so both only grow (L4)."""

    def __init__(self) -> None:
        self.last = 0

    def take(self, count: int) -> int:
        """Take ``count`` numbers and return the first."""
        first = self.last + 1
        self.last += count
        return first
