"""The six scenarios and the six invariants of the contract of a work lease, on every kind of storage."""

from __future__ import annotations

import dataclasses

import pytest

from holdfast.clock import SECOND, to_datetime
from holdfast.errors import HoldfastError
from holdfast.ordering import (
    Acquired,
    AlreadyAcquired,
    AlreadyFailed,
    AlreadyProcessed,
    BacklogOrderingError,
    DomainState,
    Enqueued,
    GiveUpNextHint,
    GiveUpNoBacklog,
    LeaseNotFoundError,
    NextHint,
    NoBacklog,
    RetryScheduled,
    TokenMismatchError,
    WorkLease,
)


@pytest.fixture
def lease(open_lease) -> WorkLease:
    return open_lease(max_retries=2)


def acquire(lease: WorkLease, domain: str, offset: int) -> str:
    answer = lease.try_acquire(domain, offset)
    assert isinstance(answer, Acquired)
    return answer.token


def finish(lease: WorkLease, domain: str, offset: int) -> None:
    lease.succeed(domain, acquire(lease, domain, offset))


def give_up(lease: WorkLease, domain: str, token: str) -> object:
    assert lease.fail(domain, token) == RetryScheduled(1)
    assert lease.fail(domain, token) == RetryScheduled(2)
    return lease.fail(domain, token)


# Scenarios ----------------------------------------------------------------------------------------------------


def test_scenario_1_happy_path(lease):
    token = acquire(lease, "A", 1)
    assert lease.succeed("A", token) == NoBacklog()
    state = lease.state("A")
    assert (state.lease, state.processed, state.failed, state.backlog) == (None, {1}, set(), ())


def test_scenario_2_queue_then_orchestrated_hand_off(lease):
    token = acquire(lease, "A", 1)
    assert lease.try_acquire("A", 2) == Enqueued()
    assert lease.succeed("A", token) == NextHint(2)
    state = lease.state("A")
    assert (state.lease, state.backlog) == (None, (2,))  # no hand-off: the domain is idle, and the hint was not removed
    second = acquire(lease, "A", 2)
    assert second != token
    assert lease.state("A").backlog == ()


def test_scenario_3_out_of_order_acquire(lease):
    token = acquire(lease, "A", 1)
    lease.try_acquire("A", 2)
    lease.succeed("A", token)
    before = lease.state("A")
    with pytest.raises(BacklogOrderingError) as refusal:
        lease.try_acquire("A", 3)
    assert (refusal.value.domain, refusal.value.expected, refusal.value.got) == ("A", 2, 3)
    assert lease.state("A") == before  # 3 is not kept
    acquire(lease, "A", 2)


def test_scenario_4_retry(lease, clock):
    token = acquire(lease, "A", 1)
    acquired_at = lease.state("A").lease.acquired_at
    assert acquired_at == to_datetime(clock.now())
    for count in (1, 2):
        clock.advance(SECOND)
        assert lease.fail("A", token) == RetryScheduled(count)
        state = lease.state("A").lease
        assert (state.offset, state.token, state.acquired_at, state.retry_count) == (1, token, acquired_at, count)
    assert lease.try_acquire("A", 1) == AlreadyAcquired(token)
    assert lease.state("A").lease.acquired_at == acquired_at


@pytest.mark.parametrize(("waiting", "answer"), [((), GiveUpNoBacklog()), ((7, 5), GiveUpNextHint(7))])
def test_scenario_5_final_give_up(lease, waiting, answer):
    token = acquire(lease, "A", 1)
    for offset in waiting:
        lease.try_acquire("A", offset)
    assert give_up(lease, "A", token) == answer
    state = lease.state("A")
    assert (state.lease, state.processed, state.failed, state.backlog) == (None, set(), {1}, waiting)


def test_scenario_6_idempotence(lease):
    finish(lease, "A", 1)
    give_up(lease, "A", acquire(lease, "A", 2))
    running = acquire(lease, "A", 3)
    for _ in range(2):
        assert lease.try_acquire("A", 1) == AlreadyProcessed()
        assert lease.try_acquire("A", 2) == AlreadyFailed()
    assert lease.state("A").backlog == ()
    lease.succeed("A", running)
    assert lease.try_acquire("A", 1) == AlreadyProcessed()  # also without a lease
    assert lease.try_acquire("A", 2) == AlreadyFailed()
    assert lease.state("A").lease is None


# Invariants ---------------------------------------------------------------------------------------------------


def test_invariant_1_a_domain_has_one_lease(lease):
    token = acquire(lease, "A", 1)
    assert lease.try_acquire("A", 1) == AlreadyAcquired(token)
    assert [lease.try_acquire("A", offset) for offset in (2, 3)] == [Enqueued(), Enqueued()]
    assert (lease.state("A").lease.offset, lease.state("A").lease.token) == (1, token)
    acquire(lease, "B", 1)  # domains do not share a lease


def test_invariant_2_no_offset_is_in_two_places(lease):
    finish(lease, "A", 1)
    give_up(lease, "A", acquire(lease, "A", 2))
    acquire(lease, "A", 3)
    for offset in (1, 2, 3, 4, 4, 3, 2, 1):
        lease.try_acquire("A", offset)
    state = lease.state("A")
    assert (state.processed, state.failed, state.lease.offset, state.backlog) == ({1}, {2}, 3, (4,))


def test_invariant_3_only_the_head_leaves_the_backlog_and_only_when_it_is_acquired(lease):
    token = acquire(lease, "A", 1)
    for offset in (9, 3, 7):
        lease.try_acquire("A", offset)
    assert lease.succeed("A", token) == NextHint(9)
    for early in (3, 7, 20):
        with pytest.raises(BacklogOrderingError):
            lease.try_acquire("A", early)
    assert lease.state("A").backlog == (9, 3, 7)
    token = acquire(lease, "A", 9)
    assert lease.state("A").backlog == (3, 7)
    assert give_up(lease, "A", token) == GiveUpNextHint(3)
    assert lease.state("A").backlog == (3, 7)


def test_invariant_4_an_offset_waits_once_however_often_it_is_tried(lease):
    acquire(lease, "A", 1)
    for _ in range(3):
        assert lease.try_acquire("A", 2) == Enqueued()
    assert lease.state("A").backlog == (2,)


def test_invariant_5_only_the_token_of_the_lease_ends_it(lease):
    token = acquire(lease, "A", 1)
    other = acquire(lease, "B", 1)
    before = lease.state("A")
    for wrong in (other, token + "0", "", "🔒"):
        for call in (lease.succeed, lease.fail):
            with pytest.raises(TokenMismatchError) as refusal:
                call("A", wrong)
            assert refusal.value.domain == "A"
            assert token not in str(refusal.value)
    assert lease.state("A") == before
    lease.succeed("A", token)
    for call in (lease.succeed, lease.fail):
        with pytest.raises(LeaseNotFoundError):
            call("A", token)
        with pytest.raises(LeaseNotFoundError):
            call("unknown", token)


def test_invariant_6_the_monitor_of_a_domain_is_never_replaced():
    lease = WorkLease(max_retries=0)
    token = acquire(lease, "A", 1)
    record = lease._domains._records["A"]
    monitor = record.monitor
    lease.try_acquire("A", 2)
    lease.succeed("A", token)
    lease.fail("A", acquire(lease, "A", 2))
    with pytest.raises(LeaseNotFoundError):
        lease.succeed("A", token)
    assert lease._domains._records["A"] is record
    assert record.monitor is monitor


# Details ------------------------------------------------------------------------------------------------------


def test_without_retries_the_first_failure_is_final(open_lease):
    lease = open_lease(max_retries=0)
    assert lease.fail("A", acquire(lease, "A", 1)) == GiveUpNoBacklog()


def test_errors_are_answers_if_wanted(open_lease):
    lease = open_lease(errors="return")
    assert isinstance(lease.succeed("A", "x"), LeaseNotFoundError)
    token = acquire(lease, "A", 1)
    lease.try_acquire("A", 2)
    assert isinstance(lease.fail("A", "x"), TokenMismatchError)
    assert lease.succeed("A", token) == NextHint(2)
    answer = lease.try_acquire("A", 3)
    assert isinstance(answer, BacklogOrderingError)
    assert (answer.expected, answer.got) == (2, 3)


def test_an_unknown_domain_is_empty(lease):
    assert lease.state("nobody") == DomainState()


def test_tokens_are_unguessable_and_fences_grow(lease):
    answers = []
    for offset in range(5):
        answer = lease.try_acquire("A", offset)
        answers.append(answer)
        lease.succeed("A", answer.token)
    assert len({answer.token.split(".")[1] for answer in answers}) == 5
    assert [answer.fence for answer in answers] == sorted({answer.fence for answer in answers})
    assert all(answer.token not in repr(answer) for answer in answers)


def test_results_cannot_be_changed(lease):
    answer = lease.try_acquire("A", 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.token = "other"  # type: ignore[misc]
    match answer:
        case Acquired(token):
            assert token == answer.token
        case _:
            raise AssertionError(answer)


@pytest.mark.parametrize(
    ("domain", "offset"), [("", 1), ("a\n", 1), ("d" * 257, 1), ("A", -1), ("A", 2**63), ("A", True), ("A", "1")]
)
def test_wrong_arguments_are_refused(lease, domain, offset):
    with pytest.raises(HoldfastError, match="wanted"):
        lease.try_acquire(domain, offset)


def test_the_longest_domain_and_the_largest_offset_are_accepted(lease):
    for domain in ("ä" * 128, "x" * 256):
        finish(lease, domain, 2**63 - 1)
        finish(lease, domain, 0)
        assert lease.try_acquire(domain, 2**63 - 1) == AlreadyProcessed()
