"""From an outcome to its settlement, and through a real store to the state of the job."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.app import Holdfast
from holdfast.clock import DAY, HOUR, SECOND, ManualClock
from holdfast.connect import connect
from holdfast.drivers.requests import Cancel
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, PayloadError
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Lease, Reservation
from holdfast.model.registry import Change
from holdfast.model.retry import DEFAULT, Custom, Fixed
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.worker import control
from holdfast.worker.decide import decide
from holdfast.worker.outcome import (
    MAX_MESSAGE_CHARACTERS,
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

LEASE = Lease(job_id="j1", token="1.aa", fence=1, expires_at=SECOND)
POLICY = Fixed(timedelta(seconds=7))


def job(**fields) -> JobRecord:
    return JobRecord(**{"id": "j1", "type": "t", "queue": "default", "payload": b"1", "created_at": 1, **fields})


def settlement_of(outcome: Outcome, policy=POLICY, *, attempts: int = 1, random: float = 0.5) -> Settlement:
    return decide(job(attempts=attempts), LEASE, outcome, policy, random=random, started_at=5)


EXPECTED: list[tuple[Outcome, Settlement]] = [
    (
        Succeeded(result=b"[1]", writes=(Change(kind="guard", key="k", value=b"done"),), detail="skipped"),
        Ack(
            LEASE,
            result=b"[1]",
            writes=(Change(kind="guard", key="k", value=b"done"),),
            started_at=5,
            detail="skipped",
        ),
    ),
    (Skipped(reason="done by j0"), Ack(LEASE, started_at=5, detail="skipped: done by j0")),
    (
        Failed(error="ValueError: 1", kind="ValueError"),
        Retry(LEASE, delay=7 * SECOND, error="ValueError: 1", started_at=5, detail="ValueError"),
    ),
    (
        TimedOut(after=90 * SECOND),
        Retry(LEASE, delay=7 * SECOND, error="timed out after 1m30s", started_at=5, detail="timed out"),
    ),
    (
        OutOfCpu(limit=1_500_000),
        Retry(
            LEASE, delay=7 * SECOND, error="used up its 1s500ms of processor time", started_at=5, detail="out of cpu"
        ),
    ),
    (
        Crashed.from_exit(-11),
        Retry(
            LEASE,
            delay=7 * SECOND,
            error="the process that ran it ended: killed by SIGSEGV",
            started_at=5,
            detail="crashed",
            crashed=True,
        ),
    ),
    (
        RetryRequested(error="later"),
        Retry(LEASE, delay=7 * SECOND, error="later", started_at=5, detail="retry asked for"),
    ),
    (
        RetryRequested(after=0, error="now"),
        Retry(LEASE, delay=0, error="now", started_at=5, detail="retry asked for"),
    ),
    (
        Unrecovered(reason="no such customer", error="KeyError: 3"),
        Fail(LEASE, reason="no such customer", error="KeyError: 3", started_at=5),
    ),
    (Unrecovered(reason=""), Fail(LEASE, reason="unrecoverable", started_at=5)),
    (BadPayload(error="payload: wanted"), Fail(LEASE, reason="bad payload", error="payload: wanted", started_at=5)),
    (BadSignature(error="changed"), Fail(LEASE, reason="bad signature", error="changed", started_at=5)),
    (Cancelled(error="stopped"), Fail(LEASE, reason="cancelled", error="stopped", started_at=5)),
    (Snoozed(delay=3, budget=9), Release(LEASE, delay=3, budget=9, started_at=5, detail="snoozed")),
    (
        Snoozed(delay=3, reason="locked"),
        Release(LEASE, delay=3, budget=DAY, started_at=5, detail="locked"),
    ),
    (Interrupted(), Release(LEASE, budget=30 * DAY, started_at=5, detail="interrupted")),
    (UnknownType(), Release(LEASE, delay=10 * SECOND, budget=HOUR, started_at=5, detail="no handler for t")),
]


@pytest.mark.parametrize(("outcome", "settlement"), EXPECTED, ids=lambda value: type(value).__name__)
def test_each_outcome_has_its_settlement(outcome: Outcome, settlement: Settlement):
    assert settlement_of(outcome) == settlement


def test_every_outcome_has_a_case_above():
    assert {type(outcome) for outcome, _ in EXPECTED} == set(get_args(Outcome))


# Through a store --------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return connect("memory://", clock=clock)


def enqueue_and_reserve(store: Store, **fields) -> Reservation:
    store.enqueue([job(**fields)])
    [reservation] = store.reserve(["default"], limit=1, lease_for=HOUR)
    return reservation


def settle(store: Store, reservation: Reservation, outcome: Outcome, policy=POLICY) -> JobRecord:
    settlement = decide(reservation.job, reservation.lease, outcome, policy, random=0.5)
    assert store.settle([settlement]) == [None]
    record = store.get(reservation.job.id)
    assert record is not None
    return record


FAILURES = [
    Failed(error="e"),
    TimedOut(after=1),
    OutOfCpu(limit=1),
    Crashed(how="exit code 1"),
    RetryRequested(error="e"),
]


@pytest.mark.parametrize("outcome", FAILURES, ids=lambda outcome: type(outcome).__name__)
def test_a_failure_waits_for_its_delay_while_attempts_are_left(store: Store, clock: ManualClock, outcome: Outcome):
    record = settle(store, enqueue_and_reserve(store, max_attempts=2), outcome)
    assert (record.state, record.attempts, record.run_at) == (State.READY, 1, clock.now() + 7 * SECOND)
    assert record.last_error


@pytest.mark.parametrize(
    "outcome", [*FAILURES, RetryRequested(after=SECOND)], ids=lambda outcome: type(outcome).__name__
)
def test_the_failure_of_the_last_attempt_makes_a_dead_letter(store: Store, outcome: Outcome):
    record = settle(store, enqueue_and_reserve(store, max_attempts=1), outcome)
    assert (record.state, record.dead_reason) == (State.DEAD, "attempts exhausted")


@pytest.mark.parametrize("outcome", [Snoozed(delay=1), Interrupted(), UnknownType()], ids=lambda o: type(o).__name__)
def test_a_released_job_has_used_no_attempt(store: Store, outcome: Outcome):
    record = settle(store, enqueue_and_reserve(store, max_attempts=1), outcome)
    assert (record.state, record.attempts) == (State.READY, 0)


def test_a_job_that_runs_for_days_may_be_interrupted(store: Store, clock: ManualClock):
    reservation = enqueue_and_reserve(store)
    for _ in range(3 * 24):
        clock.advance(HOUR - 1)
        store.extend([reservation.lease], lease_for=HOUR)
    assert settle(store, reservation, Interrupted()).state is State.READY


def test_a_job_whose_type_stays_unknown_is_a_dead_letter_after_an_hour(store: Store, clock: ManualClock):
    record = settle(store, enqueue_and_reserve(store), UnknownType())
    started = clock.now()
    while record.state is State.READY:
        clock.advance(10 * SECOND)
        [reservation] = store.reserve(["default"], limit=1, lease_for=HOUR)
        record = settle(store, reservation, UnknownType())
    assert (record.state, record.dead_reason) == (State.DEAD, "released too long")
    assert HOUR - 30 * SECOND < clock.now() - started <= HOUR


def test_a_cancelled_attempt_makes_the_job_cancelled(store: Store):
    reservation = enqueue_and_reserve(store)
    store.do(Cancel(job_ids=["j1"]))
    record = settle(store, reservation, Cancelled(error="stopped at row 7"))
    assert (record.state, record.last_error) == (State.CANCELLED, "stopped at row 7")


def test_a_job_that_succeeds_in_spite_of_a_cancel_request_is_done(store: Store):
    reservation = enqueue_and_reserve(store)
    store.do(Cancel(job_ids=["j1"]))
    assert settle(store, reservation, Succeeded(result=b"1")).state is State.DONE


# Policies that fail ------------------------------------------------------------------------------------


def broken(_: int) -> timedelta:
    raise KeyError("backoff")


class Returning:
    """A policy that returns any value."""

    def __init__(self, value: object) -> None:
        self.value = value

    def delay(self, *_: object) -> object:
        return self.value


@pytest.mark.parametrize(
    "policy", [Custom(broken), Returning(timedelta(seconds=-1)), Returning(timedelta.max), Returning(5)]
)
def test_a_policy_that_fails_is_reported_and_the_default_policy_is_used(policy):
    settlement = settlement_of(Failed(error="ValueError: 1"), policy)
    assert isinstance(settlement, Retry)
    assert settlement.delay == DEFAULT.delay(1, 0.5) // timedelta(microseconds=1)
    assert settlement.error.startswith("ValueError: 1\nThe retry policy failed, the default policy was used: ")


def test_no_policy_is_called_when_no_attempt_is_left():
    settlement = settlement_of(Failed(error="e"), Custom(broken), attempts=25)
    assert settlement == Retry(LEASE, error="e", started_at=5)


@given(attempts=st.integers(1, bounds.MAX_COUNT), random=st.floats(0, 1, exclude_max=True))
def test_any_attempt_and_any_random_number_make_a_settlement(attempts: int, random: float):
    assert isinstance(settlement_of(Failed(error="e"), DEFAULT, attempts=attempts, random=random), Retry)


# Results, exits, error texts --------------------------------------------------------------------------------


def test_a_result_that_is_too_large_is_refused_before_the_settlement_is_made():
    with pytest.raises(PayloadError, match="result: wanted at most"):
        Succeeded(result=bytes(bounds.MAX_STORED_PAYLOAD_BYTES + 1))


@pytest.mark.parametrize(
    ("code", "how"), [(0, "exit code 0"), (3, "exit code 3"), (-9, "killed by SIGKILL"), (-50, "killed by signal 50")]
)
def test_a_crash_names_the_exit_code_or_the_signal(code: int, how: str):
    assert Crashed.from_exit(code) == Crashed(how=how)


def raise_and_catch(error: BaseException, cause: BaseException | None = None) -> BaseException:
    try:
        raise error from cause  # noqa: TRY301 - the test needs a traceback
    except BaseException as raised:
        return raised


def test_an_error_text_has_the_message_first_and_then_the_traceback():
    first, *rest = error_text(raise_and_catch(ValueError("bad"))).splitlines()
    assert first == "ValueError: bad"
    assert "test_decide.py" in rest[0]
    assert "raise error from cause" in rest[1]


def test_the_traceback_of_a_handler_begins_with_the_handler():
    def handler(_):
        raise ValueError("no order")

    async def async_handler(payload):
        handler(payload)

    with connect("memory://") as store:
        app = Holdfast(driver=store)
        for function in (handler, async_handler):
            app.handler(function.__name__, max_attempts=1)(function).enqueue()
        worker = app.worker()
        while worker.process_once().status != "empty":
            pass
        jobs = store.find().items
    assert len(jobs) == 2
    for job in jobs:
        first, second, *_ = job.last_error.splitlines()
        assert first == "ValueError: no order"
        assert second.endswith(f"in {job.type}")


def test_an_error_text_includes_causes_and_members_of_groups():
    group = ExceptionGroup("both", [raise_and_catch(ValueError("one")), raise_and_catch(KeyError("two"))])
    text = error_text(raise_and_catch(group, raise_and_catch(OSError("disk"))))
    heads = [line for line in text.splitlines() if not line.startswith(" ")]
    assert heads == [
        "ExceptionGroup: both (2 sub-exceptions)",
        "with ValueError: one",
        "with KeyError: 'two'",
        "from OSError: disk",
    ]


def test_an_error_text_includes_the_context_unless_it_is_suppressed():
    error = KeyError("outer")
    error.__context__ = ValueError("inner")
    assert error_text(error) == "KeyError: 'outer'\nwhile handling ValueError: inner"
    error.__suppress_context__ = True
    assert error_text(error) == "KeyError: 'outer'"


def deep(left: int) -> None:
    if left:
        deep(left - 1)
    raise ValueError("x" * 10**6)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


def test_an_error_text_is_bounded_for_any_exception():
    try:
        deep(200)
    except ValueError as error:
        text = error_text(error)
    assert len(text) < 3 * MAX_MESSAGE_CHARACTERS
    assert "in deep" in text
    assert "Mute" in error_text(raise_and_catch(Mute()))
    chained: BaseException = ValueError(0)
    for number in range(1000):
        chained = raise_and_catch(ValueError(number), chained)
    assert len(error_text(chained)) <= bounds.MAX_ERROR_CHARACTERS
    loop = raise_and_catch(ValueError("loop"))
    loop.__context__ = loop
    assert error_text(loop).startswith("ValueError: loop")


# Control values of handlers ------------------------------------------------------------------------------------------


def test_control_values_are_checked_and_kept_in_microseconds():
    assert (control.Retry().after, str(control.Retry())) == (None, "asked for a retry")
    retry = control.Retry(after=timedelta(seconds=2), reason="closed")
    assert (retry.after, retry.reason, str(retry)) == (2 * SECOND, "closed", "closed")
    snooze = control.Snooze(for_=timedelta(seconds=2))
    assert (snooze.delay, snooze.budget, str(snooze)) == (2 * SECOND, DAY, "snoozed")
    assert control.Snooze(timedelta(days=3)).budget == 6 * DAY
    assert control.Snooze(timedelta(days=30_000)).budget == bounds.MAX_DURATION
    assert str(control.Unrecoverable()) == "unrecoverable"
    with pytest.raises(InvalidInput, match="for_: wanted a timedelta, got 5"):
        control.Snooze(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="budget: wanted more than the snooze itself, 5s, got 5s"):
        control.Snooze(timedelta(seconds=5), budget=timedelta(seconds=5))
    with pytest.raises(InvalidInput, match="after: wanted a length from 0s to 36600d, got -1s"):
        control.Retry(after=timedelta(seconds=-1))


@pytest.mark.parametrize(
    "choice",
    [
        control.Retry(after=timedelta(seconds=2), reason="closed"),
        control.Snooze(timedelta(seconds=2), budget=timedelta(hours=1), reason="locked"),
        control.Unrecoverable("never"),
    ],
    ids=lambda choice: type(choice).__name__,
)
def test_control_values_survive_pickling(choice: control.Control):
    copy = pickle.loads(pickle.dumps(choice))
    assert (type(copy), vars(copy), str(copy)) == (type(choice), vars(choice), str(choice))
