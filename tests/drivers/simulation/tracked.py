"""What the checker remembers of a job and of a lease."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease
from holdfast.model.ledger import LedgerRow


@dataclass(slots=True)
class TrackedLease:
    """One lease, from its reservation to its ledger row."""

    job: JobRecord
    lease: Lease
    worker: str
    reserved_at: int
    expires_at: int
    row: LedgerRow | None = None
    verb: str | None = None  # the verb of the settlement that ended the lease
    cancel_requested: bool = False
    is_prefetched: bool = False
    has_started: bool = False  # a note of extend said so

    @property
    def has_begun(self) -> bool:
        """Whether the expiry of this lease counts as an attempt (L7)."""
        return not self.is_prefetched or self.has_started

    @property
    def valid_until(self) -> int:
        """The instant at which the lease stopped being valid."""
        return self.expires_at if self.row is None else min(self.row.ended_at, self.expires_at)


@dataclass(slots=True)
class TrackedJob:
    """One accepted job."""

    record: JobRecord
    state: State | None = State.READY  # None: purged or trimmed
    ended_at: int = 0
    last_lease: TrackedLease | None = None
    was_requeued: bool = False
    attempts: int = 0
    crashes: int = 0
    is_suspect: bool = False
    counted_crash: int | None = None  # the fence of the last lease, if its expiry counted a crash

    @property
    def is_open(self) -> bool:
        """Whether the job exists and has not ended."""
        return self.state is not None and not self.state.has_ended

    @property
    def must_run_alone(self) -> bool:
        """Whether the job is isolated at its next reservation (L7)."""
        return self.is_suspect or self.crashes > 0

    @property
    def is_exhausted(self) -> bool:
        """Whether an attempt that counts was the last one, by the limit of attempts or of crashes."""
        max_crashes = self.record.max_crashes
        return self.attempts >= self.record.max_attempts or (max_crashes is not None and self.crashes >= max_crashes)
