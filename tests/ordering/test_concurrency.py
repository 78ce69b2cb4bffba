"""Many threads on one domain, and two processes of which one is killed while it holds a lease."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import timedelta

import pytest

import holdfast
from holdfast.ordering import Acquired, AlreadyProcessed, BacklogOrderingError, Enqueued, WorkLease
from tests.ordering.orchestrator import process_all
from tests.ordering.orchestrator_process import check_processes, start

THREADS = 6


def run_threads(function, count: int = THREADS) -> None:
    errors: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            function(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert errors == []


def test_threads_process_every_offset_once_and_one_at_a_time(store, request):
    """Each thread is an owner. Every tenth attempt fails."""
    count = 20 if request.node.callspec.params["store"] == "postgres" else 40
    options = {"max_retries": 100, "strict": False, "lease_for": timedelta(hours=1)}
    shared = WorkLease(store=store, **options)
    running: Counter[str] = Counter()
    ended: list[tuple[str, int, int]] = []
    lock = threading.Lock()

    def attempt(domain: str, offset: int, acquired: Acquired) -> bool:
        with lock:
            running[domain] += 1
            assert running[domain] == 1, "two attempts in one domain"
        succeeded = acquired.fence % 10 != 3
        with lock:
            running[domain] -= 1
            if succeeded:
                ended.append((domain, offset, acquired.fence))
        return succeeded

    def process(number: int) -> None:
        owner = f"w{number}"
        lease = Owned(shared, owner) if store is None else WorkLease(store=store, owner=owner, **options)
        dice = random.Random(number)
        for domain in ("a", "b"):
            process_all(lease, domain, dice.sample(range(count), count), attempt)

    run_threads(process)
    for domain in ("a", "b"):
        mine = [(fence, offset) for name, offset, fence in ended if name == domain]
        assert sorted(mine) == mine
        assert len({offset for _, offset in mine}) == len(mine)
        state = shared.state(domain)
        assert (state.processed, state.failed, state.backlog, state.lease) == (set(range(count)), set(), (), None)


class Owned:
    """A view of a ``WorkLease`` for one owner."""

    def __init__(self, lease: WorkLease, owner: str) -> None:
        self._lease = lease
        self._owner = owner
        self.succeed, self.fail, self.state = lease.succeed, lease.fail, lease.state

    def try_acquire(self, domain: str, offset: int):
        return self._lease.try_acquire(domain, offset, owner=self._owner)


def test_a_strict_backlog_keeps_its_order_under_threads():
    """No store: the threads only queue offsets, and one thread drains them in the order of the hints."""
    lease = WorkLease(max_retries=0)
    token = lease.try_acquire("a", 0).token
    run_threads(lambda number: [lease.try_acquire("a", 1 + number + THREADS * place) for place in range(200)])
    waiting = lease.state("a").backlog
    assert sorted(waiting) == list(range(1, 200 * THREADS + 1))
    lease.succeed("a", token)
    with pytest.raises(BacklogOrderingError):
        lease.try_acquire("a", 10**6)
    for offset in waiting:
        lease.succeed("a", lease.try_acquire("a", offset).token)
    assert lease.state("a").processed == set(range(200 * THREADS + 1))
    assert lease.try_acquire("a", 5) == AlreadyProcessed()


def test_a_killed_process_does_not_stop_its_domain(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    holdfast.connect(url).close()
    processes = [victim := start(url, "victim", count=30, hold=12)]
    try:
        lines = [victim.stdout.readline().split()]
        processes.append(survivor := start(url, "survivor", count=30))
        for line in victim.stdout:  # to its end, if the survivor leaves it too few offsets
            lines.append(line.split())
            if lines[-1][0] == "holding":
                break
        victim.kill()
        output, _ = survivor.communicate(timeout=120)
        assert survivor.returncode == 0
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    lines += [line.split() for line in output.splitlines()]
    check_processes(url, lines, count=30)


def test_other_offsets_wait_while_the_lease_is_held(store):
    lease = WorkLease(max_retries=0, store=store)
    token = lease.try_acquire("a", 0).token
    run_threads(lambda _: [lease.try_acquire("a", offset) for offset in range(1, 6)], count=3)
    assert sorted(lease.state("a").backlog) == [1, 2, 3, 4, 5]
    assert lease.try_acquire("a", 1) == Enqueued()
    lease.succeed("a", token)
