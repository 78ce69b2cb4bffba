"""The log of code that is called again and again, and may fail each time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.log.events import Event
from holdfast.log.records import log_failure

REPEAT_SECONDS = 10.0  # between two records


class Repeats:
    """Counts what happens again and again, and tells when to log it: the first time, and then once per interval."""

    def __init__(self, seconds: float = REPEAT_SECONDS, *, now: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._now = now
        self._lock = threading.Lock()  # of the two below
        self._count = 0
        self._logged_at: float | None = None

    def add(self) -> int | None:
        """Count one; return the number so far if it is time to log it."""
        with self._lock:
            self._count += 1
            now = self._now()
            if self._logged_at is not None and now - self._logged_at < self._seconds:
                return None
            self._logged_at = now
            return self._count


class FailureLog:
    """Logs the first exception with its traceback, and then one every ten seconds, each with the number so far."""

    def __init__(self, event: Event, /, now: Callable[[], float] = monotonic, **fields: object) -> None:
        """``fields`` are those of every record."""
        self._event = event
        self._fields = fields
        self._repeats = Repeats(now=now)

    def add(self, error: Exception) -> None:
        """Count an exception, and log it if it is time."""
        failures = self._repeats.add()
        if failures is not None:
            reason = f"{type(error).__name__}: {error}"
            log_failure(self._event, error, **self._fields, reason=reason, failures=failures)
