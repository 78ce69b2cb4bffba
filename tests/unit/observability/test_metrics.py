"""The collector in memory, its histograms, bounded names, and a collector that the settings name."""

import random
import sys

import pytest

from holdfast.errors import InvalidInput
from holdfast.observability import metric_table as table
from holdfast.observability.enqueue_metrics import EnqueueCounter
from holdfast.observability.labels import BoundedNames
from holdfast.observability.metric_table import METRICS, Kind
from holdfast.observability.metrics import Histogram, InMemoryMetrics, Metrics, load_metrics
from holdfast.observability.metrics_group import GuardedMetrics, MetricsGroup

MAIL, REPORT = {"queue": "mail", "type": "mail.send"}, {"queue": "slow", "type": "report"}


def test_counters_add_up_and_gauges_keep_the_last_value():
    metrics = InMemoryMetrics()
    for value in (2, 3):
        metrics.count(table.ENQUEUED.name, value, MAIL)
        metrics.gauge(table.IN_FLIGHT.name, value, MAIL)
    metrics.count(table.ENQUEUED.name, 1, REPORT)
    assert metrics.value(table.ENQUEUED.name, queue="mail") == 5
    assert metrics.value(table.ENQUEUED.name) == 6
    assert metrics.value(table.IN_FLIGHT.name) == 3
    assert metrics.value(table.RETRIES.name) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_histogram_counts_every_value_in_the_bucket_that_it_belongs_to(seed):
    values = [random.Random(f"{seed} {n}").choice([0, 0.5, 1, 1.5, 2, 2.5, 9]) for n in range(seed * 3)]
    histogram = Histogram((1.0, 2.0))
    for start in range(0, len(values), 7):
        histogram.add(values[start : start + 7])
    wanted = [sum(v <= 1 for v in values), sum(1 < v <= 2 for v in values), sum(v > 2 for v in values)]
    assert histogram.counts == wanted
    assert (histogram.count, histogram.total) == (len(values), sum(values))


def test_a_label_that_the_table_does_not_name_is_refused():
    with pytest.raises(KeyError):
        InMemoryMetrics().count(table.ENQUEUED.name, 1, {"queue": "mail"})


def test_every_metric_has_a_name_as_prometheus_wants_it_and_a_meaning():
    for name, metric in METRICS.items():
        assert name.startswith("holdfast_")
        assert name.endswith("_total") == (metric.kind is Kind.COUNTER), name
        assert name.endswith("_seconds") or metric.kind is not Kind.HISTOGRAM, name
        assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM), name
        assert sorted(set(metric.buckets)) == list(metric.buckets)
        assert metric.meaning.endswith("."), name


def test_names_beyond_the_limit_become_other():
    bounded = BoundedNames(most=2)
    names = [("a", "x"), ("b", "x"), ("c", "x"), ("a", "x"), ("d", "y")]
    assert [bounded(one) for one in names] == [
        ("a", "x"),
        ("b", "x"),
        ("other", "other"),
        ("a", "x"),
        ("other", "other"),
    ]


def test_a_group_passes_everything_to_each_collector():
    members = InMemoryMetrics(), InMemoryMetrics()
    group = MetricsGroup(members)
    group.count(table.ENQUEUED.name, 2, MAIL)
    group.gauge(table.IN_FLIGHT.name, 3, MAIL)
    group.observe(table.RUN.name, [1.0], MAIL)
    for metrics in members:
        found = [metrics.value(metric.name) for metric in (table.ENQUEUED, table.IN_FLIGHT, table.RUN)]
        assert found == [2, 3, 1]


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(text):
        (tmp_path / "my_metrics.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "my_metrics", raising=False)

    return write


OWN = """
class Own:
    def count(self, name, value, labels): pass
    def observe(self, name, values, labels): pass
    def gauge(self, name, value, labels): pass
own = Own()
"""


@pytest.mark.parametrize("name", ["own", "Own"])
def test_a_collector_is_loaded_by_its_path(module, name):
    module(OWN)
    assert isinstance(load_metrics(f"my_metrics:{name}"), Metrics)


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("no_such_module_here:x", "", "wanted a module no_such_module_here on the Python path"),
        ("my_metrics:x", "", "wanted x in the module my_metrics"),
        ("my_metrics:x", "x = 5", "wanted an object with count, observe and gauge"),
    ],
)
def test_a_path_without_a_collector_is_an_error_that_says_so(module, path, text, message):
    module(text)
    with pytest.raises(InvalidInput, match=message):
        load_metrics(path)


def test_an_import_that_fails_inside_the_module_is_shown_as_it_is(module):
    module("import no_such_module_here")
    with pytest.raises(ModuleNotFoundError, match="no_such_module_here"):
        load_metrics("my_metrics:x")


class Answer:
    def __init__(self, *, existed=False):
        self.existed = existed


class Request:
    def __init__(self, queue, type):
        self.queue, self.type = queue, type


def test_enqueued_jobs_are_counted_unless_they_existed():
    metrics = InMemoryMetrics()
    count = EnqueueCounter(metrics)
    requests = [Request("mail", "a"), Request("mail", "a"), Request("mail", "b")]
    assert len(count(requests, lambda each: [Answer(existed=n == 1) for n, _ in enumerate(each)])) == 3
    count([Request("bulk", "a")], lambda _: [Answer(), Answer(existed=True), Answer()])  # a template of many
    found = {tuple(labels.values()): value for labels, value in metrics.series(table.ENQUEUED.name)}
    assert found == {("mail", "a"): 1, ("mail", "b"): 1, ("bulk", "a"): 2}


def test_a_collector_that_fails_does_not_fail_an_enqueue(caplog):
    answers = [Answer()]
    assert EnqueueCounter(Failing())([Request("mail", "a")], lambda _: answers) is answers
    assert "metrics.failed" in caplog.text


class Failing(InMemoryMetrics):
    def count(self, *_):
        raise ArithmeticError("no route to the collector")

    observe = gauge = count


def test_a_collector_that_always_fails_is_logged_at_first_and_then_now_and_then(caplog):
    now = 100.0
    metrics = GuardedMetrics(Failing(), now=lambda: now)
    for _ in range(50):
        metrics.count(table.ENQUEUED.name, 1, {"queue": "q", "type": "t"})
    now += 9.9
    metrics.gauge(table.LAST_RESERVE.name, 1.0, {})
    now += 0.2
    metrics.observe(table.RESERVE_SECONDS.name, (0.1,), {})
    assert [(record.event, record.failures) for record in caplog.records] == [
        ("metrics.failed", 1),
        ("metrics.failed", 52),
    ]
    assert caplog.records[0].reason == "ArithmeticError: no route to the collector"
    assert caplog.records[0].exc_info is not None


def test_a_collector_that_fails_hides_nothing_from_the_others_of_a_group(caplog):
    other = InMemoryMetrics()
    MetricsGroup([Failing(), other]).count(table.ENQUEUED.name, 1, {"queue": "q", "type": "t"})
    assert other.value(table.ENQUEUED.name) == 1
    assert "metrics.failed" in caplog.text
