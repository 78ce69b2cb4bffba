"""Collectors around other collectors: a group of them, and a guard against exceptions of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.clock import monotonic
from holdfast.log import events
from holdfast.log.failures import FailureLog
from holdfast.observability.metrics import Labels, Metrics


class GuardedMetrics:
    """Passes everything to a collector. An exception of the collector is logged and counted, and goes no further.

    A worker reports several times a second: after the first exception, there is one record in ten seconds.
    """

    def __init__(self, collector: Metrics, now: Callable[[], float] = monotonic) -> None:
        self._collector = collector
        self._failures = FailureLog(events.METRICS_FAILED, now)

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """Add ``value`` to a counter of the collector; an exception is only logged."""
        try:
            self._collector.count(name, value, labels)
        except Exception as error:  # noqa: BLE001 - what it counts has happened
            self._failures.add(error)

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """Add values to a histogram of the collector; an exception is only logged."""
        try:
            self._collector.observe(name, values, labels)
        except Exception as error:  # noqa: BLE001
            self._failures.add(error)

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """Set a gauge of the collector; an exception is only logged."""
        try:
            self._collector.gauge(name, value, labels)
        except Exception as error:  # noqa: BLE001
            self._failures.add(error)


class MetricsGroup:
    """Passes everything to several collectors. An exception of one of them reaches no other."""

    def __init__(self, collectors: Sequence[Metrics]) -> None:
        self._collectors = tuple(GuardedMetrics(collector) for collector in collectors)

    def count(self, name: str, value: float, labels: Labels, /) -> None:
        """Add ``value`` to a counter of each collector."""
        for collector in self._collectors:
            collector.count(name, value, labels)

    def observe(self, name: str, values: Sequence[float], labels: Labels, /) -> None:
        """Add values to a histogram of each collector."""
        for collector in self._collectors:
            collector.observe(name, values, labels)

    def gauge(self, name: str, value: float, labels: Labels, /) -> None:
        """Set a gauge of each collector."""
        for collector in self._collectors:
            collector.gauge(name, value, labels)
