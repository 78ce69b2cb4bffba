"""Maintenance of the store, which every worker does besides its jobs: reap expired leases, trim old rows.

Beside that it reports domains that have stopped.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta

from holdfast.clock import monotonic
from holdfast.drivers.contract import Feature, Store, Trimmed
from holdfast.model import retention
from holdfast.model.retention import Retention, choose_retention, read_retention, store_retention
from holdfast.worker.event_log import log_event
from holdfast.worker.stopped_domains import StoppedDomainLog

REAP_INTERVAL_SECONDS = 5.0  # about; queues that no worker reserves from are repaired too
TRIM_INTERVAL_SECONDS = 60.0  # about
DOMAINS_INTERVAL_SECONDS = 30.0  # about
TRIM_LIMIT_ROWS = 1000  # of each kind in one call: retention never delays a reserve for long


class Maintenance:
    """Reaps and trims at intervals that differ between workers, so that they do not all do it at once.

    The store has one retention, which every trim follows. The one of the settings is stored if the store has none.
    """

    def __init__(
        self,
        driver: Store,
        *,
        keep_ended: timedelta | None,
        keep_ledger: timedelta | None,
        queues: Sequence[str] = (),
        on_reaped: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._driver = driver
        self._on_reaped = on_reaped
        self._wanted = choose_retention(keep_ended, keep_ledger)
        self._is_proposed = self._wanted is None or not driver.capabilities.has(Feature.REGISTRY)
        self._random = random.Random()  # noqa: S311 - jitter
        self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
        self._trim_at = self._after_about(TRIM_INTERVAL_SECONDS)
        self._stopped_domains = StoppedDomainLog(driver, queues)
        self._domains_at = self._after_about(DOMAINS_INTERVAL_SECONDS)

    def run_due(self) -> None:
        """Do each part if it is time. Never raises: a failure is logged, and the part is tried again when next due."""
        if monotonic() >= self._reap_at:
            self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
            with _logged("reap"):
                self._on_reaped(self._driver.reap())
        if monotonic() >= self._trim_at:
            self._trim_at = self._after_about(TRIM_INTERVAL_SECONDS)
            with _logged("trim"):
                self._propose_retention()
                if self._trim().more:
                    self._trim_at = monotonic()
        if monotonic() >= self._domains_at:
            self._domains_at = self._after_about(DOMAINS_INTERVAL_SECONDS)
            with _logged("domains"):
                self._stopped_domains.look()

    def _propose_retention(self) -> None:
        """Store the retention of the settings if the store has none; log once if the store has another one."""
        if self._is_proposed or self._wanted is None:
            return
        self._driver.write([store_retention(self._wanted, version=0)])
        [entry] = self._driver.read(retention.KIND, [retention.KEY])
        stored = read_retention(entry)
        self._is_proposed = True
        if stored is not None and stored != self._wanted:
            log_event(logging.WARNING, "retention.differs", settings=asdict(self._wanted), store=asdict(stored))

    def _trim(self) -> Trimmed:
        if self._driver.capabilities.has(Feature.REGISTRY):
            return self._driver.trim(limit=TRIM_LIMIT_ROWS)
        return self._driver.trim(**asdict(self._wanted or Retention()), limit=TRIM_LIMIT_ROWS)

    def _after_about(self, seconds: float) -> float:
        return monotonic() + self._random.uniform(0.5, 1.5) * seconds


@contextmanager
def _logged(task: str) -> Iterator[None]:
    """Log any failure of a task: jobs can be done without it, and one unreadable row must not end every worker."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - also those of a driver that are no StoreError
        log_event(logging.WARNING, "maintenance.failed", task=task, reason=f"{type(error).__name__}: {error}")
