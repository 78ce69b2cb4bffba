"""Seed 003: exclusive processing of the offsets of a domain, in order, under a work lease.

A case cites the line of the seed that it proves. The cases run on a ``WorkLease`` in the process, and on one in the
registry of each store. Where the seed has a trap, the options that avoid it are in tests/ordering: owners with an
expiry, ``strict=False``, ranges instead of sets. A queue with domains holds no lease during a backoff (142, 143). No
lock is held across I/O (166): without a store there is none, and with one compare-and-set decides every race, in
tests/ordering/test_stored_domains.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from holdfast.clock import HOUR, SECOND, ManualClock, to_datetime
from holdfast.driver import Ack, Retry
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
from holdfast.testing.drivers.harness import Harness
from tests.harnesses import STORES, open_harness

THREADS = 6

in_a_queue = pytest.mark.parametrize("harness", STORES, indirect=True)
in_the_process = pytest.mark.parametrize("harness", ["process"], indirect=True)


@pytest.fixture(scope="module", params=["process", *STORES])
def harness(request) -> Iterator[Harness | None]:
    """A store, or None for domains in the process."""
    if request.param == "process":
        yield None
    else:
        with open_harness(request.param, request) as harness:
            yield harness


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def open_lease(harness, clock, request) -> Callable[..., WorkLease]:
    """A function that opens one more ``WorkLease`` on the storage of the case."""
    store = None if harness is None else request.getfixturevalue("h").store
    return lambda **options: WorkLease(**{"max_retries": 2, "store": store, "clock": clock, **options})


@pytest.fixture
def lease(open_lease) -> WorkLease:
    return open_lease()


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
    """181-182: ACQUIRED, NO_BACKLOG. 113, 117-119, 122-124: processed, lease cleared."""
    token = acquire(lease, "A", 1)
    assert lease.succeed("A", token) == NoBacklog()
    state = lease.state("A")
    assert (state.lease, state.processed, state.failed, state.backlog) == (None, {1}, set(), ())


def test_scenario_2_queue_then_orchestrated_hand_off(lease):
    """184-187: ENQUEUED, NEXT_HINT(2). 6-8, 24-27, 103, 120: no hand-off, the hint stays in the backlog."""
    token = acquire(lease, "A", 1)
    assert lease.try_acquire("A", 2) == Enqueued()
    assert lease.succeed("A", token) == NextHint(2)
    state = lease.state("A")
    assert (state.lease, state.backlog) == (None, (2,))
    second = acquire(lease, "A", 2)
    assert second != token
    assert lease.state("A").backlog == ()


def test_scenario_3_out_of_order_acquire(lease):
    """189-190, 97-101, 154: BacklogOrderingException(domainId, expected=head, got=offset)."""
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
    """192-193, 141-144, 148: RETRY_SCHEDULED(n), lease retained. 33-37, 102: the record, acquiredAtMillis unchanged."""
    token = acquire(lease, "A", 1)
    first = lease.state("A").lease
    assert (first.offset, first.token, first.retry_count) == (1, token, 0)
    assert first.acquired_at == to_datetime(clock.now())
    for count in (1, 2):
        clock.advance(SECOND)
        assert lease.fail("A", token) == RetryScheduled(count)
        state = lease.state("A").lease
        assert (state.offset, state.token, state.retry_count) == (1, token, count)
        assert state.acquired_at == first.acquired_at
    assert lease.try_acquire("A", 1) == AlreadyAcquired(token)
    assert lease.state("A").lease.acquired_at == first.acquired_at


@pytest.mark.parametrize(("waiting", "answer"), [((), GiveUpNoBacklog()), ((7, 5), GiveUpNextHint(7))])
def test_scenario_5_final_give_up(lease, waiting, answer):
    """195-196, 135-139, 147: GIVE_UP_*, lease cleared. 39-44: failed offsets have a set of their own."""
    token = acquire(lease, "A", 1)
    for offset in waiting:
        lease.try_acquire("A", offset)
    assert give_up(lease, "A", token) == answer
    state = lease.state("A")
    assert (state.lease, state.processed, state.failed, state.backlog) == (None, set(), {1}, waiting)


def test_scenario_6_idempotence(lease):
    """198-199, 19, 89-91: ALREADY_*, not enqueued again."""
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
    """62-63, 17, 93-95: at most one LeaseRecord; ALREADY_ACQUIRED(token), else ENQUEUED."""
    token = acquire(lease, "A", 1)
    assert lease.try_acquire("A", 1) == AlreadyAcquired(token)
    assert [lease.try_acquire("A", offset) for offset in (2, 3)] == [Enqueued(), Enqueued()]
    assert (lease.state("A").lease.offset, lease.state("A").lease.token) == (1, token)
    acquire(lease, "B", 1)  # domains do not share a lease


def test_invariant_2_no_offset_is_in_two_places(lease):
    """65-67, 106-107, 173: disjointness."""
    finish(lease, "A", 1)
    give_up(lease, "A", acquire(lease, "A", 2))
    acquire(lease, "A", 3)
    for offset in (1, 2, 3, 4, 4, 3, 2, 1):
        lease.try_acquire("A", offset)
    state = lease.state("A")
    assert (state.processed, state.failed, state.lease.offset, state.backlog) == ({1}, {2}, 3, (4,))


def test_invariant_3_only_the_head_leaves_the_backlog_and_only_when_it_is_acquired(lease):
    """69-70, 18, 175: FIFO."""
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
    """46-47, 72-73, 174: no duplicates."""
    acquire(lease, "A", 1)
    for _ in range(3):
        assert lease.try_acquire("A", 2) == Enqueued()
    assert lease.state("A").backlog == (2,)


def test_invariant_5_only_the_token_of_the_lease_ends_it(lease):
    """20, 75-76, 116, 133, 155: TokenMismatchException; nothing changes."""
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


@in_the_process
def test_invariant_6_the_monitor_of_a_domain_is_never_replaced(lease):
    """78-79: with a store, the version of one entry takes the place of the monitor."""
    token = acquire(lease, "A", 1)
    record = lease._domains._records["A"]
    monitor = record.monitor
    lease.try_acquire("A", 2)
    lease.succeed("A", token)
    give_up(lease, "A", acquire(lease, "A", 2))
    with pytest.raises(LeaseNotFoundError):
        lease.succeed("A", token)
    assert lease._domains._records["A"] is record
    assert record.monitor is monitor


# States, tokens and errors ------------------------------------------------------------------------------------


def test_a_domain_without_a_lease_is_idle(lease):
    """53-54: in flight, idle."""
    assert lease.state("A") == DomainState()
    token = acquire(lease, "A", 1)
    assert lease.state("A").lease is not None
    lease.succeed("A", token)
    assert lease.state("A").lease is None


def test_a_lease_waits_for_its_orchestrator_however_long(lease, clock):
    """9, 22-23, 56: no sleeping state, no timing; the component as written has no expiry."""
    token = acquire(lease, "A", 1)
    lease.fail("A", token)
    before = lease.state("A")
    clock.advance(1000 * HOUR)
    assert lease.state("A") == before
    assert lease.succeed("A", token) == NoBacklog()


def test_every_lease_has_a_token_of_its_own_and_a_larger_fence(lease):
    """5, 102: generate token, fencing."""
    answers = []
    for offset in range(5):
        answer = lease.try_acquire("A", offset)
        answers.append(answer)
        lease.succeed("A", answer.token)
    assert len({answer.token.split(".")[1] for answer in answers}) == 5
    assert [answer.fence for answer in answers] == sorted({answer.fence for answer in answers})
    assert all(answer.token not in repr(answer) for answer in answers)


def test_an_end_without_a_lease_is_an_error(lease):
    """10, 115, 132, 156: IllegalStateException("No lease")."""
    token = acquire(lease, "A", 1)
    lease.succeed("A", token)
    for domain in ("A", "unknown"):
        for call in (lease.succeed, lease.fail):
            with pytest.raises(LeaseNotFoundError):
                call(domain, token)


def test_without_retries_the_first_failure_is_final(open_lease):
    """135: retryCount >= maxRetries. Retries come after the first run: max_retries + 1 runs."""
    lease = open_lease(max_retries=0)
    assert lease.fail("A", acquire(lease, "A", 1)) == GiveUpNoBacklog()


def test_errors_are_answers_if_wanted(open_lease):
    """158: in production you may convert to result codes."""
    lease = open_lease(errors="return")
    assert isinstance(lease.succeed("A", "x"), LeaseNotFoundError)
    token = acquire(lease, "A", 1)
    lease.try_acquire("A", 2)
    assert isinstance(lease.fail("A", "x"), TokenMismatchError)
    assert lease.succeed("A", token) == NextHint(2)
    answer = lease.try_acquire("A", 3)
    assert isinstance(answer, BacklogOrderingError)
    assert (answer.expected, answer.got) == (2, 3)


# Locking ------------------------------------------------------------------------------------------------------


def test_one_of_many_threads_acquires_a_new_domain(lease):
    """164: creation serialized. All threads see one record, and one of them gets the lease."""
    start = threading.Barrier(THREADS)

    def try_at_once(_number: int) -> Acquired | AlreadyAcquired:
        start.wait(60)
        return lease.try_acquire("A", 7)

    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(try_at_once, range(THREADS)))
    assert len({answer.token for answer in answers}) == 1
    assert [type(answer) for answer in answers].count(Acquired) == 1


def run_against(lock, *calls) -> None:
    """Start a thread for each call while the lock is held, and show that all of them wait for it."""
    threads = [threading.Thread(target=call) for call in calls]
    with lock:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(0.02)
            assert thread.is_alive()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@in_the_process
def test_threads_that_create_a_domain_wait_for_the_lock_of_creation(lease):
    """164: double-checked with a global createLock."""
    answers: list[object] = []
    run_against(lease._domains._create_lock, *[lambda: answers.append(lease.try_acquire("A", 1))] * THREADS)
    assert [type(answer) for answer in answers].count(Acquired) == 1


@in_the_process
def test_every_call_waits_for_the_monitor_of_its_domain(open_lease):
    """87, 113, 130, 165: under the per-domain lock."""
    lease = open_lease(errors="return", owner="w1", lease_for=timedelta(hours=1))
    token = acquire(lease, "A", 1)
    monitor = lease._domains._records["A"].monitor
    run_against(
        monitor,
        lambda: lease.try_acquire("A", 2),
        lambda: lease.fail("A", token),
        lambda: lease.extend("A", token),
        lambda: lease.succeed("A", "another"),
        lambda: lease.set_watermark("A", 1),
        lambda: lease.state("A"),
    )
    run_against(monitor, lambda: lease.succeed("A", token))
    with monitor:
        acquire(lease, "B", 1)  # another domain has another monitor


# Queues with domains ------------------------------------------------------------------------------------------


@in_a_queue
def test_a_job_that_waits_for_its_retry_blocks_its_domain_without_a_lease(h):
    """142-143: keep the lease on the same currentOffset. A queue keeps the place instead, and no lease."""
    first, second = (h.enqueue_job(domain="A", offset=offset).id for offset in (1, 2))
    h.must_settle(Retry(h.reserve_one().lease, delay=HOUR))
    assert h.inspect(first).expires_at is None
    assert h.reserve(2) == []
    h.advance(HOUR)
    again = h.reserve_one()
    assert (again.job.id, again.job.attempts) == (first, 2)
    assert h.reserve() == []
    h.must_settle(Ack(again.lease))
    assert h.reserve_ids() == [second]
