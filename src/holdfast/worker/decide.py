"""From the outcome of an attempt to its settlement. Pure: the random number is an argument, nothing is looked up.

| outcome | settlement | attempt | then |
|---|---|---|---|
| ``Succeeded`` | ack | counted | done |
| ``Skipped`` | ack, without a result | counted | done |
| ``Failed``, ``TimedOut``, ``OutOfCpu`` | retry, after the policy's delay | counted | ready; dead if none is left |
| ``Crashed`` | the same, marked as a crash | counted | the same; dead after ``max_crashes`` in a row |
| ``RetryRequested`` | retry, after the requested delay | counted | the same |
| ``Unrecovered``, ``BadPayload``, ``BadSignature`` | fail | counted | dead |
| ``Cancelled`` | fail | counted | cancelled, because the store knows the request |
| ``Snoozed``, ``Interrupted``, ``UnknownType`` | release | refunded | ready; dead if the budget is spent |

The failure of the last attempt is a retry, too: the store counts attempts, and makes the job a dead letter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, TypeAlias, assert_never

from holdfast.clock import DAY, HOUR, SECOND, to_timedelta
from holdfast.model import bounds, duration
from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease
from holdfast.model.retry import DEFAULT, RetryPolicy
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.worker.outcome import (
    BadPayload,
    BadSignature,
    Cancelled,
    Crashed,
    Failed,
    Interrupted,
    Outcome,
    OutOfCpu,
    RetryRequested,
    Skipped,
    Snoozed,
    Succeeded,
    TimedOut,
    UnknownType,
    Unrecovered,
    error_text,
)

BAD_PAYLOAD = "bad payload"
BAD_SIGNATURE = "bad signature"
CANCELLED = "cancelled"
UNRECOVERABLE = "unrecoverable"
SKIPPED = "skipped: "  # begins the detail of the settlement
TIMED_OUT = "timed out"  # the detail of the settlement
UNKNOWN_TYPE_DELAY = 10 * SECOND  # long enough not to spin, short enough for the next worker of a rolling deploy
UNKNOWN_TYPE_BUDGET = HOUR
INTERRUPTED_BUDGET = 30 * DAY  # the time under a lease counts, and a job of many hours may see many deploys

_Failure: TypeAlias = Failed | TimedOut | OutOfCpu | Crashed | RetryRequested


def decide(
    job: JobRecord,
    lease: Lease,
    outcome: Outcome,
    policy: RetryPolicy,
    *,
    random: float,
    started_at: int | None = None,
) -> Settlement:
    """Return the settlement of an attempt. Never raises: a failing policy is replaced by the default, and reported."""
    match outcome:
        case Succeeded():
            return ack(lease, outcome, started_at)
        case Skipped():
            return Ack(lease, detail=f"{SKIPPED}{outcome.reason}", started_at=started_at)
        case Failed() | TimedOut() | OutOfCpu() | Crashed() | RetryRequested():
            delay = _delay(job, outcome, policy, random)
            error, detail = _describe(outcome)
            error = f"{error}\n{delay.policy_error}" if delay.policy_error else error
            flags = {"crashed": isinstance(outcome, Crashed), "hold_key": _holds_key(job, outcome)}
            return Retry(lease, delay=delay.micros, error=error, started_at=started_at, detail=detail, **flags)
        case Unrecovered() | BadPayload() | BadSignature() | Cancelled():
            return Fail(lease, reason=_reason(outcome), error=outcome.error, started_at=started_at)
        case Snoozed() | Interrupted() | UnknownType():
            snooze = _as_snooze(job, outcome)
            return Release(lease, delay=snooze.delay, budget=snooze.budget, started_at=started_at, detail=snooze.reason)
        case _:
            assert_never(outcome)


def ack(lease: Lease, outcome: Succeeded, started_at: int | None) -> Ack:
    """Return the settlement of a success: it depends on nothing else."""
    return Ack(lease, result=outcome.result, writes=outcome.writes, started_at=started_at, detail=outcome.detail)


def _describe(outcome: _Failure) -> tuple[str, str]:
    """Return the error that the job keeps, and the detail for the ledger."""
    match outcome:
        case Failed():
            return outcome.error, outcome.kind
        case TimedOut():
            return f"timed out after {duration.format_exact(to_timedelta(outcome.after))}", TIMED_OUT
        case OutOfCpu():
            return f"used up its {duration.format_exact(to_timedelta(outcome.limit))} of processor time", "out of cpu"
        case Crashed():
            return f"the process that ran it ended: {outcome.how}", "crashed"
        case RetryRequested():
            return outcome.error, "retry asked for"
        case _:
            assert_never(outcome)


def _holds_key(job: JobRecord, outcome: _Failure) -> bool:
    return isinstance(outcome, RetryRequested) and outcome.pause_key and job.limit_key is not None


class _Delay(NamedTuple):
    micros: int
    policy_error: str = ""


def _delay(job: JobRecord, outcome: _Failure, policy: RetryPolicy, random: float) -> _Delay:
    """Return the delay of the next attempt. A policy is user code: if it fails, the default policy is used."""
    if isinstance(outcome, RetryRequested) and outcome.after is not None:
        return _Delay(outcome.after)
    if job.attempts >= job.max_attempts:  # there is no next attempt
        return _Delay(0)
    try:
        return _Delay(bounds.duration_from("delay", policy.delay(job.attempts, random)))
    except Exception as failure:  # noqa: BLE001 - any exception of the user's policy
        micros = bounds.duration_from("delay", DEFAULT.delay(job.attempts, random))
        return _Delay(micros, f"The retry policy failed, the default policy was used: {error_text(failure)}")


def _reason(outcome: Unrecovered | BadPayload | BadSignature | Cancelled) -> str:
    """Return the reason of the dead letter."""
    match outcome:
        case Unrecovered():
            return outcome.reason or UNRECOVERABLE
        case BadPayload():
            return BAD_PAYLOAD
        case BadSignature():
            return BAD_SIGNATURE
        case Cancelled():
            return CANCELLED
        case _:
            assert_never(outcome)


def _as_snooze(job: JobRecord, outcome: Snoozed | Interrupted | UnknownType) -> Snoozed:
    """Return the delay, the budget and the reason of a release."""
    match outcome:
        case Snoozed():
            return outcome if outcome.reason else replace(outcome, reason="snoozed")
        case Interrupted():
            return Snoozed(delay=0, budget=INTERRUPTED_BUDGET, reason=outcome.reason)
        case UnknownType():
            return Snoozed(delay=UNKNOWN_TYPE_DELAY, budget=UNKNOWN_TYPE_BUDGET, reason=f"no handler for {job.type}")
        case _:
            assert_never(outcome)
