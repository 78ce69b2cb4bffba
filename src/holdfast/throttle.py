"""A client-side rate limit for bulk actions: how large a batch may be, and when the next one may start."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.clock import monotonic

BATCHES_PER_SECOND = 10  # small batches spread the load over each second


class Throttle:
    """Limits a loop to ``rate`` items a second; None is no limit. A loop that fell behind does not catch up."""

    def __init__(
        self,
        rate: float | None,
        *,
        now: Callable[[], float] = monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._now = now
        self._sleep = sleep
        self._next = now()

    def batch_size(self, most: int) -> int:
        """Return how many items the next batch may have, at most ``most`` and at least 1."""
        return most if self._rate is None else max(1, min(most, int(self._rate / BATCHES_PER_SECOND)))

    def wait(self, size: int) -> None:
        """Sleep until a batch of ``size`` items may start."""
        if self._rate is None:
            return
        seconds = self._next - self._now()
        if seconds > 0:
            self._sleep(seconds)
        self._next = max(self._next, self._now()) + size / self._rate
