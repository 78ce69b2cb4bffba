"""A call in a thread of its own: the caller can wait for it, handle signals meanwhile, and leave it behind."""

from __future__ import annotations

import threading
from collections.abc import Callable


class BackgroundCall:
    """Calls a function once, in a daemon thread."""

    def __init__(self, function: Callable[[], None], *, name: str) -> None:
        self._function = function
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def has_ended(self) -> bool:
        """Whether the function has returned or raised."""
        return self._ended.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the function has ended, at most ``timeout`` seconds; return whether it has, or raise its error."""
        has_ended = self._ended.wait(timeout)
        if has_ended and self._failure is not None:
            raise self._failure
        return has_ended

    def _run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._failure = error
        finally:
            self._ended.set()
