"""When a call with a lease is refused, and how a job changes when its lease ends: the same rules for every driver."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from msgspec.structs import replace

from holdfast.errors import JobNotInflight, LeaseError, LeaseExpired, LeaseMismatch
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, is_expired
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement

LEASE_EXPIRED = "lease expired"
POISON = "poison"
ATTEMPTS_EXHAUSTED = "attempts exhausted"
RELEASED_TOO_LONG = "released too long"
UNREADABLE = "unreadable"

NOT_BEGUN = "not begun"  # the detail of an expiry that costs nothing
OUTAGE = "outage of the store"  # the detail of an expiry that is not a crash

# The last verb of a job whose lease expired. No settlement has one of these, so none is a repeat of a reap.
EXPIRED_VERB = "expired"  # a crash was counted
UNCOUNTED_VERB = "expired uncounted"  # no crash was counted, or it was taken back


class HeldJob(NamedTuple):
    """The stored values that decide about a call with a lease. Positional, because drivers build it from a row."""

    state: str
    token: str | None
    expires_at: int | None
    reserved_at: int | None
    available_at: int
    run_at: int | None
    attempts: int
    max_attempts: int
    crashes: int
    max_crashes: int | None
    released_for: int
    cancel_requested: bool
    last_verb: str | None
    last_token: str | None
    last_error: str
    failed_at: int | None
    started_at: int | None = None
    prefetched: bool = False
    suspect: bool = False


class Transition(NamedTuple):
    """The new values of a job's row when its lease ends, and those of its ledger row. Drivers store it as a row."""

    ending: Ending
    state: State
    attempts: int
    crashes: int
    run_at: int | None
    available_at: int
    last_error: str
    failed_at: int | None
    released_for: int = 0
    dead_reason: str | None = None
    dead_at: int | None = None
    result: bytes | None = None
    detail: str = ""
    error: str = ""  # of this attempt, for the ledger
    suspect: bool = False

    def apply(self, job: JobRecord) -> JobRecord:
        """Return the record after its lease has ended."""
        return replace(
            job,
            state=self.state,
            attempts=self.attempts,
            crashes=self.crashes,
            run_at=self.run_at,
            last_error=self.last_error,
            failed_at=self.failed_at,
            dead_reason=self.dead_reason,
            dead_at=self.dead_at,
            result=self.result,
        )


def refusal(held: HeldJob | None, lease: Lease, now: int) -> LeaseError | None:
    """Return why a call with this lease is refused; None if it is valid.

    Checked in this order: the job is in flight, the token is equal, the lease has not expired (L5).
    """
    if held is None or held.state != State.INFLIGHT:
        return JobNotInflight(lease.job_id, None if held is None else held.state)
    if held.token != lease.token:
        return LeaseMismatch(lease.job_id)
    assert held.expires_at is not None
    if is_expired(held.expires_at, now):
        return LeaseExpired(lease.job_id, expires_at=held.expires_at, now=now)
    return None


def is_repeat(held: HeldJob | None, settlement: Settlement) -> bool:
    """Whether exactly this settlement ended the last lease of the job, and the job is not leased again (L6)."""
    return (
        held is not None
        and held.state != State.INFLIGHT
        and held.last_verb == settlement.verb
        and held.last_token == settlement.lease.token
    )


def after_settlement(held: HeldJob, settlement: Settlement, now: int) -> Transition:
    """Return the transition of a job that is validly settled."""
    match settlement:
        case Ack():
            return _acked(held, settlement)
        case Retry():
            return _cancelled(held, settlement, now) or _retried(held, settlement, now)
        case Fail():
            return _cancelled(held, settlement, now) or _failed(
                held, settlement.reason, settlement.error, settlement.detail, now
            )
        case Release():
            return _cancelled(held, settlement, now) or _released(held, settlement, now)
        case _:
            assert_never(settlement)


def _acked(held: HeldJob, ack: Ack) -> Transition:
    return Transition(
        ending=Ending.ACKED,
        state=State.DONE,
        attempts=held.attempts,
        crashes=held.crashes,
        run_at=held.run_at,
        available_at=held.available_at,
        last_error=held.last_error,
        failed_at=held.failed_at,
        result=ack.result,
        detail=ack.detail,
    )


def _retried(held: HeldJob, retry: Retry, now: int) -> Transition:
    """A failed attempt. Reserve has counted it. If its process survived, the consecutive crashes end here."""
    crashes = _count_crash(held) if retry.crashed else 0
    reason = _dead_reason(held, crashes, when_exhausted=ATTEMPTS_EXHAUSTED)
    is_dead = reason is not None
    run_at = retry.run_at if retry.run_at is not None else (now + retry.delay if retry.delay else None)
    return Transition(
        ending=Ending.RETRIED,
        state=State.DEAD if is_dead else State.READY,
        attempts=held.attempts,
        crashes=crashes,
        run_at=held.run_at if is_dead else run_at,
        available_at=held.available_at if is_dead else (now if run_at is None else run_at),
        last_error=retry.error,
        failed_at=now,
        dead_reason=reason,
        dead_at=now if is_dead else None,
        detail=retry.detail,
        error=retry.error,
    )


def _count_crash(held: HeldJob) -> int:
    """Return the crashes with one more. The counter saturates: a count that no store can hold would fail a batch."""
    return min(held.crashes + 1, bounds.MAX_COUNT)


def _refund(held: HeldJob) -> int:
    """Return the attempts with one less; 0 stays 0: a row that was changed by hand must not fail a batch."""
    return max(0, held.attempts - 1)


def _dead_reason(held: HeldJob, crashes: int, *, when_exhausted: str) -> str | None:
    """Return why the job is dead: no attempts are left, or it crashed too often in a row. None if it runs again."""
    if held.attempts >= held.max_attempts:
        return when_exhausted
    return POISON if held.max_crashes is not None and crashes >= held.max_crashes else None


def after_failed_read(held: HeldJob, problem: str, now: int) -> Transition:
    """Return the transition of a job that was leased and cannot be read: a dead letter (L9)."""
    return _failed(held, UNREADABLE, bounds.truncate_text(problem), "", now)


def _failed(held: HeldJob, reason: str, error: str, detail: str, now: int) -> Transition:
    return Transition(
        ending=Ending.FAILED,
        state=State.DEAD,
        attempts=held.attempts,
        crashes=held.crashes,
        run_at=held.run_at,
        available_at=held.available_at,
        last_error=error,
        failed_at=now,
        dead_reason=reason,
        dead_at=now,
        detail=detail,
        error=error,
    )


def _released(held: HeldJob, release: Release, now: int) -> Transition:
    """The attempt is refunded, and the job keeps its position in the lane; dead if the budget is exceeded (L8)."""
    assert held.reserved_at is not None
    released_for = min(held.released_for + release.delay + max(0, now - held.reserved_at), bounds.MAX_INSTANT)
    over_budget = released_for > release.budget
    return Transition(
        ending=Ending.RELEASED,
        state=State.DEAD if over_budget else State.READY,
        attempts=_refund(held),
        crashes=held.crashes,
        run_at=now + release.delay if release.delay else held.run_at,
        available_at=now + release.delay if release.delay else held.available_at,
        released_for=released_for,
        last_error=held.last_error,
        failed_at=held.failed_at,
        dead_reason=RELEASED_TOO_LONG if over_budget else None,
        dead_at=now if over_budget else None,
        detail=release.detail,
        suspect=held.suspect,
    )


def _cancelled(held: HeldJob, settlement: Retry | Fail | Release, now: int) -> Transition | None:
    """If cancellation was requested, every settlement except an ack cancels the job."""
    if not held.cancel_requested:
        return None
    error = "" if isinstance(settlement, Release) else settlement.error
    return Transition(
        ending=Ending.CANCELLED,
        state=State.CANCELLED,
        attempts=_refund(held) if isinstance(settlement, Release) else held.attempts,
        crashes=held.crashes,
        run_at=held.run_at,
        available_at=held.available_at,
        last_error=error or held.last_error,
        failed_at=now if error else held.failed_at,
        detail=settlement.detail or f"cancelled at {settlement.verb}",
        error=error,
    )


def has_begun(held: HeldJob) -> bool:
    """Whether the attempt of a leased job counts as begun: it was not prefetched, or a note said when it started."""
    return not held.prefetched or held.started_at is not None


def after_expiry(held: HeldJob, now: int, *, in_outage: bool = False) -> Transition:
    """Return the transition of a job whose lease expired: ready at once, dead or cancelled (L7).

    If the job had begun, the attempt and a crash are counted; after an outage of the store the attempt only. If it had
    not begun, nothing is counted and the job is a suspect. If the worker is known to be dead, ``now`` may be earlier
    than ``expires_at``: then the lease ends now.
    """
    assert held.expires_at is not None
    begun = has_begun(held)
    crashes = _count_crash(held) if begun and not in_outage else held.crashes
    reason = _dead_reason(held, crashes, when_exhausted=LEASE_EXPIRED) if begun and not held.cancel_requested else None
    state = State.DEAD if reason else State.CANCELLED if held.cancel_requested else State.READY
    return Transition(
        ending=Ending.CANCELLED if state is State.CANCELLED else Ending.EXPIRED,
        state=state,
        attempts=held.attempts if begun else _refund(held),
        crashes=crashes,
        run_at=None if state is State.READY else held.run_at,
        available_at=min(held.expires_at, now) if state is State.READY else held.available_at,
        last_error=held.last_error,
        failed_at=held.failed_at,
        dead_reason=reason,
        dead_at=now if state is State.DEAD else None,
        detail=LEASE_EXPIRED if state is State.CANCELLED else _expiry_detail(begun=begun, in_outage=in_outage),
        suspect=not begun,
    )


def _expiry_detail(*, begun: bool, in_outage: bool) -> str:
    if not begun:
        return NOT_BEGUN
    return OUTAGE if in_outage else ""


def expiry_verb(held: HeldJob, *, in_outage: bool = False) -> str:
    """Return the last verb of a job whose lease expired: whether a crash was counted."""
    return EXPIRED_VERB if has_begun(held) and not in_outage else UNCOUNTED_VERB


def has_counted_crash(held: HeldJob, lease: Lease) -> bool:
    """Whether the last lease of a job that has not ended was this one, and its expiry is counted as a crash.

    A requeued job keeps its last token, but its crashes were set to zero.
    """
    return (
        held.crashes > 0
        and held.last_verb == EXPIRED_VERB
        and held.last_token == lease.token
        and not State(held.state).has_ended
    )
