"""``RateLimit``: how often a token may call this process, per scope."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable

from holdfast.clock import monotonic
from holdfast.service.problems import Code, Problem

MAX_BUCKETS = 10_000  # tokens and scopes that a process remembers

Key = tuple[str, str, str]  # space, subject, scope


class RateLimit:
    """Counts requests in a token bucket for each key, which holds the requests of one second."""

    def __init__(self, rate: float | None, *, now: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._now = now
        self._buckets: OrderedDict[Key, tuple[float, float]] = OrderedDict()  # requests left, and when; last used last

    def count(self, key: Key) -> None:
        """Count one request. Raises ``Problem`` with the time after which to call again."""
        if self._rate is None:
            return
        now, full = self._now(), max(1.0, self._rate)
        left, at = self._buckets.get(key, (full, now))
        left = min(full, left + (now - at) * self._rate)
        self._buckets[key] = left - (left >= 1), now
        self._buckets.move_to_end(key)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        if left < 1:
            raise Problem(Code.RATE_LIMITED, retry_after=max(1, math.ceil((1 - left) / self._rate)))
