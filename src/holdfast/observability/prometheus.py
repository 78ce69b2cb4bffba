"""``PrometheusMetrics``: a collector for ``prometheus_client``. Needs ``pip install 'holdfast[metrics]'``.

The numbers are added up by ``InMemoryMetrics``, a batch at a time, and turned into samples when they are scraped: the
histograms of ``prometheus_client`` take one call per value.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.core import Metric as Family
    from prometheus_client.exposition import choose_encoder
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "Prometheus metrics need the package prometheus-client: pip install 'holdfast[metrics]'", name=error.name
    ) from error

from holdfast.observability.metric_table import METRICS, Kind, Metric
from holdfast.observability.metrics import Histogram, InMemoryMetrics


class PrometheusMetrics(InMemoryMetrics):
    """Exports what Holdfast reports through a registry of ``prometheus_client``, by default its global one."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        super().__init__()
        self.registry = REGISTRY if registry is None else registry
        self.registry.register(self)

    @classmethod
    def in_own_registry(cls) -> PrometheusMetrics:
        """Return a collector that exports nothing but the metrics of Holdfast."""
        return cls(CollectorRegistry())

    def describe(self) -> Iterator[Family]:
        """Return the families without samples: ``register`` checks that their names are new."""
        return (_family(metric) for metric in METRICS.values())

    def collect(self) -> Iterator[Family]:
        """Return the families that have samples."""
        for metric in METRICS.values():
            series = self.series(metric.name)
            if not series:
                continue
            family = _family(metric)
            for labels, value in sorted(series, key=lambda one: tuple(one[0].values())):
                values = list(labels.values())
                if isinstance(value, Histogram):
                    assert isinstance(family, HistogramMetricFamily)
                    family.add_metric(values, _cumulated(value), value.total)
                else:
                    assert not isinstance(family, HistogramMetricFamily)
                    family.add_metric(values, value)
            yield family

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the metrics of the registry in the format that the header ``Accept`` wants, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    name, meaning, labels = metric.name, metric.meaning, list(metric.labels)
    match metric.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(name, meaning, labels=labels)
        case Kind.GAUGE:
            return GaugeMetricFamily(name, meaning, labels=labels)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(name, meaning, labels=labels)


def _cumulated(histogram: Histogram) -> list[tuple[str, float]]:
    """Return the buckets as Prometheus wants them: each one includes all smaller ones."""
    bounds = [*(str(float(bound)) for bound in histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.counts), strict=True))
