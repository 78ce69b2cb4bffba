"""The dashboard and the alert rules use metrics and labels that exist, in expressions that can be read.

No ``promtool`` is installed here. So the expressions are read by a small parser of the part of PromQL that they use.
"""

import json
import re
from pathlib import Path

import pytest
import yaml

from holdfast.observability.metric_table import DEAD, LEDGER_DEAD, METRICS, Kind

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
DASHBOARD = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]] + [
    rule["expr"] for rule in RULES
]

TOKEN = re.compile(
    r"\s*(?:(?P<offset>offset \d+[smhd])"
    r"|(?P<number>\d+(?:\.\d+)?)|(?P<name>[a-zA-Z_]\w*)|(?P<string>\"[^\"\\]*\")|(?P<range>\[(?:\d+[smhd]|\$__rate_interval)\])"
    r"|(?P<sign>=~|!=|>=|<=|==|[-+*/(){},=<>]))"
)
AGGREGATIONS = {"sum", "max", "count"}
FUNCTIONS = {"rate": "range", "increase": "range", "deriv": "range", "absent": "any", "time": "none"}
SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_count", "_sum"), Kind.COUNTER: ("",), Kind.GAUGE: ("",)}
SERIES = {name + suffix: metric for name, metric in METRICS.items() for suffix in SUFFIXES[metric.kind]}


class Parser:
    """Reads one expression; ``labels`` of a result are those that it may have, None for a number."""

    def __init__(self, text):
        self.tokens, at = [], 0
        while text[at:].strip():
            match = TOKEN.match(text, at)
            assert match, f"cannot read {text[at:]!r}"
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        self.metrics = []

    def next(self, *wanted):
        assert self.tokens, f"ended, wanted {wanted}"
        kind, text = self.tokens.pop(0)
        assert not wanted or text in wanted or kind in wanted, f"wanted {wanted}, got {text}"
        return text

    def sees(self, *texts):
        return bool(self.tokens) and self.tokens[0][1] in texts

    def expression(self):
        labels = self.operand()
        while self.sees("and", "or", "unless", "<", ">", "-", "+", "/", "*"):
            self.next()
            right = self.operand()
            labels = right if labels is None else labels
        return labels

    def operand(self):
        if self.sees("("):
            self.next("(")
            labels = self.expression()
            self.next(")")
            return labels
        if self.tokens and self.tokens[0][0] == "number":
            self.next("number")
            return None
        name = self.next("name")
        if name in AGGREGATIONS:
            return self.aggregation()
        if name == "histogram_quantile":
            self.next("(")
            self.next("number")
            self.next(",")
            labels = self.expression()
            self.next(")")
            assert "le" in labels, "a quantile needs the label le"
            return labels - {"le"}
        if name in FUNCTIONS:
            self.next("(")
            labels = None if FUNCTIONS[name] == "none" else self.expression()
            self.next(")")
            return labels
        return self.selector(name)

    def aggregation(self):
        by = set()
        if self.sees("by"):
            self.next("by")
            by = set(self.names(")"))
        self.next("(")
        labels = self.expression()
        self.next(")")
        assert by <= labels, f"{by - labels} is no label here"
        return by

    def names(self, end):
        self.next("(")
        while not self.sees(end):
            yield self.next("name")
            if self.sees(","):
                self.next(",")
        self.next(end)

    def selector(self, name):
        assert name in SERIES, f"{name} is no metric of the table"
        metric = SERIES[name]
        self.metrics.append(metric)
        labels = {*metric.labels, "instance"} | ({"le"} if name.endswith("_bucket") else set())
        if self.sees("{"):
            self.next("{")
            while not self.sees("}"):
                label = self.next("name")
                assert label in labels, f"{name} has no label {label}"
                self.next("=", "=~", "!=")
                self.next("string")
                if self.sees(","):
                    self.next(",")
            self.next("}")
        has_range = bool(self.tokens) and self.tokens[0][0] == "range"
        if has_range:
            self.next("range")
        is_earlier = bool(self.tokens) and self.tokens[0][0] == "offset"
        if is_earlier:
            self.next("offset")
        finds_new_series = is_earlier or self.sees("unless")
        assert has_range or finds_new_series or metric.kind is not Kind.COUNTER, f"the counter {name} needs a rate"
        return labels


def read(text):
    """Return the metrics of an expression."""
    parser = Parser(text)
    parser.expression()
    assert parser.tokens == []
    return parser.metrics


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_reads_metrics_and_labels_that_exist(text):
    assert read(text)


@pytest.mark.parametrize(
    "text",
    [
        "sum(holdfast_no_such_metric)",
        "sum by (colour) (holdfast_jobs)",
        'max(holdfast_jobs{outcome="dead"})',
        "sum(rate(holdfast_jobs_settled_total[5m])",
        "sum(holdfast_jobs_settled_total)",
        "histogram_quantile(0.95, sum by (queue) (rate(holdfast_job_run_seconds_bucket[5m])))",
    ],
)
def test_the_check_finds_what_is_wrong(text):
    with pytest.raises(AssertionError):
        read(text)


def test_a_closed_set_of_values_is_used_as_it_is_exported():
    values = set(re.findall(r'(state|ending)="(\w+)"', " ".join(EXPRESSIONS)))
    assert values == {("state", "dead"), ("ending", "expired")}


def test_the_dashboard_is_one_that_grafana_imports():
    assert (DASHBOARD["uid"], DASHBOARD["title"]) == ("holdfast", "Holdfast")
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    sources = [panel["datasource"]["uid"] for panel in DASHBOARD["panels"]]
    assert set(sources) == {"${datasource}"}
    assert {variable["name"] for variable in DASHBOARD["templating"]["list"]} == {"datasource", "queue"}
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["description"]


def test_dead_letters_of_killed_workers_raise_an_alert():
    metrics = {metric.name for rule in RULES for metric in read(rule["expr"])}
    assert {DEAD.name, LEDGER_DEAD.name} <= metrics


def test_every_alert_says_how_bad_it_is_and_what_to_do():
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert used <= set(re.findall(r"\w+", rule["expr"])), rule["alert"]
