"""How a worker is told to end: stop reserving, drain, interrupt; and the time that each step may take."""

from __future__ import annotations

import math
import signal
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from holdfast.clock import monotonic

CALLER_EVENT_POLL_SECONDS = 0.25  # between two looks at the event of the caller
MIN_SETTLE_SECONDS = 2.0  # that a stopped worker waits for its last settlements, also after drain and grace


class Shutdown:
    """The stop requests of one worker. Any thread may make them."""

    def __init__(self) -> None:
        self.caller_event = threading.Event()  # of ``Worker.run``: setting it is a request, too
        self._hold = threading.Event()
        self._stop = threading.Event()
        self._at_once = threading.Event()
        self._deadline = math.inf  # monotonic seconds: when the drain and the grace time end
        self._reason = "the event of the caller is set"

    def request(self, *, at_once: bool = False, reason: str = "stop() was called") -> None:
        """Ask the worker to stop; with ``at_once``, without its drain time."""
        if not self._stop.is_set():
            self._reason = reason
        self._stop.set()
        if at_once:
            self._at_once.set()

    def hold(self) -> None:
        """Ask the worker to reserve no more."""
        self._hold.set()

    @property
    def is_requested(self) -> bool:
        """Whether the worker is to stop."""
        return self._stop.is_set() or self.caller_event.is_set()

    @property
    def reason(self) -> str:
        """Who asked the worker to stop: the name of a signal, or the caller. Empty if nobody did."""
        return self._reason if self.is_requested else ""

    @property
    def is_at_once(self) -> bool:
        """Whether running jobs are to be interrupted now."""
        return self._at_once.is_set()

    @property
    def is_holding(self) -> bool:
        """Whether the worker is to reserve no more."""
        return self._hold.is_set()

    def pause(self, seconds: float) -> None:
        """Wait; a stop request ends the wait."""
        deadline = monotonic() + seconds
        while not self.is_requested and (left := deadline - monotonic()) > 0:
            self._stop.wait(min(left, CALLER_EVENT_POLL_SECONDS))

    def begin_drain(self, drain: timedelta | None, grace: timedelta) -> float | None:
        """Return the instant in monotonic seconds until which running jobs may end; None: without a limit."""
        if drain is None:
            return None
        until = monotonic() + drain.total_seconds()
        self._deadline = until + grace.total_seconds()
        return until

    def time_to_settle(self, most_seconds: float) -> Callable[[], float]:
        """Return a function that says how many seconds are left for the last settlements. All jobs have ended.

        A stop bounds them by drain and grace, also a stop that comes now; a second stop shortens them once more.
        """
        began = monotonic()

        def seconds_left() -> float:
            until = began + most_seconds
            if self.is_requested:
                drained_at = began if self.is_at_once else self._deadline
                until = max(began + MIN_SETTLE_SECONDS, min(until, drained_at))
            return max(0.0, until - monotonic())

        return seconds_left

    @contextmanager
    def by_signals(self) -> Iterator[None]:
        """The first SIGTERM or SIGINT stops the worker, the second stops it at once. Only in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, _frame: types.FrameType | None) -> None:
            self.request(at_once=self._stop.is_set(), reason=signal.Signals(number).name)

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
