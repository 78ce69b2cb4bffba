"""Collectors around other collectors: a group of them, and a guard against exceptions of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from holdfast.clock import monotonic
from holdfast.observability.metrics import Labels, Metrics
from holdfast.worker.event_log import log_failure

REPEAT_SECONDS = 10.0  # between two records about a collector that fails again and again


class GuardedMetrics:
    """Passes everything to a collector. An exception of the collector is logged and counted, and goes no further.

    A worker reports several times a second: after the first exception, there is one record in ten seconds.
    """

    def __init__(self, collector: Metrics, now: Callable[[], float] = monotonic) -> None:
        self._collector = collector
        self._now = now
        self._lock = threading.Lock()  # of the two below
        self._failures = 0
        self._logged_at: float | None = None

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """See ``Metrics.count``."""
        try:
            self._collector.count(name, value, labels)
        except Exception as error:  # noqa: BLE001 - what it counts has happened
            self._failed(error)

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """See ``Metrics.observe``."""
        try:
            self._collector.observe(name, values, labels)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """See ``Metrics.gauge``."""
        try:
            self._collector.gauge(name, value, labels)
        except Exception as error:  # noqa: BLE001
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self._failures += 1
            failures, now = self._failures, self._now()
            if self._logged_at is not None and now - self._logged_at < REPEAT_SECONDS:
                return
            self._logged_at = now
        log_failure("metrics.failed", error, reason=f"{type(error).__name__}: {error}", failures=failures)


class MetricsGroup:
    """Passes everything to several collectors. An exception of one of them reaches no other."""

    def __init__(self, collectors: Sequence[Metrics]) -> None:
        self._collectors = tuple(GuardedMetrics(collector) for collector in collectors)

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """See ``Metrics.count``."""
        for collector in self._collectors:
            collector.count(name, value, labels)

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """See ``Metrics.observe``."""
        for collector in self._collectors:
            collector.observe(name, values, labels)

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """See ``Metrics.gauge``."""
        for collector in self._collectors:
            collector.gauge(name, value, labels)
