"""Claims that wait for work (long poll): one loop per space reserves for all of them, the longest waiting first.

While no work comes, a round costs one ``reserve`` per set of queues and commands, however many workers wait. A round
starts when this process has made a task ready, when the store says that work may be due, and at least once a second.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.clock import monotonic
from holdfast.drivers.store import Store
from holdfast.errors import HoldfastError
from holdfast.model.lease import Reservation
from holdfast.model.settlement import Release
from holdfast.service.problems import Problem
from holdfast.service.tenants.store_calls import StoreCalls

WATCH_SECONDS = 1.0  # of one call that waits for work of other processes; also the longest time between two rounds
FIRST_PAUSE_SECONDS = 0.02  # after a round that found nothing although work may be due: others want it, or it is held
MAX_PAUSE_SECONDS = 0.5
OUTAGE_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What a claim asks for. ``types`` of None are all types."""

    queues: tuple[str, ...]
    types: tuple[str, ...] | None
    limit: int
    lease_for: int
    worker: str


@dataclass(slots=True, eq=False)
class _Waiting:
    want: Want
    found: asyncio.Future[list[Reservation]] = field(default_factory=asyncio.Future)


class WaitingClaims:
    """The claims of one space that wait."""

    def __init__(
        self, store: Store, calls: StoreCalls, reserve: Callable[[Want], Awaitable[list[Reservation]]]
    ) -> None:
        self._store = store
        self._calls = calls
        self._reserve = reserve
        self._waiting: list[_Waiting] = []
        self._ready = asyncio.Event()  # this process has made a task ready
        self._watch: asyncio.Future[None] | None = None
        self._loop: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """A task may be ready."""
        self._ready.set()

    async def wait(self, want: Want, seconds: float, *, ends: Callable[[], Awaitable[object]]) -> list[Reservation]:
        """Return the reservations of a claim; none after so many seconds, or when ``ends`` has ended.

        If ``ends`` and a reservation happen together, the reservation is returned: the caller gives it back.
        """
        waiting = _Waiting(want)
        self._waiting.append(waiting)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._reserve_until_idle())
        ending = asyncio.ensure_future(ends())
        try:
            awaited: set[asyncio.Future[Any]] = {waiting.found, ending}
            await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            with contextlib.suppress(ValueError):  # the loop has taken it out
                self._waiting.remove(waiting)
        if waiting.found.done():
            return waiting.found.result()
        waiting.found.cancel()
        return []

    async def stop(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop

    async def _reserve_until_idle(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while self._waiting:
            self._ready.clear()
            try:
                found = await self._round()
            except (HoldfastError, Problem):  # the next round tries again; claims that begin now learn of the outage
                found = False
                pause = OUTAGE_PAUSE_SECONDS
            if found:
                pause = FIRST_PAUSE_SECONDS
                continue
            began = monotonic()
            await self._idle()
            if self._ready.is_set() or monotonic() - began >= WATCH_SECONDS / 2:
                pause = FIRST_PAUSE_SECONDS
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _round(self) -> bool:
        """Reserve once for each waiting claim; return whether one got something.

        Claims for the same queues and types find nothing after the first one of them did.
        """
        found_any = False
        exhausted: set[tuple[tuple[str, ...], tuple[str, ...] | None]] = set()
        for waiting in list(self._waiting):
            want = waiting.want
            if (want.queues, want.types) in exhausted or waiting not in self._waiting:
                continue
            reservations = await self._reserve(want)
            if not reservations:
                exhausted.add((want.queues, want.types))
                continue
            found_any = True
            if waiting.found.done():  # the claim has ended meanwhile
                await self._calls.settle(give_back, self._store, reservations)
                continue
            waiting.found.set_result(reservations)
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiting)
        return found_any

    async def _idle(self) -> None:
        """Wait until work may be ready, for about a second at most."""
        queues = sorted({queue for waiting in self._waiting for queue in waiting.want.queues})
        if not queues:
            return
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().run_in_executor(self._calls.watchers, _watch, self._store, queues)
        ready = asyncio.ensure_future(self._ready.wait())
        try:
            awaited: set[asyncio.Future[Any]] = {ready, self._watch}
            await asyncio.wait(awaited, timeout=WATCH_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()


def _watch(store: Store, queues: list[str]) -> None:
    with contextlib.suppress(HoldfastError):  # the next reserve reports it
        store.wait(queues, timeout=WATCH_SECONDS)


def give_back(store: Store, reservations: list[Reservation]) -> None:
    """Release tasks that no worker has got. Their attempts do not count."""
    store.settle([Release(one.lease) for one in reservations])
