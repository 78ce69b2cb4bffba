"""Which successes are lines of their own: each while there are few, else one line per second and type says how many.

A line per successful job would cost more than the job's own part in a drain of quick jobs.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from holdfast.clock import monotonic

SHOWN_PER_SECOND = 50
SECONDS = 1.0  # of a summary


class Summary(NamedTuple):
    """The successes of one type that were not shown one by one."""

    type: str
    jobs: int
    median: float  # seconds
    longest: float


class SuccessLog:
    """Counts successes second by second.

    The first ``SHOWN_PER_SECOND`` of a second are shown, unless the second before it had more: under load the summary
    of a second is about all its jobs.
    """

    def __init__(self, *, now: Callable[[], float] = monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()  # of all below: one thread settles, another one asks for summaries
        self._began_at = now()
        self._left = SHOWN_PER_SECOND  # of those that may be shown in this second
        self._count = 0  # in this second
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)  # by type, of those that are not shown

    def add(self, type_: str, seconds: float) -> bool:
        """Count a success; return whether to show it."""
        with self._lock:
            self._count += 1
            if self._left > 0:
                self._left -= 1
                return True
            self._seconds[type_].append(seconds)
            return False

    def take(self, *, at_once: bool = False) -> list[Summary]:
        """Return the summaries of a second that has passed; with ``at_once``, also of one that has not."""
        now = self._now()
        with self._lock:
            if now - self._began_at < SECONDS and not at_once:
                return []
            is_busy = self._count > SHOWN_PER_SECOND and now - self._began_at < 2 * SECONDS
            self._began_at, self._count, self._left = now, 0, 0 if is_busy else SHOWN_PER_SECOND
            taken, self._seconds = self._seconds, defaultdict(list)
        return [Summary(type_, len(each), median(each), max(each)) for type_, each in sorted(taken.items())]
