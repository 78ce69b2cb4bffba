"""``holdfast metrics``: the metrics of a store, printed once and served."""

import os
import signal
import sys
import time
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from holdfast.driver import ack


def parse(text):
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    labels = ("queue", "type", "state", "ending")
    return {(one.name, *(one.labels[label] for label in labels if label in one.labels)): one.value for one in samples}


def test_metrics_prints_the_counts_and_the_endings_since_its_first_run(run, filled):
    first = parse(run("metrics").out)
    assert first["holdfast_jobs", "mail", "mail.send", "ready"] == 2
    assert first["holdfast_jobs", "mail", "mail.send", "dead"] == 6
    assert first["holdfast_jobs", "reports", "report", "scheduled"] == 1
    assert first["holdfast_oldest_ready_age_seconds", "mail", "mail.send"] > 0
    for one in filled.reserve(["mail"], limit=2, lease_for=60_000_000):
        ack(filled, one.lease)
    second = parse(run("metrics").out)
    assert second["holdfast_ledger_endings_total", "mail", "mail.send", "acked"] == 2
    assert second["holdfast_ledger_wait_seconds_count", "mail", "mail.send"] == 2
    assert second["holdfast_jobs", "mail", "mail.send", "ready"] == 0


def test_metrics_listens_until_a_signal(start, filled):
    process = start("metrics", "--listen", "127.0.0.1:0", "--interval", "100ms", env={**os.environ})
    url = process.stdout.readline().strip()
    [one] = filled.reserve(["mail"], limit=1, lease_for=60_000_000)
    deadline = time.monotonic() + 60
    while parse(_read(url)).get(("holdfast_jobs", "mail", "mail.send", "inflight")) != 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ack(filled, one.lease)
    while parse(_read(url)).get(("holdfast_ledger_endings_total", "mail", "mail.send", "acked")) != 1:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert '"ok": true' in _read(url.replace("/metrics", "/readyz"))
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


def test_without_prometheus_client_the_command_says_what_to_install(run, url, monkeypatch):
    monkeypatch.delitem(sys.modules, "holdfast.observability.prometheus", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert "pip install 'holdfast[metrics]'" in run("metrics", code=2).err


def test_without_a_store_there_is_nothing_to_export(run):
    assert "no store" in run("metrics", code=2).err


def _read(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()
