"""Where async handlers run: on one event loop that stays open, so that attempts can share pools and sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any

RunCoroutine = Callable[[Coroutine[Any, Any, object]], object]  # runs a coroutine to its end, and returns its result
BeforeClose = Callable[[], Awaitable[None]]


class LocalLoop:
    """An event loop in the calling thread, created when it is first needed."""

    def __init__(self, before_close: BeforeClose) -> None:
        """``before_close`` runs on the loop before it is closed."""
        self._before_close = before_close
        self._runner: asyncio.Runner | None = None
        self._attempt: asyncio.Task[object] | None = None
        self._lock = threading.RLock()  # one coroutine at a time; reentrant: a call inside of another one is an error

    def run(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run the coroutine to its end. An interruption closes the loop, so no task continues in the next attempt."""
        with self._lock:
            if self._runner is None:
                self._runner = asyncio.Runner()
            try:
                return self._runner.run(self._run(coroutine), context=copy_context())
            except Exception:
                raise
            except BaseException:
                self.close()
                raise

    async def _run(self, coroutine: Coroutine[Any, Any, object]) -> object:
        self._attempt = asyncio.current_task()
        return await coroutine

    def close(self) -> None:
        """End an attempt that was interrupted, run ``before_close``, cancel the tasks that are left, close the loop."""
        with self._lock:
            runner, self._runner = self._runner, None
            if runner is not None:
                with runner:
                    runner.run(self._end())

    async def _end(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None and not attempt.done():
            attempt.cancel()
            await asyncio.wait({attempt})
        await self._before_close()


async def _run_in(context: Context, coroutine: Coroutine[Any, Any, object]) -> object:
    """Run a coroutine in the context of the thread that waits for it: it sees what a middleware has set there."""
    return await asyncio.get_running_loop().create_task(coroutine, context=context)


class SharedLoop:
    """An event loop in its own thread, on which the attempts of several threads run concurrently."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, object]) -> Future[object]:
        """Start the coroutine on the loop. The future can be waited for, and cancelled."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="holdfast-loop", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(_run_in(copy_context(), coroutine), self._loop)

    def close(self, before_close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``before_close`` on the loop, if there is one, and stop it. No attempt is running."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(before_close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
