"""The same settlement again (L6): for the worker whose first answer was lost, never for a stale one."""

from __future__ import annotations

from typing import Any

from holdfast.clock import DAY, HOUR, SECOND
from holdfast.errors import JobNotInflight, LeaseMismatch
from holdfast.model.job import State
from holdfast.model.settlement import Ack, Fail, Release, Retry
from holdfast.testing.drivers.conformance.case import case
from holdfast.testing.drivers.conformance.expect import equal, refused
from holdfast.testing.drivers.conformance.settle import VERBS
from holdfast.testing.drivers.harness import LEASE, Harness


def _accepted_again(h: Harness, verb: str, **fields: Any) -> None:
    held = h.held(**fields)
    settlement = VERBS[verb](held.lease)
    h.settled(settlement)
    with h.unchanged():
        h.settled(settlement)
        h.advance(2 * LEASE)
        h.settled(settlement, settlement)


@case("L6")
def a_repeated_ack_is_accepted_and_changes_nothing(h: Harness) -> None:
    _accepted_again(h, "ack")


@case("L6")
def a_repeated_retry_is_accepted_and_changes_nothing(h: Harness) -> None:
    _accepted_again(h, "retry")


@case("L6")
def a_repeated_fail_is_accepted_and_changes_nothing(h: Harness) -> None:
    _accepted_again(h, "fail")


@case("L6")
def a_repeated_release_is_accepted_and_changes_nothing(h: Harness) -> None:
    _accepted_again(h, "release")


@case("L6", "L7")
def a_repeated_retry_that_was_the_last_is_accepted_and_changes_nothing(h: Harness) -> None:
    _accepted_again(h, "retry", max_attempts=1)


@case("L6", "L8")
def a_repeated_release_beyond_its_budget_is_accepted_and_changes_nothing(h: Harness) -> None:
    held = h.held()
    h.advance(1)
    release = Release(held.lease, budget=0)
    h.settled(release)
    equal(h.state(held.job.id), State.DEAD, "the state")
    with h.unchanged():
        h.settled(release)


@case("L6")
def a_repeated_settlement_of_a_cancelled_job_is_accepted_and_changes_nothing(h: Harness) -> None:
    for verb in ("retry", "fail", "release"):
        held = h.held()
        h.cancel(held.job.id)
        h.settled(VERBS[verb](held.lease))
        equal(h.state(held.job.id), State.CANCELLED, f"the state after {verb}")
        with h.unchanged():
            h.settled(VERBS[verb](held.lease))


@case("L6")
def a_repetition_with_other_words_changes_nothing_either(h: Harness) -> None:
    held = h.held()
    h.settled(Retry(held.lease, error="first", delay=SECOND))
    with h.unchanged():
        h.settled(Retry(held.lease, error="second"))


@case("L6", "L5")
def another_verb_than_the_first_is_refused(h: Harness) -> None:
    for first, settle in VERBS.items():
        held = h.held(queue=first)
        h.settled(settle(held.lease))
        with h.unchanged():
            for second, other in VERBS.items():
                if second != first:
                    refused(h.settle(other(held.lease)), JobNotInflight)


@case("L6", "L5")
def a_repetition_with_another_token_is_refused(h: Harness) -> None:
    for verb, make in VERBS.items():
        first = h.held(queue=verb)
        h.settled(Release(first.lease))
        second = h.take(queues=[verb])
        h.settled(make(second.lease))
        with h.unchanged():
            refused(h.settle(make(first.lease)), JobNotInflight)


@case("L6", "L5")
def once_the_job_is_reserved_again_a_repetition_is_refused(h: Harness) -> None:
    for verb in ("retry", "release"):
        held = h.held(queue=verb)
        settlement = VERBS[verb](held.lease)
        h.settled(settlement)
        h.take(queues=[verb])
        with h.unchanged():
            refused(h.settle(settlement), LeaseMismatch)


@case("L6", "L5")
def only_the_last_settlement_can_be_repeated(h: Harness) -> None:
    first = Retry(h.held().lease)
    h.settled(first)
    second = Retry(h.take().lease)
    h.settled(second)
    with h.unchanged():
        refused(h.settle(first, second), JobNotInflight, None)


@case("L6", "L5")
def a_repetition_after_a_later_lease_expired_is_refused(h: Harness) -> None:
    first = Retry(h.held().lease)
    h.settled(first)
    h.take()
    h.lapse()
    with h.unchanged():
        refused(h.settle(first), JobNotInflight)


@case("L6", "L5")
def nothing_is_a_repetition_of_an_expiry(h: Harness) -> None:
    held = h.held()
    h.lapse()
    with h.unchanged():
        for make in VERBS.values():
            [answer] = h.settle(make(held.lease))
            assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
            equal(answer.state, "ready", "the state it tells")


@case("L6", "L5")
def nothing_is_a_repetition_of_a_last_lease_that_expired(h: Harness) -> None:
    held = h.held(max_attempts=1)
    h.lapse()
    with h.unchanged():
        for make in VERBS.values():
            refused(h.settle(make(held.lease)), JobNotInflight)


@case("L6")
def after_a_requeue_the_settlement_can_still_be_repeated(h: Harness) -> None:
    held = h.held()
    fail = Fail(held.lease, reason="no")
    h.settled(fail)
    h.requeue(held.job.id)
    with h.unchanged():
        h.settled(fail)
        refused(h.settle(Ack(held.lease)), JobNotInflight)
    current = h.take()
    with h.unchanged():
        refused(h.settle(fail), LeaseMismatch)
    h.settled(Ack(current.lease))
    with h.unchanged():
        refused(h.settle(fail), JobNotInflight)


@case("L6")
def after_a_purge_nothing_can_be_repeated(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease))
    h.purge(held.job.id)
    [answer] = h.settle(Ack(held.lease))
    assert isinstance(answer, JobNotInflight), f"wanted JobNotInflight, got {answer!r}"
    equal(answer.state, None, "the state it tells")


@case("L6")
def a_settlement_can_be_repeated_for_at_least_a_day(h: Harness) -> None:
    held = h.held()
    ack = Ack(held.lease)
    h.settled(ack)
    h.advance(DAY - 1)
    h.store.trim(ended_for=DAY, now=h.stamp)
    h.settled(ack)


@case("L6")
def a_settlement_can_be_repeated_over_another_connection(h: Harness) -> None:
    held = h.held()
    h.settled(Ack(held.lease, result=b"1"))
    h.advance(HOUR)
    equal(h.another().settle([Ack(held.lease, result=b"1")], now=h.stamp), [None], "the answer")
