"""The options: owners and expiry, early offsets, halted domains, watermarks."""

from __future__ import annotations

from datetime import timedelta

import pytest

import holdfast
from holdfast.clock import SECOND, to_datetime
from holdfast.drivers.capabilities import Capabilities, Durability, Feature
from holdfast.errors import InvalidInput, Unsupported
from holdfast.ordering import (
    Acquired,
    AlreadyAcquired,
    AlreadyFailed,
    AlreadyProcessed,
    BacklogOrderingError,
    Busy,
    Enqueued,
    GiveUpNextHint,
    Halted,
    LeaseNotFoundError,
    NextHint,
    NoBacklog,
    NotHead,
    RetryScheduled,
    TokenMismatchError,
    WorkLease,
)

LEASE = timedelta(seconds=10)


@pytest.fixture
def owned(open_lease):
    return open_lease(lease_for=LEASE, max_retries=2)


def acquire(lease, offset, owner=None):
    answer = lease.try_acquire("A", offset, owner=owner)
    assert isinstance(answer, Acquired), answer
    return answer


# Owners and expiry --------------------------------------------------------------------------------------------


def test_another_owner_gets_busy_and_never_the_token(owned):
    mine = acquire(owned, 1, "w1")
    assert owned.try_acquire("A", 1, owner="w1") == AlreadyAcquired(mine.token)
    assert owned.try_acquire("A", 1, owner="w2") == Busy()
    assert owned.try_acquire("A", 2, owner="w2") == Enqueued()
    state = owned.state("A")
    assert (state.lease.token, state.lease.owner) == (None, "w1")
    assert mine.token not in repr(state)


def test_a_dead_holder_does_not_stop_its_domain(owned, clock):
    dead = acquire(owned, 1, "w1")
    first = owned.state("A").lease
    assert (first.expires_at, first.has_lapsed) == (to_datetime(clock.now()) + LEASE, False)
    clock.advance(10 * SECOND - 1)
    assert owned.try_acquire("A", 1, owner="w2") == Busy()
    clock.advance(1)  # expired means now >= expires_at (L2)
    assert owned.state("A").lease.has_lapsed
    taken = acquire(owned, 1, "w2")
    assert taken.token != dead.token
    assert taken.fence > dead.fence
    lease = owned.state("A").lease
    assert (lease.owner, lease.retry_count, lease.acquired_at) == ("w2", 1, first.acquired_at)
    assert not lease.has_lapsed
    for call in (owned.succeed, owned.fail, owned.extend):
        with pytest.raises(TokenMismatchError):
            call("A", dead.token)
    assert owned.try_acquire("A", 1, owner="w1") == Busy()
    assert owned.succeed("A", taken.token) == NoBacklog()


def test_takeovers_use_up_the_retries(owned, clock):
    acquire(owned, 1, "w1")
    for _ in range(2):
        clock.advance(LEASE)
        acquire(owned, 1, "w2")
    clock.advance(LEASE)
    assert owned.try_acquire("A", 1, owner="w1") == AlreadyFailed()
    state = owned.state("A")
    assert (state.lease, state.failed) == (None, {1})


def test_another_offset_does_not_take_a_lapsed_lease_over(owned, clock):
    acquire(owned, 1, "w1")
    clock.advance(LEASE)
    assert owned.try_acquire("A", 2, owner="w2") == Enqueued()
    assert owned.state("A").lease.offset == 1


def test_a_late_holder_may_finish_if_nobody_took_over(owned, clock):
    late = acquire(owned, 1, "w1")
    clock.advance(LEASE * 5)
    assert owned.succeed("A", late.token) == NoBacklog()


def test_extend_and_fail_renew_the_lease(owned, clock):
    held = acquire(owned, 1, "w1")
    clock.advance(9 * SECOND)
    assert owned.extend("A", held.token) == to_datetime(clock.now()) + LEASE
    clock.advance(9 * SECOND)
    assert owned.fail("A", held.token) == RetryScheduled(1)
    clock.advance(9 * SECOND)
    assert owned.try_acquire("A", 1, owner="w2") == Busy()
    clock.advance(SECOND)
    assert isinstance(owned.try_acquire("A", 1, owner="w2"), Acquired)
    assert owned.state("A").lease.retry_count == 2


def test_an_owner_is_an_option_of_the_lease_too(open_lease):
    lease = open_lease(lease_for=LEASE, owner="w1")
    acquire(lease, 1)
    assert lease.state("A").lease.owner == "w1"
    assert lease.try_acquire("A", 1, owner="w2") == Busy()


def test_owner_and_lease_for_belong_together(open_lease):
    with pytest.raises(InvalidInput, match="lease_for"):
        open_lease(owner="w1")
    with pytest.raises(InvalidInput, match="lease_for"):
        open_lease().try_acquire("A", 1, owner="w1")
    with pytest.raises(InvalidInput, match="owner"):
        open_lease(lease_for=LEASE).try_acquire("A", 1)
    with pytest.raises(InvalidInput, match="lease_for"):
        open_lease().extend("A", "token")
    with pytest.raises(InvalidInput, match="lease_for"):
        open_lease(lease_for=timedelta(0))


def test_the_clock_of_the_store_judges_leases(tmp_path):
    """Without ``clock``, no process passes its own time: one whose clock is ahead steals nothing (L1)."""

    class Ahead:
        def now(self) -> int:
            return 4_000_000_000 * SECOND

    with holdfast.connect(f"sqlite:///{tmp_path}/jobs.db") as store:
        held = acquire(WorkLease(max_retries=1, store=store, owner="w1", lease_for=timedelta(hours=1)), 1)
        ahead = WorkLease(max_retries=1, store=store, owner="w2", lease_for=timedelta(hours=1))
        ahead._clock = Ahead()
        assert ahead.try_acquire("A", 1) == Busy()
        assert ahead.succeed("A", held.token) == NoBacklog()


# Early offsets ------------------------------------------------------------------------------------------------


def test_an_early_offset_is_kept_without_strict(open_lease):
    lease = open_lease(strict=False)
    held = acquire(lease, 1)
    lease.try_acquire("A", 2)
    assert lease.succeed("A", held.token) == NextHint(2)
    assert lease.try_acquire("A", 3) == NotHead(2)
    assert lease.try_acquire("A", 3) == NotHead(2)
    assert lease.state("A").backlog == (2, 3)
    held = acquire(lease, 2)
    assert lease.succeed("A", held.token) == NextHint(3)


# Halted domains -----------------------------------------------------------------------------------------------


@pytest.fixture
def halting(open_lease):
    return open_lease(on_exhausted="halt", max_retries=0)


def test_an_exhausted_offset_halts_its_domain(halting):
    held = acquire(halting, 1)
    halting.try_acquire("A", 2)
    assert halting.fail("A", held.token) == Halted(1)
    for offset in (1, 2, 3):
        assert halting.try_acquire("A", offset) == Halted(1)
    state = halting.state("A")
    assert (state.lease, state.halted, state.failed, state.backlog) == (None, 1, set(), (2, 3))
    with pytest.raises(LeaseNotFoundError):
        halting.succeed("A", held.token)
    assert isinstance(halting.try_acquire("B", 1), Acquired)


def test_an_operator_skips_the_offset(halting):
    halting.fail("A", acquire(halting, 1).token)
    halting.try_acquire("A", 2)
    assert halting.resume("A", "skip") == NextHint(2)
    assert halting.try_acquire("A", 1) == AlreadyFailed()
    acquire(halting, 2)


def test_an_operator_lets_the_offset_run_again(halting, clock):
    held = acquire(halting, 1)
    acquired_at = halting.state("A").lease.acquired_at
    halting.try_acquire("A", 2)
    halting.fail("A", held.token)
    clock.advance(SECOND)
    assert halting.resume("A", "retry") == NextHint(1)
    with pytest.raises(BacklogOrderingError) as refusal:
        halting.try_acquire("A", 2)
    assert refusal.value.expected == 1
    again = acquire(halting, 1)
    assert again.fence > held.fence
    assert halting.state("A").lease.acquired_at == acquired_at
    assert halting.succeed("A", again.token) == NextHint(2)


def test_only_a_halted_domain_can_be_resumed(halting):
    for action in ("skip", "retry"):
        with pytest.raises(InvalidInput, match="halted"):
            halting.resume("A", action)
    halting.fail("A", acquire(halting, 1).token)
    with pytest.raises(InvalidInput, match="action"):
        halting.resume("A", "resume")
    halting.resume("A", "retry")
    with pytest.raises(InvalidInput, match="halted"):
        halting.resume("A", "retry")


def test_a_takeover_without_retries_halts_too(open_lease, clock):
    lease = open_lease(on_exhausted="halt", max_retries=0, lease_for=LEASE)
    acquire(lease, 1, "w1")
    clock.advance(LEASE)
    assert lease.try_acquire("A", 1, owner="w2") == Halted(1)


# Watermarks ---------------------------------------------------------------------------------------------------


def test_a_watermark_forgets_what_lies_below(open_lease):
    lease = open_lease(max_retries=0)
    for offset in range(0, 100, 10):
        held = acquire(lease, offset)
        lease.fail("A", held.token) if offset == 30 else lease.succeed("A", held.token)
    assert lease.set_watermark("A", 75) == 75
    state = lease.state("A")
    assert state.processed.ranges() == [(0, 74), (80, 80), (90, 90)]
    assert state.failed == set()
    assert lease.try_acquire("A", 33) == AlreadyProcessed()
    assert lease.set_watermark("A", 20) == 20  # never goes back
    assert lease.state("A") == state


def test_a_watermark_stops_at_offsets_that_wait_or_run(open_lease):
    lease = open_lease(max_retries=0)
    held = acquire(lease, 50)
    lease.try_acquire("A", 40)
    assert lease.set_watermark("A", 100) == 40
    lease.fail("A", held.token)
    held = acquire(lease, 40)
    assert lease.set_watermark("A", 100) == 40
    lease.succeed("A", held.token)
    assert lease.set_watermark("A", 100) == 100
    assert lease.state("A").processed == set(range(100))


def test_a_watermark_at_a_distance_bounds_sparse_offsets(open_lease):
    lease = open_lease(watermark_distance=100)
    for offset in range(0, 1000, 7):
        held = acquire(lease, offset)
        lease.succeed("A", held.token)
        assert len(lease.state("A").processed.ranges()) <= 100 / 7 + 2
    assert lease.try_acquire("A", 994 - 101) == AlreadyProcessed()
    assert lease.try_acquire("A", 994) == AlreadyProcessed()
    assert isinstance(lease.try_acquire("A", 993), Acquired)


def test_an_offset_that_an_operator_skips_moves_the_watermark_too(open_lease):
    lease = open_lease(watermark_distance=10, on_exhausted="halt", max_retries=0)
    for offset in (0, 50):
        lease.fail("A", acquire(lease, offset).token)
        lease.resume("A", "skip")
    state = lease.state("A")
    assert (state.processed.ranges(), state.failed) == ([(0, 39)], {50})


# Arguments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": 1.5},
        {"errors": "ignore"},
        {"on_exhausted": "stop"},
        {"watermark_distance": -1},
        {"owner": "", "lease_for": LEASE},
        {"lease_for": 10},
    ],
    ids=repr,
)
def test_wrong_options_are_refused(options):
    with pytest.raises(InvalidInput):
        WorkLease(**{"max_retries": 1, **options})


def test_a_store_without_a_registry_is_refused():
    class Store:
        capabilities = Capabilities(
            driver="tube", durability=Durability.PROCESS, gaps={Feature.REGISTRY: "there are only jobs"}
        )

    with pytest.raises(Unsupported, match="there are only jobs"):
        WorkLease(max_retries=1, store=Store())


def test_halted_is_an_answer_of_give_up_only_with_halt(open_lease):
    lease = open_lease(max_retries=0)
    held = acquire(lease, 1)
    lease.try_acquire("A", 2)
    assert lease.fail("A", held.token) == GiveUpNextHint(2)


def test_a_store_is_not_a_url():
    for wrong in ("sqlite:///jobs.db", 5):
        with pytest.raises(InvalidInput, match=r"store: wanted a store, as connect\(url\) returns it, got"):
            WorkLease(max_retries=1, store=wrong)  # type: ignore[arg-type]
