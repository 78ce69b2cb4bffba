"""Settle: repetition, and the effect of each verb (L5 to L9)."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from holdfast.errors import LeaseError, WriteRefused
from holdfast.model.bounds import MAX_COUNT
from holdfast.model.job import State
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from tests.drivers.oracle.extend import leased_job
from tests.drivers.oracle.registry import write_all
from tests.drivers.oracle.state import OracleJob, OracleState, mark_dead


def settle_one(state: OracleState, settlement: Settlement, now: int) -> LeaseError | None:
    """Apply the settlement; return None, or the error that refuses it."""
    known = state.jobs.get(settlement.lease.job_id)
    is_repeat = known is not None and known.last_settlement == (settlement.verb, settlement.lease.token)
    if known is not None and is_repeat and known.state is not State.INFLIGHT:  # L6
        return None
    job = leased_job(state, settlement.lease, now)
    if isinstance(job, LeaseError):
        return job
    if isinstance(settlement, Ack):
        return _ack(state, job, settlement, now)
    if isinstance(settlement, Retry) and settlement.hold_key and job.record.limit_key is not None:
        place = job.record.queue, job.record.limit_key
        ends_at = now + settlement.delay if settlement.run_at is None else settlement.run_at
        state.key_holds[place] = max(ends_at, state.key_holds.get(place, ends_at))
    if job.cancel_requested:
        _cancel(state, job, settlement, now)
        return None
    match settlement:
        case Retry():
            _retry(state, job, settlement, now)
        case Fail():
            _fail(state, job, settlement, now)
        case Release():
            _release(state, job, settlement, now)
        case _:
            assert_never(settlement)
    return None


def _ack(state: OracleState, job: OracleJob, ack: Ack, now: int) -> WriteRefused | None:
    refused = write_all(state, job.record.id, ack.writes, now)
    if refused is not None:
        return refused
    state.end(job, Ending.ACKED, State.DONE, now, by=ack)
    job.record = replace(job.record, result=ack.result)
    return None


def _retry(state: OracleState, job: OracleJob, retry: Retry, now: int) -> None:
    is_exhausted = job.record.attempts >= job.record.max_attempts
    crashes = min(job.record.crashes + 1, MAX_COUNT) if retry.crashed else 0
    is_poison = job.record.max_crashes is not None and crashes >= job.record.max_crashes
    next_state = State.DEAD if is_exhausted or is_poison else State.READY
    state.end(job, Ending.RETRIED, next_state, now, by=retry, error=retry.error)
    job.record = replace(job.record, crashes=crashes, last_error=retry.error, failed_at=now)
    if is_exhausted or is_poison:
        mark_dead(job, "attempts exhausted" if is_exhausted else "poison", now)
    else:
        run_at = now + retry.delay if retry.delay else retry.run_at
        job.record = replace(job.record, run_at=run_at)
        job.available_at = now if run_at is None else run_at
        job.released_for = 0
        job.is_suspect = False


def _fail(state: OracleState, job: OracleJob, fail: Fail, now: int) -> None:
    state.end(job, Ending.FAILED, State.DEAD, now, by=fail, error=fail.error)
    job.record = replace(job.record, last_error=fail.error, failed_at=now)
    mark_dead(job, fail.reason, now)


def _release(state: OracleState, job: OracleJob, release: Release, now: int) -> None:
    """Refund the attempt; the delay and the time in flight are charged to the release budget (L8)."""
    assert job.reserved_at is not None
    job.released_for += now - job.reserved_at + release.delay
    is_budget_spent = job.released_for > release.budget
    state.end(job, Ending.RELEASED, State.DEAD if is_budget_spent else State.READY, now, by=release)
    job.record = replace(job.record, attempts=job.record.attempts - 1)
    if release.delay:
        job.record = replace(job.record, run_at=now + release.delay)
        job.available_at = now + release.delay
    if is_budget_spent:
        mark_dead(job, "released too long", now)


def _cancel(state: OracleState, job: OracleJob, settlement: Retry | Fail | Release, now: int) -> None:
    """End a job whose cancel was requested while it ran."""
    error = "" if isinstance(settlement, Release) else settlement.error
    detail = settlement.detail or f"cancelled at {settlement.verb}"
    state.end(job, Ending.CANCELLED, State.CANCELLED, now, by=settlement, detail=detail, error=error)
    if isinstance(settlement, Release):
        job.record = replace(job.record, attempts=job.record.attempts - 1)
    if error:
        job.record = replace(job.record, last_error=error, failed_at=now)
