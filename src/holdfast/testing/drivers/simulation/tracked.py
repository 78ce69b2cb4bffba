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

    @property
    def is_open(self) -> bool:
        """Whether the job exists and has not ended."""
        return self.state is not None and not self.state.has_ended
