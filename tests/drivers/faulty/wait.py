"""Faulty drivers: waits that end too late."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

from holdfast.clock import monotonic
from tests.drivers.faulty.faulty_driver import FaultyDriver


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


class CancelDoesNotWake(FaultyDriver):
    """A wait for a cancel looks for a request before it sleeps, and is not woken by a later one."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Look twice: at the beginning and at the end."""
        if super().wait_for_cancel(job_ids, timeout=0):
            return True
        threading.Event().wait(timeout)
        return super().wait_for_cancel(job_ids, timeout=0)


class EarlierCancelNotSeen(FaultyDriver):
    """A wait for a cancel ends at a change of the store only: a request from before the call is not seen."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Wait for a change before the first look."""
        deadline = monotonic() + timeout
        with self._lock:
            seen = self._store.changes
            self._lock.wait_for(lambda: self._store.changes != seen, timeout)
        return super().wait_for_cancel(job_ids, timeout=max(0.0, deadline - monotonic()))


class AnyCancelWakes(FaultyDriver):
    """A wait for a cancel reports requests for any job, also for one that it was not asked about."""

    def wait_for_cancel(self, job_ids: Collection[str], *, timeout: float) -> bool:
        """Ask about all jobs."""
        return super().wait_for_cancel([*job_ids, *self._space.rows], timeout=timeout)


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    WaitForgetsDueTimes,
    WaitIgnoresRates,
    CancelDoesNotWake,
    EarlierCancelNotSeen,
    AnyCancelWakes,
)
