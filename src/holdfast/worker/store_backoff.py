"""The breaker of a store, local to one worker: the longer the store fails, the more rarely the worker calls it.

Many workers that call a store that has just started would keep it from starting. Every call after a pause is a probe,
and the first one that is answered ends the pauses. No state is shared: the store is what fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.25
MAX_PAUSE_SECONDS = 5.0


class StoreBackoff:
    """Counts the failed reserves in a row of one worker."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self._failures = 0

    def failed(self) -> float:
        """Return how many seconds to pause after this failure: doubled each time, with jitter."""
        whole = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 10), MAX_PAUSE_SECONDS)
        self._failures += 1
        return whole * (0.5 + self._jitter() / 2)

    def answered(self) -> None:
        """Begin again with the first pause."""
        self._failures = 0
