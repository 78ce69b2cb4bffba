"""The log of code that is called again and again, and may fail each time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.worker.event_log import log_failure

REPEAT_SECONDS = 10.0  # between two records


class FailureLog:
    """Logs the first exception with its traceback, and then one every ten seconds, each with the number so far."""

    def __init__(self, event: str, /, now: Callable[[], float] = monotonic, **fields: object) -> None:
        """``fields`` are those of every record."""
        self._event = event
        self._fields = fields
        self._now = now
        self._lock = threading.Lock()  # of the two below
        self._failures = 0
        self._logged_at: float | None = None

    def add(self, error: Exception) -> None:
        """Count an exception, and log it if it is time."""
        with self._lock:
            self._failures += 1
            failures, now = self._failures, self._now()
            if self._logged_at is not None and now - self._logged_at < REPEAT_SECONDS:
                return
            self._logged_at = now
        reason = f"{type(error).__name__}: {error}"
        log_failure(self._event, error, **self._fields, reason=reason, failures=failures)
