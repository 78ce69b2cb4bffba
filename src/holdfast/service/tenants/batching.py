"""``Batcher``: items of requests that meet become one call to the store.

The first item is sent at once. Items that arrive while its call runs form the next call: the busier the service, the
larger the batch, and no request waits for a timer. Several calls at once were slower, on both SQL stores: their batches
are smaller, and their threads compete with the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.clock import monotonic
from holdfast.service.tenants.store_calls import no_answer

I = TypeVar("I")  # noqa: E741 - an item
A = TypeVar("A")  # its answer

MAX_ITEMS = 200  # in one call


class Batcher(Generic[I, A]):
    """``run`` takes items and returns one answer per item. A failure of the call is the failure of each item."""

    def __init__(
        self,
        run: Callable[[list[I]], Awaitable[Sequence[A]]],
        *,
        queue_seconds: float,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """``queue_seconds``: for which an item may have waited when its call begins; else it is refused."""
        self._run = run
        self._queue_seconds = queue_seconds
        self._now = now
        self._waiting: deque[tuple[float, I, asyncio.Future[A]]] = deque()  # with the time of its arrival
        self._call: asyncio.Task[None] | None = None

    async def submit(self, item: I) -> A:
        """Return the answer for one item. Raises ``Problem`` if the call before it has taken too long."""
        answered: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._now(), item, answered))
        self._start()
        return await answered

    def _start(self) -> None:
        if self._call is None:
            self._refuse_old()
        if self._waiting and self._call is None:
            batch = [self._waiting.popleft()[1:] for _ in range(min(MAX_ITEMS, len(self._waiting)))]
            self._call = asyncio.create_task(self._answer(batch))
            self._call.add_done_callback(self._ended)

    def _refuse_old(self) -> None:
        while self._waiting and self._now() - self._waiting[0][0] > self._queue_seconds:
            _, _, answered = self._waiting.popleft()
            if not answered.done():
                answered.set_exception(no_answer(self._queue_seconds, is_certain=True))

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._call = None
        self._start()

    async def _answer(self, batch: list[tuple[I, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._run([item for item, _ in batch])
        except Exception as error:  # noqa: BLE001 - raised in each request
            for _, answered in batch:
                if not answered.done():
                    answered.set_exception(error)
            return
        for (_, answered), answer in zip(batch, answers, strict=True):
            if not answered.done():
                answered.set_result(answer)
