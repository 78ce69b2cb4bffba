"""Repeated settlements (L6): a worker whose first answer was lost gets it again; a stale worker is refused."""

from __future__ import annotations

from typing import Any

from holdfast.clock import DAY, HOUR, SECOND
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.requests import Trim
from holdfast.errors import JobNotInflight, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.assertions import assert_answers, assert_equal
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.settle import SETTLEMENTS
from holdfast.testing.drivers.harness import LEASE, Harness

JOBS = {Feature.JOBS}


def _repeat(h: Harness, verb: str, **fields: Any) -> None:
    reservation = h.reserve_new_job(**fields)
    settlement = SETTLEMENTS[verb](reservation.lease)
    h.must_settle(settlement)
    with h.assert_unchanged():
        h.must_settle(settlement)
        h.advance(2 * LEASE)
        h.must_settle(settlement, settlement)


@case("L6")
def a_repeated_ack_is_accepted_and_changes_nothing(h: Harness) -> None:
    _repeat(h, "ack")


@case("L6")
def a_repeated_retry_is_accepted_and_changes_nothing(h: Harness) -> None:
    _repeat(h, "retry")


@case("L6")
def a_repeated_fail_is_accepted_and_changes_nothing(h: Harness) -> None:
    _repeat(h, "fail")


@case("L6")
def a_repeated_release_is_accepted_and_changes_nothing(h: Harness) -> None:
    _repeat(h, "release")


@case("L6", "L7")
def a_repeated_retry_of_the_last_attempt_is_accepted_and_changes_nothing(h: Harness) -> None:
    _repeat(h, "retry", max_attempts=1)


@case("L6", "L8")
def a_repeated_release_beyond_its_budget_is_accepted_and_changes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.advance(1)
    release = Release(reservation.lease, budget=0)
    h.must_settle(release)
    assert_equal(h.state(reservation.job.id), State.DEAD, "the state")
    with h.assert_unchanged():
        h.must_settle(release)


@case("L6", needs=JOBS)
def a_repeated_settlement_of_a_cancelled_job_is_accepted_and_changes_nothing(h: Harness) -> None:
    for verb in ("retry", "fail", "release"):
        reservation = h.reserve_new_job()
        h.cancel(reservation.job.id)
        h.must_settle(SETTLEMENTS[verb](reservation.lease))
        assert_equal(h.state(reservation.job.id), State.CANCELLED, f"the state after {verb}")
        with h.assert_unchanged():
            h.must_settle(SETTLEMENTS[verb](reservation.lease))


@case("L6", needs={Feature.SCHEDULE})
def a_repeated_settlement_with_another_error_text_changes_nothing(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Retry(reservation.lease, error="first", delay=SECOND))
    with h.assert_unchanged():
        h.must_settle(Retry(reservation.lease, error="second"))


@case("L6", "L5")
def a_second_settlement_with_another_verb_is_refused(h: Harness) -> None:
    for first, settle in SETTLEMENTS.items():
        reservation = h.reserve_new_job(queue=first)
        h.must_settle(settle(reservation.lease))
        with h.assert_unchanged():
            for second, other in SETTLEMENTS.items():
                if second != first:
                    assert_answers(h.settle(other(reservation.lease)), JobNotInflight)


@case("L6", "L5")
def a_repeated_settlement_with_another_token_is_refused(h: Harness) -> None:
    for verb, make in SETTLEMENTS.items():
        first = h.reserve_new_job(queue=verb)
        h.must_settle(Release(first.lease))
        second = h.reserve_one(queues=[verb])
        h.must_settle(make(second.lease))
        with h.assert_unchanged():
            assert_answers(h.settle(make(first.lease)), JobNotInflight)


@case("L6", "L5")
def a_repeated_settlement_is_refused_once_the_job_is_reserved_again(h: Harness) -> None:
    for verb in ("retry", "release"):
        reservation = h.reserve_new_job(queue=verb)
        settlement = SETTLEMENTS[verb](reservation.lease)
        h.must_settle(settlement)
        h.reserve_one(queues=[verb])
        with h.assert_unchanged():
            assert_answers(h.settle(settlement), LeaseMismatch)


@case("L6", "L5")
def only_the_last_settlement_can_be_repeated(h: Harness) -> None:
    first = Retry(h.reserve_new_job().lease)
    h.must_settle(first)
    second = Retry(h.reserve_one().lease)
    h.must_settle(second)
    with h.assert_unchanged():
        assert_answers(h.settle(first, second), JobNotInflight, None)


@case("L6", "L5")
def a_repeated_settlement_is_refused_after_a_later_lease_expired(h: Harness) -> None:
    first = Retry(h.reserve_new_job().lease)
    h.must_settle(first)
    h.reserve_one()
    h.expire_leases()
    with h.assert_unchanged():
        assert_answers(h.settle(first), JobNotInflight)


@case("L6", "L5")
def no_settlement_is_accepted_after_an_expired_lease_was_reaped(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.expire_leases()
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            [answer] = h.settle(make(reservation.lease))
            assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
            assert_equal(answer.state, "ready", "the state in the error")


@case("L6", "L5")
def no_settlement_is_accepted_after_the_last_attempt_expired(h: Harness) -> None:
    reservation = h.reserve_new_job(max_attempts=1)
    h.expire_leases()
    with h.assert_unchanged():
        for make in SETTLEMENTS.values():
            assert_answers(h.settle(make(reservation.lease)), JobNotInflight)


@case("L6", needs=JOBS)
def a_settlement_can_be_repeated_after_a_requeue(h: Harness) -> None:
    reservation = h.reserve_new_job()
    fail = Fail(reservation.lease, reason="no")
    h.must_settle(fail)
    h.requeue(reservation.job.id)
    with h.assert_unchanged():
        h.must_settle(fail)
        assert_answers(h.settle(Ack(reservation.lease)), JobNotInflight)
    current = h.reserve_one()
    with h.assert_unchanged():
        assert_answers(h.settle(fail), LeaseMismatch)
    h.must_settle(Ack(current.lease))
    with h.assert_unchanged():
        assert_answers(h.settle(fail), JobNotInflight)


@case("L6", needs=JOBS)
def a_settlement_cannot_be_repeated_after_a_purge(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.purge(reservation.job.id)
    [answer] = h.settle(Ack(reservation.lease))
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    assert_equal(answer.state, None, "the state in the error")


@case("L6", needs=JOBS)
def a_settlement_can_be_repeated_for_at_least_a_day(h: Harness) -> None:
    reservation = h.reserve_new_job()
    ack = Ack(reservation.lease)
    h.must_settle(ack)
    h.advance(DAY - 1)
    h.store.do(Trim(ended_for=DAY, now=h.now_or_none))
    h.must_settle(ack)


@case("L6")
def a_settlement_can_be_repeated_on_another_connection(h: Harness) -> None:
    reservation = h.reserve_new_job()
    h.must_settle(Ack(reservation.lease))
    h.advance(HOUR)
    assert_equal(h.connect_again().settle([Ack(reservation.lease)], now=h.now_or_none), [None], "the answer")
