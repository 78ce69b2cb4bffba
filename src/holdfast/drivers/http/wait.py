"""Waiting over HTTP: a long wait is several requests, and a wait that found nothing makes the next one more patient."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.drivers.remote.verbs import MAX_WAIT_SECONDS

STOPPING_SECONDS = 0.2  # an answer before this is that of a service that stops
MAX_FRUITLESS = 16  # more make no difference


class Waits:
    """How often the waits of each thread ended early, and no reserve has found a job since."""

    def __init__(self) -> None:
        self._local = threading.local()

    @property
    def fruitless(self) -> int:
        """The count of this thread."""
        return min(getattr(self._local, "count", 0), MAX_FRUITLESS)

    def ended_early(self) -> None:
        """Record a wait that ended because a job may be due."""
        self._local.count = self.fruitless + 1

    def note_reservation(self) -> None:
        """Record that this thread has reserved a job."""
        self._local.count = 0


def wait_in_parts(ask: Callable[[float], bool], timeout: float, *, pause: Callable[[float], None]) -> bool:
    """Call ``ask`` with the seconds of each part until it returns True; False after ``timeout`` seconds.

    A service that is about to stop answers at once: a ``pause`` keeps the next request from being sent at once, too.
    """
    deadline = monotonic() + timeout
    while True:
        began = monotonic()
        if ask(max(0.0, min(deadline - began, MAX_WAIT_SECONDS))):
            return True
        if monotonic() >= deadline:
            return False
        if monotonic() - began < STOPPING_SECONDS:
            pause(STOPPING_SECONDS)
