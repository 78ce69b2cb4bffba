"""The upkeep of the store that every worker does beside its jobs: reap expired leases, trim old rows."""

from __future__ import annotations

import random
from datetime import timedelta

from holdfast.clock import from_timedelta, monotonic
from holdfast.drivers.contract import Store
from holdfast.settings import DEFAULT_KEEP_ENDED, DEFAULT_KEEP_LEDGER

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
        """Reap and trim if it is time. Raises ``StoreError``; the failed part is due again at the next call."""
        if monotonic() >= self._reap_at:
            self._driver.reap()
            self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
        if monotonic() >= self._trim_at:
            trimmed = self._driver.trim(ended_for=self._keep_ended, ledger_for=self._keep_ledger, limit=TRIM_LIMIT_ROWS)
            self._trim_at = self._after_about(0.0 if trimmed.more else TRIM_INTERVAL_SECONDS)

    def _after_about(self, seconds: float) -> float:
        return monotonic() + self._random.uniform(0.5, 1.5) * seconds
