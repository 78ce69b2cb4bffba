"""Faulty drivers: waits that end too late."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.clock import monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.memory import admin
from tests.drivers.faulty.faulty_driver import FaultyDriver


class WaitForgetsDueTimes(FaultyDriver):
    """A wait ends at a change of the store or after its timeout, not when a scheduled job becomes due."""

    def wait(self, request: r.Wait) -> None:
        """Wait for a change."""
        deadline, (seen, _) = monotonic() + request.timeout, request.since or (self._store.changes, 0)
        while self._store.changes == seen and (left := deadline - monotonic()) > 0:
            self._store.lock.wait(left)


class WaitIgnoresRates(WaitForgetsDueTimes):
    """A wait for a queue with a rate limit does not end when the rate allows the next job."""

    def wait(self, request: r.Wait) -> None:
        """Wait for a change if a queue has a rate."""
        if any(settings.rate is not None for settings in self._space.settings.values()):
            super().wait(request)
        else:
            FaultyDriver.wait(self, request)


class WaitReturnsAtOnce(FaultyDriver):
    """A wait does not wait."""

    def wait(self, request: r.Wait) -> None:
        """Return."""


class CancelDoesNotWake(FaultyDriver):
    """A wait for a cancel looks for a request before it sleeps, and is not woken by a later one."""

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Look twice: at the beginning and at the end."""
        if admin.is_cancel_requested(self._space, request.job_ids):
            return True
        deadline = monotonic() + request.timeout
        while (left := deadline - monotonic()) > 0:
            self._store.lock.wait(left)
        return admin.is_cancel_requested(self._space, request.job_ids)


class EarlierCancelNotSeen(FaultyDriver):
    """A wait for a cancel ends at a change of the store only: a request from before the call is not seen."""

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Wait for a change before the first look."""
        deadline, seen = monotonic() + request.timeout, self._store.changes
        self._store.lock.wait_for(lambda: self._store.changes != seen, request.timeout)
        return super().wait_for_cancel(replace(request, timeout=max(0.0, deadline - monotonic())))


class AnyCancelWakes(FaultyDriver):
    """A wait for a cancel reports requests for any job, also for one that it was not asked about."""

    def wait_for_cancel(self, request: r.WaitForCancel) -> bool:
        """Ask about all jobs."""
        return super().wait_for_cancel(replace(request, job_ids=[*request.job_ids, *self._space.rows]))


FAULTY_DRIVERS: tuple[type[FaultyDriver], ...] = (
    WaitForgetsDueTimes,
    WaitIgnoresRates,
    WaitReturnsAtOnce,
    CancelDoesNotWake,
    EarlierCancelNotSeen,
    AnyCancelWakes,
)
