"""Requests that wait until work of a space may be due, and claim nothing: the verb ``wait`` of drivers.

One call to the store waits for all of them. What this process makes ready wakes them at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import monotonic
from holdfast.drivers.requests import Wait
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.service.tenants.store_calls import StoreCalls

WATCH_SECONDS = 1.0  # of one call to the store
OUTAGE_PAUSE_SECONDS = 1.0  # after a call that failed
PAUSE_SECONDS = 0.02  # before the store is asked for a caller whose reserve has just found nothing


@dataclass(slots=True, eq=False)
class _Waiting:
    request: Wait
    due: asyncio.Future[None] = field(default_factory=asyncio.Future)
    is_watching: bool = False  # the store is asked for it, too

    def wake(self) -> None:
        if not self.due.done():
            self.due.set_result(None)


class WorkWatch:
    """The waiting requests of one space. Used by one event loop."""

    def __init__(self, store: Store, calls: StoreCalls) -> None:
        self._store = store
        self._calls = calls
        self._waiting: list[_Waiting] = []
        self._watch: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Work may be due."""
        for waiting in self._waiting:
            waiting.wake()

    async def wait(self, request: Wait, seconds: float, *, ends: Callable[[], Awaitable[object]]) -> None:
        """Return when work of these queues may be due, after so many seconds, or when ``ends`` has ended.

        Work may be due that the caller cannot reserve: its queue is paused, or its type is unknown. So a caller with
        the mark of a reserve is answered at once only for what this process makes ready.
        """
        waiting = _Waiting(request)
        self._waiting.append(waiting)
        ending = asyncio.ensure_future(ends())
        deadline = monotonic() + seconds
        try:
            if request.since:
                await self._first({waiting.due, ending}, min(PAUSE_SECONDS, seconds))
            waiting.is_watching = True
            while not waiting.due.done() and not ending.done() and (left := deadline - monotonic()) > 0:
                await self._first({waiting.due, ending, self._watched()}, left)
        finally:
            ending.cancel()
            self._waiting.remove(waiting)

    @staticmethod
    async def _first(futures: set[asyncio.Future[Any]], seconds: float) -> None:
        await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)

    def _watched(self) -> asyncio.Future[None]:
        """Return the call to the store that is under way; begin one if there is none."""
        if self._watch is None or self._watch.done():
            watching = [waiting.request for waiting in self._waiting if waiting.is_watching]
            queues = sorted({queue for request in watching for queue in request.queues})
            oldest = min(request.since for request in watching)
            request = Wait(queues=queues, timeout=WATCH_SECONDS, since=oldest)
            self._watch = asyncio.ensure_future(self._ask_store(request))
        return self._watch

    async def _ask_store(self, request: Wait) -> None:
        loop = asyncio.get_running_loop()
        try:
            is_due = await loop.run_in_executor(self._calls.watchers, _is_due, self._store, request)
        except HoldfastError:  # the next reserve reports it
            await asyncio.sleep(OUTAGE_PAUSE_SECONDS)
            return
        for waiting in self._waiting:
            if is_due and waiting.is_watching:
                waiting.wake()


def _is_due(store: Store, request: Wait) -> bool:
    """Whether the wait ended before its time."""
    began = monotonic()
    store.do(request)
    return monotonic() - began < request.timeout
