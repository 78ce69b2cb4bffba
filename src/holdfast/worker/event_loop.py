"""Where async handlers run: on one event loop that stays, and with it what they share (pools, sessions)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

Complete = Callable[[Coroutine[Any, Any, object]], object]  # runs a coroutine to its end


class OwnLoop:
    """A loop in the calling thread, made when first needed."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def complete(self, coroutine: Coroutine[Any, Any, object]) -> object:
        """Run it here. What interrupts it ends the loop as well: nothing half done goes on beside the next attempt."""
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
        """Cancel what is left, and forget the loop."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class SharedLoop:
    """A loop in a thread of its own, on which the attempts of several threads run side by side."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, coroutine: Coroutine[Any, Any, object]) -> Future[object]:
        """Start it there; the future can be waited for, and cancelled."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="holdfast-loop", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
