"""Maintenance of the store, which every worker does besides its jobs: reap expired leases, trim old rows."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from holdfast.clock import from_timedelta, monotonic
from holdfast.drivers.contract import Store
from holdfast.settings import DEFAULT_KEEP_ENDED, DEFAULT_KEEP_LEDGER

log = logging.getLogger("holdfast.worker")

REAP_INTERVAL_SECONDS = 5.0  # about; queues that no worker reserves from are repaired too
TRIM_INTERVAL_SECONDS = 60.0  # about
TRIM_LIMIT_ROWS = 1000  # of each kind in one call: retention never delays a reserve for long


class Maintenance:
    """Reaps and trims at intervals that differ between workers, so that they do not all do it at once."""

    def __init__(self, driver: Store, *, keep_ended: timedelta | None, keep_ledger: timedelta | None) -> None:
        self._driver = driver
        self._keep_ended = from_timedelta(keep_ended or DEFAULT_KEEP_ENDED)
        self._keep_ledger = from_timedelta(keep_ledger or DEFAULT_KEEP_LEDGER)
        self._random = random.Random()  # noqa: S311 - jitter
        self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
        self._trim_at = self._after_about(TRIM_INTERVAL_SECONDS)

    def run_due(self) -> None:
        """Reap and trim if it is time. Never raises: a failure is logged, and the part is tried again when next due."""
        if monotonic() >= self._reap_at:
            self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
            with _logged("reap"):
                self._driver.reap()
        if monotonic() >= self._trim_at:
            self._trim_at = self._after_about(TRIM_INTERVAL_SECONDS)
            with _logged("trim"):
                keep = {"ended_for": self._keep_ended, "ledger_for": self._keep_ledger}
                if self._driver.trim(**keep, limit=TRIM_LIMIT_ROWS).more:
                    self._trim_at = monotonic()

    def _after_about(self, seconds: float) -> float:
        return monotonic() + self._random.uniform(0.5, 1.5) * seconds


@contextmanager
def _logged(task: str) -> Iterator[None]:
    """Log any failure of a task: jobs can be done without it, and one unreadable row must not end every worker."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - also those of a driver that are no StoreError
        log.warning("maintenance.failed", extra={"task": task, "error": f"{type(error).__name__}: {error}"})
