"""The rate limit of the HTTP service: one token bucket in this process for each token and scope."""

from __future__ import annotations

from collections import Counter

import pytest

from holdfast.clock import SECOND, ManualClock
from holdfast.service import rate_limit
from holdfast.service.problems import Problem
from holdfast.service.rate_limit import Key, RateLimit

KEY = ("main", "worker-1", "claim")


class Setup:
    def __init__(self) -> None:
        self.clock = ManualClock()

    def limit(self, rate: float | None) -> RateLimit:
        return RateLimit(rate, now=lambda: self.clock.now() / SECOND)


@pytest.fixture
def setup():
    return Setup()


def count(limit: RateLimit, requests: int, key: Key = KEY) -> Counter[str]:
    """Count requests; return how many were accepted, and how many were refused for how long."""
    answers: Counter[str] = Counter()
    for _ in range(requests):
        try:
            limit.count(key)
        except Problem as problem:
            answers[problem.headers["Retry-After"]] += 1
        else:
            answers["accepted"] += 1
    return answers


def test_the_requests_of_one_second_are_accepted_at_once_and_the_rate_from_then_on(setup):
    limit = setup.limit(100)
    assert count(limit, 150) == {"accepted": 100, "1": 50}
    setup.clock.advance(SECOND // 2)
    assert count(limit, 150) == {"accepted": 50, "1": 100}
    setup.clock.advance(100 * SECOND)
    assert count(limit, 150) == {"accepted": 100, "1": 50}


def test_a_rate_below_one_a_second_accepts_one_request_and_says_when_the_next_is_due(setup):
    limit = setup.limit(1 / 1000)
    assert count(limit, 2) == {"accepted": 1, "1000": 1}
    setup.clock.advance(400 * SECOND)
    assert count(limit, 1) == {"600": 1}
    setup.clock.advance(600 * SECOND)
    assert count(limit, 1) == {"accepted": 1}


def test_each_token_and_each_scope_has_its_own_bucket(setup):
    limit = setup.limit(1)
    keys = [(*parts, "claim") for parts in (("main", "a"), ("other", "a"), ("main", "a\0claim"), ("main", "ü" * 5000))]
    keys.append(("main", "a", "submit"))
    for key in keys:
        assert count(limit, 2, key) == {"accepted": 1, "1": 1}


def test_each_process_allows_the_whole_rate(setup):
    assert count(setup.limit(10), 15) == count(setup.limit(10), 15) == {"accepted": 10, "1": 5}


def test_the_bucket_that_was_used_longest_ago_is_forgotten(setup, monkeypatch):
    monkeypatch.setattr(rate_limit, "MAX_BUCKETS", 2)
    limit = setup.limit(1)
    old, used, new = [("main", subject, "claim") for subject in ("old", "used", "new")]
    for key in (used, old, used, new):
        count(limit, 1, key)
    assert count(limit, 1, used) == count(limit, 1, new) == {"1": 1}
    assert count(limit, 1, old) == {"accepted": 1}


def test_without_a_rate_nothing_is_counted(setup):
    assert count(setup.limit(None), 1000) == {"accepted": 1000}
