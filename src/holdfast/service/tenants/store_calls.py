"""Calls to the store, which are synchronous: in a bounded number of threads, never on the event loop.

Calls that wait for a thread are bounded, too. A settlement ends work that is already done, so it may still wait when
new work is refused.

A call that has no answer after some seconds ends with 503. It may still be carried out: its thread goes on waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from holdfast.clock import monotonic
from holdfast.service.problems import BUSY_SECONDS, OUTAGE_SECONDS, Code, Problem

P = ParamSpec("P")
T = TypeVar("T")

WAITING_PER_THREAD = 8  # calls of new work that may wait for each thread; as many settlements more
WATCH_THREADS = 8  # that wait for work, for the spaces in which workers wait
BACKGROUND_THREADS = 2  # for maintenance, and for the end of callbacks


class StoreCalls:
    """Runs calls. Safe to use from one event loop."""

    def __init__(self, threads: int, *, seconds: float, queue_seconds: float) -> None:
        """``seconds``: for a call and its wait for a thread. ``queue_seconds``: before that, in a batch."""
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="holdfast-http")
        self.watchers = ThreadPoolExecutor(WATCH_THREADS, thread_name_prefix="holdfast-wait")
        self.background = ThreadPoolExecutor(BACKGROUND_THREADS, thread_name_prefix="holdfast-background")
        self._parser = ThreadPoolExecutor(1, thread_name_prefix="holdfast-parse")
        self._rests_until = 0.0
        self.seconds = seconds
        self.queue_seconds = queue_seconds
        self._most = threads * (1 + WAITING_PER_THREAD)
        self._running = 0
        self._late: set[asyncio.Future[None]] = set()  # what is done about answers that came too late

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in a thread. Raises ``Problem`` if too many calls wait already, or without an answer."""
        return await self._run(self._most, lambda: function(*args, **kwargs))

    async def settle(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that ends or extends leases: refused later than new work."""
        return await self._run(2 * self._most, lambda: function(*args, **kwargs))

    async def parse(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that parses a large body: one at a time, after a rest as long as the one before has taken.

        Parsing holds the interpreter, in a thread, too: with the rests, other requests have half of the time.
        """
        return await asyncio.get_running_loop().run_in_executor(
            self._parser, self._parse, lambda: function(*args, **kwargs)
        )

    def _parse(self, call: Callable[[], T]) -> T:
        time.sleep(max(0.0, self._rests_until - monotonic()))
        began = monotonic()
        try:
            return call()
        finally:
            self._rests_until = 2 * monotonic() - began

    async def reserve(self, function: Callable[[], T], on_late: Callable[[T], Awaitable[None]]) -> T:
        """Call a function that reserves. ``on_late`` gets an answer that comes when nobody waits for it any more."""
        return await self._run(self._most, function, on_late)

    async def _run(self, most: int, call: Callable[[], T], on_late: Callable[[T], Awaitable[None]] | None = None) -> T:
        if self._running >= most:
            raise Problem(Code.OVERLOADED, "too many calls wait for the store", retry_after=BUSY_SECONDS)
        self._running += 1
        called = self._executor.submit(call)
        answered = asyncio.wrap_future(called)
        try:
            async with asyncio.timeout(self.seconds):
                return await asyncio.shield(answered)
        except TimeoutError:
            raise no_answer(self.seconds, is_certain=called.cancel()) from None
        finally:
            self._running -= 1
            if not called.cancel() and not answered.done():  # it has begun, and nobody waits for it any more
                answered.add_done_callback(lambda late: self._answered_late(late, on_late))

    def _answered_late(self, answered: asyncio.Future[T], on_late: Callable[[T], Awaitable[None]] | None) -> None:
        if not answered.cancelled() and answered.exception() is None and on_late is not None:
            handled = asyncio.ensure_future(on_late(answered.result()))
            self._late.add(handled)
            handled.add_done_callback(self._late.discard)

    def close(self) -> None:
        """End the threads once their calls have returned."""
        for executor in (self._executor, self.watchers, self.background, self._parser):
            executor.shutdown(wait=True, cancel_futures=True)


def no_answer(seconds: float, *, is_certain: bool) -> Problem:
    """Return the problem of a call that has waited for so long; ``is_certain``: nothing was or will be changed."""
    detail = f"the store has not answered within {seconds:g} s"
    if is_certain:
        return Problem(Code.STORE_BUSY, f"{detail}; nothing was changed", retry_after=OUTAGE_SECONDS)
    return Problem(Code.STORE_UNAVAILABLE, f"{detail}; the call may still be carried out", retry_after=OUTAGE_SECONDS)
