"""An async connection of the caller: a thread uses it by coroutines that run on the event loop of the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class OnLoop:
    """The connection, and how a thread runs coroutines with it while the caller waits. Made on the caller's loop."""

    def __init__(self, connection: object) -> None:
        self.connection = connection
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = None  # of the running coroutine
        self._is_cancelled = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the event loop; the calling thread waits for it. Cancelled if the caller is."""
        return asyncio.run_coroutine_threadsafe(self._run(coroutine), self._loop).result()

    async def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._is_cancelled:
            coroutine.close()
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            return await coroutine
        finally:
            self._task = None

    async def wait(self, call: Future[T]) -> T:
        """Return the result of the call in the thread.

        If the caller is cancelled, cancel the coroutine and wait for both: nothing uses the connection afterwards.
        """
        ended = asyncio.wrap_future(call)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._is_cancelled = True
            if self._task is not None:
                self._task.cancel()
            while not ended.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({ended})
            raise
