"""What operators see: logs, metrics, health, and which workers run.

Each part is a ``WorkerObserver``; ``observers_of`` composes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.drivers.store import Store
from holdfast.observability.health import Health
from holdfast.observability.labels import JobNames
from holdfast.observability.log_format import JobFields, JsonFormatter, TerminalFormatter
from holdfast.observability.logs import LogObserver
from holdfast.observability.metrics import InMemoryMetrics, Metrics
from holdfast.observability.metrics_group import GuardedMetrics
from holdfast.observability.presence import PresenceObserver, WorkerPresence, read_presences
from holdfast.observability.redaction import Redaction
from holdfast.observability.store_gauges import StoreGauges, StoreGaugesObserver
from holdfast.observability.worker_metrics import MetricsObserver
from holdfast.worker.observer import WorkerObserver

__all__ = [
    "Health",
    "InMemoryMetrics",
    "JobFields",
    "JsonFormatter",
    "LogObserver",
    "Metrics",
    "PresenceObserver",
    "Redaction",
    "TerminalFormatter",
    "WorkerPresence",
    "observers_of",
    "read_presences",
]


def observers_of(
    store: Store,
    queues: Sequence[str] | None,
    *,
    metrics: Metrics | None,
    jobs: Iterable[JobNames],
    others: Sequence[WorkerObserver] = (),
) -> Sequence[WorkerObserver]:
    """Return the observers of a worker of an app. ``jobs`` are the queues and types of its handlers."""
    observers: list[WorkerObserver] = [LogObserver(), PresenceObserver(), *others]
    if metrics is not None:
        healths = [other for other in others if isinstance(other, Health)]

        def on_answer() -> None:
            for health in healths:
                health.store_answered()

        guarded = GuardedMetrics(metrics)
        observers.append(MetricsObserver(guarded, jobs))
        observers.append(StoreGaugesObserver(StoreGauges(store, guarded, queues), guarded, on_answer))
    return observers
