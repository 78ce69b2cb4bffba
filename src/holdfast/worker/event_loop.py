"""Where async handlers run: on one event loop that stays open, so that attempts can share pools and sessions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

RunCoroutine = Callable[[Coroutine[Any, Any, object]], object]  # runs a coroutine to its end, and returns its result


class LocalLoop:
    """An event loop in the calling thread, created when it is first needed."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run the coroutine to its end. An interruption closes the loop, so no task continues in the next attempt."""
        if self._runner is None:
            self._runner = asyncio.Runner()
        try:
            return self._runner.run(coroutine)
        except Exception:
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Cancel the tasks that are left, and close the loop."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


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
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
