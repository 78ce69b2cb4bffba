"""When a call with a lease is refused, and how a job changes when its lease ends (L5 to L8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import JobNotInflight, LeaseExpired, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.ledger import Ending
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.model.transition import HeldJob, after_expiry, after_settlement, is_repeat, refusal

NOW = 1_000_000
LEASE = Lease(job_id="j1", token="7.ff", fence=7, expires_at=NOW + 100)

INFLIGHT = HeldJob(
    state=State.INFLIGHT,
    token=LEASE.token,
    expires_at=LEASE.expires_at,
    reserved_at=NOW - 50,
    available_at=NOW - 500,
    run_at=NOW - 500,
    attempts=2,
    max_attempts=5,
    crashes=1,
    max_crashes=3,
    released_for=0,
    cancel_requested=False,
    last_verb=None,
    last_token=None,
    last_error="an older error",
    failed_at=NOW - 900,
)

EVERY = [Ack(LEASE), Retry(LEASE), Fail(LEASE, reason="r"), Release(LEASE)]


def held(**changes: Any) -> HeldJob:
    return INFLIGHT._replace(**changes)


# Refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("now", "refused"), [(99, None), (100, LeaseExpired), (101, LeaseExpired)])
def test_a_lease_is_valid_until_the_instant_at_which_it_expires(now: int, refused: type | None):
    answer = refusal(INFLIGHT, LEASE, NOW + now)
    assert (None if answer is None else type(answer)) == refused


@pytest.mark.parametrize("state", [state for state in State if state is not State.INFLIGHT])
def test_that_the_job_is_not_in_flight_is_checked_first(state: State):
    answer = refusal(held(state=state, token="8.ee", expires_at=None), LEASE, NOW)
    assert isinstance(answer, JobNotInflight)
    assert answer.state == state


def test_an_unknown_job_is_not_in_flight():
    answer = refusal(None, LEASE, NOW)
    assert isinstance(answer, JobNotInflight)
    assert answer.state is None


def test_the_token_is_checked_before_the_expiry():
    assert isinstance(refusal(held(token="8.ee", expires_at=NOW - 1), LEASE, NOW), LeaseMismatch)


# Repeated settlements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("settlement", EVERY, ids=lambda settlement: settlement.verb)
@pytest.mark.parametrize("last", ["ack", "retry", "fail", "release", "expired", None])
def test_only_the_same_verb_with_the_same_token_is_a_repeat(settlement: Settlement, last: str | None):
    ended = held(state=State.READY, token=None, last_verb=last, last_token=LEASE.token)
    assert is_repeat(ended, settlement) == (last == settlement.verb)
    assert not is_repeat(ended._replace(last_token="6.dd"), settlement)
    assert not is_repeat(ended._replace(state=State.INFLIGHT, token="8.ee"), settlement)
    assert not is_repeat(None, settlement)


# Transitions ------------------------------------------------------------------------------------------------


def test_an_ack_ends_the_job_with_its_result():
    outcome = after_settlement(INFLIGHT, Ack(LEASE, result=b"1", detail="quick"), NOW)
    assert (outcome.ending, outcome.state, outcome.result) == (Ending.ACKED, State.DONE, b"1")
    assert (outcome.attempts, outcome.last_error, outcome.failed_at) == (2, "an older error", NOW - 900)
    assert (outcome.dead_reason, outcome.dead_at, outcome.error, outcome.detail) == (None, None, "", "quick")


def test_an_ack_after_a_cancel_request_is_still_an_ack():
    assert after_settlement(held(cancel_requested=True), Ack(LEASE), NOW).state is State.DONE


@pytest.mark.parametrize(
    ("retry", "run_at", "available_at"),
    [
        (Retry(LEASE), None, NOW),
        (Retry(LEASE, delay=30), NOW + 30, NOW + 30),
        (Retry(LEASE, run_at=NOW + 7), NOW + 7, NOW + 7),
        (Retry(LEASE, run_at=NOW - 7), NOW - 7, NOW - 7),
    ],
)
def test_a_retry_is_available_at_its_run_at(retry: Retry, run_at: int | None, available_at: int):
    outcome = after_settlement(INFLIGHT, retry, NOW)
    assert (outcome.ending, outcome.state) == (Ending.RETRIED, State.READY)
    assert (outcome.run_at, outcome.available_at) == (run_at, available_at)


def test_a_retry_keeps_its_attempt_and_resets_the_crashes():
    outcome = after_settlement(INFLIGHT, Retry(LEASE, error="boom"), NOW)
    assert (outcome.attempts, outcome.crashes) == (2, 0)
    assert (outcome.last_error, outcome.failed_at, outcome.error) == ("boom", NOW, "boom")
    assert outcome.dead_reason is None


def test_a_retry_without_attempts_left_is_a_dead_letter():
    outcome = after_settlement(held(attempts=5), Retry(LEASE, delay=30, error="boom"), NOW)
    assert (outcome.state, outcome.dead_reason, outcome.dead_at) == (State.DEAD, "attempts exhausted", NOW)
    assert (outcome.ending, outcome.last_error) == (Ending.RETRIED, "boom")


def test_a_failure_is_a_dead_letter_with_its_reason():
    outcome = after_settlement(INFLIGHT, Fail(LEASE, reason="unknown type", error="boom"), NOW)
    assert (outcome.ending, outcome.state) == (Ending.FAILED, State.DEAD)
    assert (outcome.dead_reason, outcome.dead_at) == ("unknown type", NOW)
    assert (outcome.last_error, outcome.failed_at) == ("boom", NOW)


def test_a_release_refunds_the_attempt_and_keeps_the_position():
    outcome = after_settlement(INFLIGHT, Release(LEASE), NOW)
    assert (outcome.ending, outcome.state) == (Ending.RELEASED, State.READY)
    assert (outcome.attempts, outcome.crashes) == (1, 1)
    assert (outcome.run_at, outcome.available_at) == (INFLIGHT.run_at, INFLIGHT.available_at)
    assert outcome.last_error == "an older error"


def test_a_release_may_have_a_delay():
    outcome = after_settlement(INFLIGHT, Release(LEASE, delay=30), NOW)
    assert (outcome.run_at, outcome.available_at) == (NOW + 30, NOW + 30)


@pytest.mark.parametrize(("released_for", "state"), [(919, State.READY), (920, State.READY), (921, State.DEAD)])
def test_a_job_may_be_released_within_its_budget(released_for: int, state: State):
    """The job was leased for 50 and is delayed by 30; with the earlier releases, the budget is 1000."""
    outcome = after_settlement(held(released_for=released_for), Release(LEASE, delay=30, budget=1000), NOW)
    assert (outcome.state, outcome.released_for) == (state, released_for + 80)
    assert outcome.dead_reason == ("released too long" if state is State.DEAD else None)


@pytest.mark.parametrize("settlement", EVERY[1:], ids=lambda settlement: settlement.verb)
def test_any_settlement_but_an_ack_cancels_a_job_after_a_cancel_request(settlement: Settlement):
    outcome = after_settlement(held(cancel_requested=True), settlement, NOW)
    assert (outcome.ending, outcome.state) == (Ending.CANCELLED, State.CANCELLED)
    assert outcome.attempts == (1 if isinstance(settlement, Release) else 2)
    assert outcome.detail == f"cancelled at {settlement.verb}"


def test_a_cancelled_job_keeps_the_error_of_its_last_attempt():
    outcome = after_settlement(held(cancel_requested=True), Retry(LEASE, error="boom"), NOW)
    assert (outcome.last_error, outcome.failed_at, outcome.error) == ("boom", NOW, "boom")


# Expired leases ---------------------------------------------------------------------------------------------


def test_an_expired_lease_has_used_its_attempt_and_the_job_is_runnable_at_once():
    outcome = after_expiry(INFLIGHT, LEASE.expires_at + 40)
    assert (outcome.ending, outcome.state) == (Ending.EXPIRED, State.READY)
    assert (outcome.attempts, outcome.crashes) == (2, 2)
    assert (outcome.run_at, outcome.available_at) == (None, LEASE.expires_at)
    assert outcome.last_error == "an older error"


def test_a_job_whose_lease_is_ended_early_is_available_at_once():
    assert after_expiry(INFLIGHT, NOW).available_at == NOW


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"attempts": 5}, State.DEAD, "lease expired"),
        ({"attempts": 5, "crashes": 2}, State.DEAD, "lease expired"),
        ({"attempts": 4, "crashes": 2}, State.DEAD, "poison"),
        ({"attempts": 4, "crashes": 1}, State.READY, None),
        ({"attempts": 4, "crashes": 99, "max_crashes": None}, State.READY, None),
        ({"attempts": 5, "crashes": 2, "cancel_requested": True}, State.CANCELLED, None),
    ],
)
def test_an_expired_lease_makes_exhausted_and_poison_jobs_dead(
    changes: dict[str, object], state: State, reason: str | None
):
    outcome = after_expiry(held(**changes), NOW + 200)
    assert (outcome.state, outcome.dead_reason) == (state, reason)
    assert outcome.dead_at == (NOW + 200 if state is State.DEAD else None)
    assert outcome.ending == (Ending.CANCELLED if state is State.CANCELLED else Ending.EXPIRED)


@given(
    max_attempts=st.integers(1, 8),
    max_crashes=st.none() | st.integers(1, 8),
    verbs=st.lists(st.sampled_from(["retry", "expire", "release"]), max_size=40),
)
def test_no_sequence_of_endings_runs_a_job_more_often_than_allowed(
    max_attempts: int, max_crashes: int | None, verbs: list[str]
):
    job = held(attempts=0, crashes=0, max_attempts=max_attempts, max_crashes=max_crashes)
    counted = in_a_row = 0
    for verb in verbs:
        job = job._replace(attempts=job.attempts + 1)
        assert job.attempts <= max_attempts
        if verb == "expire":
            outcome = after_expiry(job, NOW + 200)
            counted, in_a_row = counted + 1, in_a_row + 1
        elif verb == "retry":
            outcome = after_settlement(job, Retry(LEASE), NOW)
            counted, in_a_row = counted + 1, 0
        else:
            outcome = after_settlement(job, Release(LEASE), NOW)
        assert (outcome.attempts, outcome.crashes) == (counted, in_a_row)
        if outcome.state is State.DEAD:
            assert counted == max_attempts or in_a_row == max_crashes
            return
        assert outcome.state is State.READY
        job = job._replace(attempts=outcome.attempts, crashes=outcome.crashes)
