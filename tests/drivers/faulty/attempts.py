"""Faulty drivers: attempts, crashes and the release budget."""

# ruff: noqa: ARG002 - an override keeps the arguments that it does not use

from __future__ import annotations

from msgspec.structs import replace

from holdfast.drivers.memory.rows import Row
from holdfast.drivers.memory.space import Space
from holdfast.errors import LeaseError, StoreUnavailable
from holdfast.model.bounds import MAX_COUNT
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.settlement import Retry, Settlement
from holdfast.model.transition import ATTEMPTS_EXHAUSTED, POISON, Transition
from tests.drivers.faulty.faulty_driver import FaultyDriver, FaultySpace


class _AttemptNotCountedSpace(FaultySpace):
    def lease(self, row: Row, lease: Lease, worker: str, now: int, *, prefetched: bool) -> None:
        attempts = row.job.attempts
        super().lease(row, lease, worker, now, prefetched=prefetched)
        row.job = replace(row.job, attempts=attempts)


class AttemptNotCounted(FaultyDriver):
    """A reservation counts no attempt: a job that kills its worker runs forever."""

    space_type = _AttemptNotCountedSpace


class ExpiryRefundsAttempt(FaultyDriver):
    """An expired lease refunds its attempt."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Count one attempt fewer after an expiry."""
        return transition._replace(attempts=row.job.attempts - 1) if verb == "expired" else transition


class OneAttemptTooMany(FaultyDriver):
    """``max_attempts`` is used as the number of retries."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep the job ready once where it should be dead."""
        if transition.dead_reason == ATTEMPTS_EXHAUSTED and row.job.attempts == row.job.max_attempts:
            return transition._replace(state=State.READY, dead_reason=None, dead_at=None, available_at=now)
        return transition


class OneAttemptTooFew(FaultyDriver):
    """The last attempt is never used."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Make the job dead while one attempt is left."""
        if verb == "retry" and row.job.attempts == row.job.max_attempts - 1:
            return transition._replace(state=State.DEAD, dead_reason=ATTEMPTS_EXHAUSTED, dead_at=now)
        return transition


class RetriesWithoutLimit(FaultyDriver):
    """``max_attempts`` is ignored when an attempt fails."""

    def _settle(self, space: Space, settlement: Settlement, now: int) -> LeaseError | None:
        row = space.rows.get(settlement.lease.job_id)
        if isinstance(settlement, Retry) and row is not None and row.job.attempts >= row.job.max_attempts:
            row.job = replace(row.job, max_attempts=row.job.attempts + 1)
        return super()._settle(space, settlement, now)


class CrashedRetryNotCounted(FaultyDriver):
    """A retry marked as crashed does not count as a crash."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set the crashes to 0 after a retry."""
        return transition._replace(crashes=0) if verb == "retry" else transition


class RetryKeepsCrashes(FaultyDriver):
    """A retry does not reset the crashes in a row."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep the crashes."""
        return transition._replace(crashes=row.job.crashes) if verb == "retry" else transition


class ReleaseResetsCrashes(FaultyDriver):
    """A release resets the crashes in a row."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set the crashes to 0 after a release."""
        return transition._replace(crashes=0) if verb == "release" else transition


class CrashesOverflow(FaultyDriver):
    """The counter of crashes has 32 bits and fails the whole call when it overflows."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Fail as a 32-bit column does."""
        if transition.crashes and row.job.crashes == MAX_COUNT:
            raise StoreUnavailable("integer out of range")
        return transition


class CrashesStartAgain(FaultyDriver):
    """The counter of crashes starts again at 0 when it is full."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Set the crashes to 0 after the last number."""
        return transition._replace(crashes=0) if row.job.crashes == MAX_COUNT else transition


class MaxCrashesIgnored(FaultyDriver):
    """``max_crashes`` is ignored."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep the job ready where it should be dead."""
        if transition.dead_reason == POISON:
            return transition._replace(state=State.READY, dead_reason=None, dead_at=None, available_at=now)
        return transition


class ReleaseCountsAttempt(FaultyDriver):
    """A release does not refund the attempt."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Keep the attempts."""
        return transition._replace(attempts=row.job.attempts) if verb == "release" else transition


class ReleaseBudgetResets(FaultyDriver):
    """The release budget starts again with each release."""

    def alter_transition(self, row: Row, transition: Transition, verb: str, now: int) -> Transition:
        """Forget the time that was spent."""
        return transition._replace(released_for=0)


class _RequeueKeepsAttemptsSpace(FaultySpace):
    def requeue(self, row: Row, now: int) -> bool:
        attempts = row.job.attempts
        is_requeued = super().requeue(row, now)
        requeued = self.rows[row.job.id]
        requeued.job = replace(requeued.job, attempts=attempts)
        return is_requeued


class RequeueKeepsAttempts(FaultyDriver):
    """A requeued job keeps its old attempts."""

    space_type = _RequeueKeepsAttemptsSpace


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    AttemptNotCounted,
    ExpiryRefundsAttempt,
    OneAttemptTooMany,
    OneAttemptTooFew,
    RetriesWithoutLimit,
    CrashedRetryNotCounted,
    RetryKeepsCrashes,
    ReleaseResetsCrashes,
    CrashesOverflow,
    CrashesStartAgain,
    MaxCrashesIgnored,
    ReleaseCountsAttempt,
    ReleaseBudgetResets,
    RequeueKeepsAttempts,
)
