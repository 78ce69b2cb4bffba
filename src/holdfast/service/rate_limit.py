"""``RateLimit``: how often a token may call, per scope, over all processes that share a store.

A process takes shares of a token's budget from the store (``RateBudgets``) and spends them by itself. So most requests
ask nobody, and a request that needs the next share waits for it beside the event loop. While the store does not
answer, or if it cannot share, each process limits by itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from holdfast.clock import monotonic
from holdfast.errors import StoreError
from holdfast.service.problems import Code, Problem
from holdfast.service.rate_budget import NOTHING_SPENT, Key, RateBudgets, Spent
from holdfast.worker.event_log import log_event

MAX_BUCKETS = 10_000  # tokens and scopes that a process remembers


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitTiming:
    """The time constants of a rate limit."""

    take_seconds: float = 1.0  # for which a request waits for a share
    away_seconds: float = 5.0  # for which the store is not asked after it has failed


@dataclass(slots=True)
class _Bucket:
    """What a process knows of the budget of one token and scope."""

    requests: int = 0  # left of the last share
    spent: Spent = NOTHING_SPENT
    empty_until: float = 0.0
    taking: asyncio.Task[None] | None = None
    level: float = math.inf  # of the limit of this process alone; the next check caps it
    level_at: float = 0.0


class RateLimit:
    """Counts requests. Used by one event loop."""

    def __init__(
        self,
        rate: float | None,
        budgets: RateBudgets | None = None,
        executor: Executor | None = None,
        *,
        now: Callable[[], float] = monotonic,
        timing: RateLimitTiming = RateLimitTiming(),
    ) -> None:
        """Share the limit through ``budgets``, whose calls run in ``executor``; without them, limit this process."""
        self._rate = rate
        self._budgets = budgets
        self._executor = executor
        self._now = now
        self._timing = timing
        self._away_until = 0.0
        self._buckets: OrderedDict[Key, _Bucket] = OrderedDict()

    def spend(self, key: Key) -> bool:
        """Count one request, if this process holds a share for it; else ``take`` must count it."""
        if self._rate is None:
            return True
        bucket = self._buckets.get(key)
        if bucket is None or not bucket.requests:
            return False
        bucket.requests -= 1
        return True

    async def take(self, key: Key) -> None:
        """Count one request, with the next share. Raises ``Problem`` with the time after which to call again."""
        bucket = self._bucket(key)
        while not bucket.requests:
            if self._budgets is None or self._now() < self._away_until:
                self._check_alone(bucket)
                return
            if self._now() < bucket.empty_until:
                raise _limited(bucket.empty_until - self._now())
            if bucket.taking is None:
                bucket.taking = asyncio.create_task(self._take_share(key, bucket))
            await asyncio.shield(bucket.taking)
        bucket.requests -= 1

    def _bucket(self, key: Key) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
            while len(self._buckets) > MAX_BUCKETS:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket

    async def _take_share(self, key: Key, bucket: _Bucket) -> None:
        """Take a share, or learn that there is none. A failure of the store lets the process go on alone."""
        assert self._budgets is not None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timing.take_seconds):
                share = await loop.run_in_executor(self._executor, self._budgets.take, key, bucket.spent)
        except (TimeoutError, StoreError) as error:
            self._away_until = self._now() + self._timing.away_seconds
            log_event(logging.WARNING, "http.rate_not_shared", reason=str(error) or "the store took too long")
        else:
            bucket.spent = share.spent
            bucket.requests += share.requests
            if not share.requests:
                bucket.empty_until = self._now() + share.wait_seconds
        finally:
            bucket.taking = None

    def _check_alone(self, bucket: _Bucket) -> None:
        """Count one request in a token bucket of this process, which holds the requests of one second."""
        assert self._rate is not None
        now, full = self._now(), max(1.0, self._rate)
        bucket.level = min(full, bucket.level + (now - bucket.level_at) * self._rate)
        bucket.level_at = now
        if bucket.level < 1:
            raise _limited((1 - bucket.level) / self._rate)
        bucket.level -= 1


def _limited(seconds: float) -> Problem:
    return Problem(Code.RATE_LIMITED, retry_after=max(1, math.ceil(seconds)))
