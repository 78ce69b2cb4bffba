"""Faulty drivers: waits that end too late."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import monotonic
from holdfast.testing.drivers.faulty.faulty_driver import FaultyDriver


class WaitForgetsDueTimes(FaultyDriver):
    """A wait ends at a change of the store or after its timeout, not when a scheduled job becomes due."""

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``."""
        self._validation.check_wait(queues, timeout)
        deadline = monotonic() + timeout
        with self._lock:
            self._open_space()
            seen = getattr(self._last_reserve, "changes", -1)
            while self._store.changes == seen and (left := deadline - monotonic()) > 0:
                self._lock.wait(left)


class WaitIgnoresRates(WaitForgetsDueTimes):
    """A wait for a queue with a rate limit does not end when the rate allows the next job."""

    def wait(self, queues: Sequence[str], *, timeout: float) -> None:
        """See ``Driver.wait``."""
        if any(settings.rate is not None for settings in self._space.settings.values()):
            super().wait(queues, timeout=timeout)
        else:
            FaultyDriver.wait(self, queues, timeout=timeout)


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (WaitForgetsDueTimes, WaitIgnoresRates)
