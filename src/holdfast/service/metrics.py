"""Metrics of the service: its requests, and the numbers of the store in the space of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.drivers.store import Store
from holdfast.observability import metric_table as table
from holdfast.observability.store_gauges import StoreGauges, StoreGaugesObserver
from holdfast.service.auth.provider import TokenFailure

if TYPE_CHECKING:
    from holdfast.observability.prometheus import PrometheusMetrics


class HttpMetrics:
    """Counts requests. Without the package prometheus-client, nothing is counted."""

    def __init__(self, store: Store, prometheus: PrometheusMetrics | None) -> None:
        self._prometheus = prometheus
        self._gauges: StoreGaugesObserver | None = None
        if prometheus is not None:
            self._gauges = StoreGaugesObserver(StoreGauges(store, prometheus), prometheus)

    def start(self) -> None:
        """Read the numbers of the store from time to time, in a thread."""
        if self._gauges is not None:
            self._gauges.started("http", ())

    def stop(self) -> None:
        """End the thread."""
        if self._gauges is not None:
            self._gauges.stopped("http", {})

    def count(self, operation: str, status: int, seconds: float) -> None:
        """Count one request."""
        if self._prometheus is not None:
            self._prometheus.count(table.HTTP_REQUESTS.name, 1, {"operation": operation, "status": str(status)})
            self._prometheus.observe(table.HTTP_SECONDS.name, [seconds], {"operation": operation})

    def count_token_failure(self, outcome: TokenFailure) -> None:
        """Count a request without a valid token."""
        if self._prometheus is not None:
            self._prometheus.count(table.HTTP_TOKEN_FAILURES.name, 1, {"outcome": outcome})

    def exposition(self, accept: str) -> tuple[bytes, str] | None:
        """Return the metrics in a format of Prometheus, and its content type; None without prometheus-client."""
        return None if self._prometheus is None else self._prometheus.exposition(accept)
