"""Rate limits: one budget for all processes of a store, taken in shares; each process alone while the store is away."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast import connect
from holdfast.clock import HOUR, SECOND, ManualClock
from holdfast.service.driver_rights import KINDS_OF_ADMINS
from holdfast.service.problems import Problem
from holdfast.service.rate_budget import KIND, NOTHING_SPENT, RateBudgets
from holdfast.service.rate_limit import RateLimit, RateLimitTiming

KEY = ("main", "worker-1", "claim")


class Setup:
    """Processes over one store, whose clocks move together."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = connect("memory://", clock=self.clock)
        self.executor = ThreadPoolExecutor(1)

    def seconds(self) -> float:
        return self.clock.now() / SECOND

    def budgets(self, rate: float, *, ahead: float = 0.0) -> RateBudgets:
        """Return the budgets of another process; the clock of its machine is ``ahead``."""
        return RateBudgets(self.store, rate, now=lambda: self.seconds() + ahead)

    def limit(self, rate: float | None, timing: RateLimitTiming = RateLimitTiming()) -> RateLimit:
        budgets = None if rate is None else self.budgets(rate)
        return RateLimit(rate, budgets, self.executor, now=self.seconds, timing=timing)


@pytest.fixture
def setup():
    made = Setup()
    yield made
    made.executor.shutdown()
    made.store.close()


def take_all(*budgets: RateBudgets) -> int:
    """Take shares in turns until none is left; return how many requests that is."""
    taken, known = 0, dict.fromkeys(budgets, NOTHING_SPENT)
    left = list(budgets)
    while left:
        one = left.pop(0)
        share = one.take(KEY, known[one])
        known[one] = share.spent
        taken += share.requests
        if share.requests:
            left.append(one)
    return taken


def test_processes_share_one_budget_whatever_their_clocks_say(setup):
    processes = [setup.budgets(100, ahead=ahead) for ahead in (0.0, 500.0, -500.0)]
    assert take_all(*processes) == 100  # the bucket of one second
    assert take_all(*processes) == 0
    setup.clock.advance(SECOND // 2)
    assert take_all(*processes) == 50
    setup.clock.advance(HOUR)  # the entry has expired
    assert take_all(*processes) == 100


def test_a_share_has_the_requests_of_a_quarter_second_and_at_least_one(setup):
    assert [setup.budgets(rate).take(("", str(rate), "")).requests for rate in (0.001, 3, 100)] == [1, 1, 25]


def test_an_empty_bucket_says_when_the_next_share_is_due(setup):
    slow, fast = setup.budgets(1 / 1000), setup.budgets(100)
    assert slow.take(KEY).requests == 1
    assert slow.take(KEY).wait_seconds == pytest.approx(1000)
    other = ("main", "worker-2", "claim")
    known = NOTHING_SPENT
    for _ in range(4):
        known = fast.take(other, known).spent
    assert fast.take(other, known).wait_seconds == pytest.approx(0.25)


def test_a_known_empty_bucket_costs_no_call(setup, monkeypatch):
    budgets = setup.budgets(1)
    known = budgets.take(KEY).spent
    monkeypatch.setattr(budgets, "_store", None)
    assert budgets.take(KEY, known).requests == 0


def test_a_clock_of_the_store_that_is_set_back_does_not_block_tokens_until_it_has_caught_up(setup):
    process = setup.budgets(4)
    assert take_all(process) == 4
    setup.clock.advance(-HOUR)
    assert take_all(setup.budgets(4), process) == 4
    assert take_all(setup.budgets(4), process) == 0


def test_a_subject_of_any_length_and_content_has_its_own_bucket(setup):
    budgets = setup.budgets(1)
    keys = [("main", subject, "claim") for subject in ("a", "a\0claim", "ü" * 5000, "'; DROP TABLE", "")]
    assert [budgets.take(key).requests for key in keys] == [1] * len(keys)
    assert all(len(entry.key) <= 64 for entry in setup.store.scan(KIND))


def count(limit: RateLimit, requests: int) -> Counter[str]:
    """Send requests at the same time; return how many were accepted, and how many were refused for how long."""

    async def one() -> str:
        try:
            if not limit.spend(KEY):
                await limit.take(KEY)
        except Problem as problem:
            return problem.headers["Retry-After"]
        return "accepted"

    async def run() -> Counter[str]:
        return Counter(await asyncio.gather(*(one() for _ in range(requests))))

    return asyncio.run(run())


def test_requests_of_two_processes_are_counted_together(setup):
    one, two = setup.limit(100), setup.limit(100)
    assert count(one, 60) == {"accepted": 60}  # holds 15 more
    assert count(two, 60) == {"accepted": 25, "1": 35}
    assert count(one, 60) == {"accepted": 15, "1": 45}


def test_most_requests_ask_nobody(setup, monkeypatch):
    calls = []
    write = setup.store.write
    monkeypatch.setattr(setup.store, "write", lambda changes: calls.append(changes) or write(changes))
    assert count(setup.limit(1000), 1000) == {"accepted": 1000}
    assert len(calls) == 1 + 4  # one to learn the time of the store, and four shares


def test_while_the_store_is_away_each_process_has_the_whole_rate(setup, monkeypatch, caplog):
    one, two = setup.limit(10), setup.limit(10)
    setup.store.close()
    assert count(one, 15) == count(two, 15) == {"accepted": 10, "1": 5}
    assert [record.event for record in caplog.records] == ["http.rate_not_shared"] * 2
    monkeypatch.setattr(one._budgets, "_store", connect("memory://", clock=setup.clock))  # it is back
    setup.clock.advance(int(RateLimitTiming().away_seconds * SECOND))
    assert count(one, 15) == {"accepted": 10, "1": 5}
    assert len(one._budgets._store.scan(KIND)) == 2


def test_a_store_that_does_not_answer_holds_up_no_request_for_long(setup, monkeypatch):
    limit, answers = setup.limit(10, RateLimitTiming(take_seconds=0.05)), threading.Event()
    monkeypatch.setattr(setup.store, "write", lambda _: answers.wait(60))
    try:
        assert count(limit, 15) == {"accepted": 10, "1": 5}
    finally:
        answers.set()


def test_a_token_cannot_change_its_budget_through_the_driver_over_http():
    assert KIND in KINDS_OF_ADMINS


def test_without_a_rate_nothing_is_counted(setup):
    assert count(setup.limit(None), 1000) == {"accepted": 1000}
