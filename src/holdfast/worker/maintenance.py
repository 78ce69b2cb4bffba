"""Maintenance of the store, which every worker does besides its jobs: reap expired leases, trim old rows."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta

from holdfast.artifacts.collector import ArtifactCollector
from holdfast.clock import monotonic
from holdfast.drivers.contract import Feature, Store, Trimmed
from holdfast.model import retention
from holdfast.model.retention import Retention, choose_retention, read_retention, store_retention
from holdfast.worker.dead_retention import DeadLetterRetention
from holdfast.worker.event_log import log_event

REAP_INTERVAL_SECONDS = 5.0  # about; queues that no worker reserves from are repaired too
TRIM_INTERVAL_SECONDS = 60.0  # about
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
        keep_dead: timedelta | None = None,
        on_reaped: Callable[[int], None] = lambda _: None,
        collector: ArtifactCollector | None = None,
    ) -> None:
        self._driver = driver
        self._collector = collector
        self._on_reaped = on_reaped
        self._wanted = choose_retention(keep_ended, keep_ledger, keep_dead)
        self._dead_letters = DeadLetterRetention(driver)
        self._is_proposed = self._wanted is None or not driver.capabilities.has(Feature.REGISTRY)
        self._random = random.Random()  # noqa: S311 - jitter
        self._reap_at = self._after_about(REAP_INTERVAL_SECONDS)
        self._trim_at = self._after_about(TRIM_INTERVAL_SECONDS)

    def run_due(self) -> None:
        """Reap and trim if it is time. Never raises: a failure is logged, and the part is tried again when next due."""
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
            with _logged("dead letters"):
                if self._purge_dead_letters():
                    self._trim_at = monotonic()
        if self._collector is not None:
            with _logged("artifacts"):
                self._collector.run_due()

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
        kept = self._wanted or Retention()
        return self._driver.trim(ended_for=kept.ended_for, ledger_for=kept.ledger_for, limit=TRIM_LIMIT_ROWS)

    def _purge_dead_letters(self) -> bool:
        """Remove dead letters if the retention of the space says so; return whether there may be more."""
        if not self._driver.capabilities.has(Feature.REGISTRY):
            return False
        kept = read_retention(self._driver.read(retention.KIND, [retention.KEY])[0])
        if kept is None or kept.dead_for is None:
            return False
        return self._dead_letters.step(kept.dead_for, limit=TRIM_LIMIT_ROWS)[1]

    def _after_about(self, seconds: float) -> float:
        return monotonic() + self._random.uniform(0.5, 1.5) * seconds


@contextmanager
def _logged(task: str) -> Iterator[None]:
    """Log any failure of a task: jobs can be done without it, and one unreadable row must not end every worker."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - also those of a driver that are no StoreError
        log_event(logging.WARNING, "maintenance.failed", task=task, reason=f"{type(error).__name__}: {error}")
