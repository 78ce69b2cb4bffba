"""No faster than a rate: how large pieces may be, and when the next one may begin."""

from __future__ import annotations

import time
from collections.abc import Callable

from holdfast.clock import monotonic

TICKS = 10  # pieces in a second, so that a rate is felt as a flow and not as surges


class Pace:
    """Counted from when it is made. Time that was lost is not made up for: whoever is behind goes on at the rate."""

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

    def size(self, most: int) -> int:
        """How many may be done together."""
        return most if self._rate is None else max(1, min(most, int(self._rate / TICKS)))

    def wait(self, size: int) -> None:
        """Until so many more may be done."""
        if self._rate is None:
            return
        early = self._next - self._now()
        if early > 0:
            self._sleep(early)
        self._next = max(self._next, self._now()) + size / self._rate
