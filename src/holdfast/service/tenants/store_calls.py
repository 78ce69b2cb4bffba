"""Calls to the store, which are synchronous: in a bounded number of threads, never on the event loop.

Calls that wait for a thread are bounded, too. A settlement ends work that is already done, so it may still wait when
new work is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from holdfast.service.problems import BUSY_SECONDS, Code, Problem

P = ParamSpec("P")
T = TypeVar("T")

WAITING_PER_THREAD = 8  # calls of new work that may wait for each thread; as many settlements more
WATCH_THREADS = 8  # that wait for work, for the spaces in which workers wait
RATE_THREADS = 2  # that take shares of rate limits: a request waits for its share
BACKGROUND_THREADS = 2  # for maintenance, and for the end of callbacks


class StoreCalls:
    """Runs calls. Safe to use from one event loop."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-http")
        self.watchers = ThreadPoolExecutor(WATCH_THREADS, thread_name_prefix="holdfast-wait")
        self.rates = ThreadPoolExecutor(RATE_THREADS, thread_name_prefix="holdfast-rate")
        self.background = ThreadPoolExecutor(BACKGROUND_THREADS, thread_name_prefix="holdfast-background")
        self._most = threads * (1 + WAITING_PER_THREAD)
        self._running = 0

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in a thread. Raises ``Problem`` if too many calls wait already."""
        return await self._run(self._most, lambda: function(*args, **kwargs))

    async def settle(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that ends or extends leases: refused later than new work."""
        return await self._run(2 * self._most, lambda: function(*args, **kwargs))

    async def compute(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that would hold up the event loop."""
        return await self._run(self._most, lambda: function(*args, **kwargs))

    async def _run(self, most: int, call: Callable[[], T]) -> T:
        if self._running >= most:
            raise Problem(Code.OVERLOADED, "too many calls wait for the store", retry_after=BUSY_SECONDS)
        self._running += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call)
        finally:
            self._running -= 1

    def close(self) -> None:
        """End the threads once their calls have returned."""
        for executor in (self._executor, self.watchers, self.rates, self.background):
            executor.shutdown(wait=True, cancel_futures=True)
