"""What Prometheus reads, parsed by its own parsers."""

import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from holdfast.observability.metric_table import METRICS, Kind
from holdfast.observability.prometheus import PrometheusMetrics

HOSTILE = 'a"b\\c\nd'


@pytest.fixture
def metrics():
    """Every metric of the table, with a hostile value in each label."""
    metrics = PrometheusMetrics(CollectorRegistry())
    for name, metric in METRICS.items():
        labels = dict.fromkeys(metric.labels, HOSTILE)
        match metric.kind:
            case Kind.COUNTER:
                metrics.count(name, 2, labels)
            case Kind.GAUGE:
                metrics.gauge(name, 0.5, labels)
            case Kind.HISTOGRAM:
                metrics.observe(name, [0.0001, 0.3, 1e6], labels)
    return metrics


@pytest.mark.parametrize(
    ("accept", "parse"),
    [("", parse_text), ("application/openmetrics-text; version=1.0.0", parse_openmetrics)],
)
def test_prometheus_parses_every_metric_of_the_table(metrics, accept, parse):
    body, content_type = metrics.exposition(accept)
    families = {family.name: family for family in parse(body.decode())}
    assert content_type.startswith("application/openmetrics-text" if accept else "text/plain")
    assert set(families) == {name.removesuffix("_total") for name in METRICS}
    for name, metric in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert family.type == metric.kind
        assert family.documentation == metric.meaning
        for sample in family.samples:
            assert {label: value for label, value in sample.labels.items() if label != "le"} == dict.fromkeys(
                metric.labels, HOSTILE
            )
        values = {sample.name.removeprefix(name): sample.value for sample in family.samples}
        if metric.kind is Kind.HISTOGRAM:
            assert (values["_count"], values["_sum"]) == (3, pytest.approx(1e6 + 0.3001))
            buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
            assert (buckets, len(buckets)) == (sorted(buckets), len(metric.buckets) + 1)
        else:
            assert values[""] == (2 if metric.kind is Kind.COUNTER else 0.5)


def test_metrics_without_samples_are_left_out():
    body, _ = PrometheusMetrics(CollectorRegistry()).exposition()
    assert body == b""


def test_a_registry_takes_the_metrics_of_holdfast_once(metrics):
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        PrometheusMetrics(metrics.registry)


def test_without_the_package_the_error_says_what_to_install():
    code = "import sys; sys.modules['prometheus_client'] = None; import holdfast.observability.prometheus"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'holdfast[metrics]'" in ended.stderr
