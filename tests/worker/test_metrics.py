"""What a worker reports as metrics, and what it answers to scrapers and probes."""

import json
import os
import socket
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from datetime import timedelta
from types import SimpleNamespace
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import JobRequest, Unrecoverable
from holdfast.app import Holdfast
from holdfast.observability import labels
from holdfast.observability import metric_table as table
from holdfast.observability.health import Health
from holdfast.observability.metrics import InMemoryMetrics
from holdfast.observability.metrics_group import GuardedMetrics
from holdfast.observability.store_gauges import GaugesTiming, StoreGauges, StoreGaugesObserver
from holdfast.worker.observer import WorkerObserver
from holdfast.worker.options import WorkerOptions
from holdfast.worker.status import Status
from holdfast.worker.worker import Worker
from tests.waiting import wait_until


@pytest.fixture
def metrics():
    return InMemoryMetrics()


@pytest.fixture
def app(tmp_path, metrics):
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db", metrics=metrics)
    yield app
    app.close()


def test_a_worker_counts_what_becomes_of_its_jobs(app, metrics, drain):
    @app.handler("mixed", queue="mail", max_attempts=2, timeout=timedelta(milliseconds=200))
    def mixed(payload):
        if payload == "fails":
            raise ArithmeticError
        if payload == "hangs":
            threading.Event().wait(60)
        if payload == "dead":
            raise Unrecoverable("a reason of the handler")
        if payload == "crashes":
            os._exit(3)

    app.handler("never", queue="mail")(lambda _: None)
    for payload in ("fine", "fine", "fails", "hangs", "dead", "crashes"):
        mixed.enqueue(payload)
    mixed.enqueue_many(["fine", "fine"], keys=["k", "k"])  # the second one is no new job
    counts = drain(processes=1)

    def value(metric, **labels):
        return metrics.value(metric.name, queue="mail", type="mixed", **labels)

    assert value(table.ENQUEUED) == 7
    settled = {
        labels["outcome"]: number
        for labels, number in metrics.series(table.SETTLED.name)
        if labels["type"] == "mixed" and number
    }
    assert settled == dict(counts)
    assert settled["acked"] == 3
    assert value(table.RESERVED) == sum(settled.values())
    assert value(table.RETRIES) == settled["retried"]
    assert value(table.TIMEOUTS) == 2
    reasons = {labels["reason"]: number for labels, number in metrics.series(table.DEAD.name) if number}
    assert reasons == {"attempts exhausted": 3, "a reason of the handler": 1}
    assert value(table.RUN) == sum(settled.values()) - settled.get("released", 0)
    assert value(table.WAIT) >= 7
    assert value(table.IN_FLIGHT) == 0
    [(_, run_seconds)] = metrics.series(table.RUN.name)
    assert run_seconds.total >= 0.4  # two timeouts
    series = [labels["outcome"] for labels, _ in metrics.series(table.SETTLED.name) if labels["type"] == "never"]
    assert set(series) == set(get_args(Status)), "every series is there before its first increase"


def test_the_reasons_of_handlers_are_labels_of_bounded_number_and_length(app, metrics, drain):
    """Reasons that differ in numbers and quoted texts are one label; after MAX_REASONS labels the rest is other."""

    @app.handler("picky")
    def picky(payload):
        raise Unrecoverable(payload)

    picky.enqueue_many([f"no customer {n} in 'table {n}'" for n in range(30)])
    picky.enqueue("long " * 100)
    picky.enqueue_many([f"{chr(97 + n)} reason" for n in range(labels.MAX_REASONS + 5)])
    drain(processes=1)
    reasons = {one["reason"]: number for one, number in metrics.series(table.DEAD.name) if number}
    assert reasons.pop("no customer # in '…'") == 30
    assert reasons.pop(("long " * 100)[: labels.MAX_REASON_CHARACTERS].strip()) == 1
    assert reasons.pop("other") == 7
    assert len(reasons) == labels.MAX_REASONS - 2
    assert set(reasons.values()) == {1}


def test_a_worker_counts_the_leases_that_its_reserve_ends_and_the_jobs_that_die_of_it(app, metrics, drain):
    for most in (2, 1):
        app.handler(f"max-{most}")(lambda _payload: None).enqueue(max_attempts=most)
    app.driver.reserve(["default"], limit=2, lease_for=1, worker="gone")
    drain(processes=1)
    assert metrics.value(table.REAPED.name) == 2
    assert metrics.value(table.DEAD.name, reason="lease expired") == 1


def test_the_numbers_of_the_store_are_read_in_the_background(app, metrics, drain):
    app.handler("t")(lambda _: None)
    app.client.enqueue([JobRequest(type="t", delay=timedelta(days=1)), JobRequest(type="other", queue="elsewhere")])
    app.client.enqueue(JobRequest(type="t", delay=timedelta(0)))
    seen = threading.Event()

    class Stop(WorkerObserver):
        def looped(self, **_):
            if metrics.value(table.JOBS.name, state="scheduled") == 1 and metrics.value(table.SETTLED.name):
                seen.set()

    worker = app.worker(processes=1, observers=[Stop()])
    worker.run(seen)
    found = {(labels["queue"], labels["type"]) for labels, _ in metrics.series(table.JOBS.name)}
    assert found == {("default", "t")}, "only the queues of the worker"
    assert metrics.value(table.STORE_FAILURES.name) == 0
    assert not [thread for thread in threading.enumerate() if thread.name == "holdfast-metrics"]


def worker_that_counts_often(app) -> Worker:
    metrics, timing = GuardedMetrics(app.metrics), GaugesTiming(first_seconds=0.01, interval_seconds=0.01)
    observer = StoreGaugesObserver(StoreGauges(app.driver, metrics, ["default"]), metrics, timing=timing)
    return Worker(app.driver, WorkerOptions(processes=1), catalogue=app.catalogue, observers=[observer])


def test_the_numbers_of_the_store_are_also_read_in_a_second_run_of_a_worker(app, metrics):
    task = app.handler("t")(lambda _: None)
    worker = worker_that_counts_often(app)
    for scheduled in (1, 2):
        task.enqueue(delay=timedelta(days=1))
        stop = threading.Event()
        running = threading.Thread(target=worker.run, args=(stop,))
        running.start()
        wait_until(lambda scheduled=scheduled: metrics.value(table.JOBS.name, state="scheduled") == scheduled)
        stop.set()
        running.join(60)


def test_a_collector_that_fails_once_gets_the_next_numbers_of_the_store(app, caplog):
    seen = threading.Event()

    class FailsOnce(InMemoryMetrics):
        has_failed = False

        def gauge(self, name, value, labels):
            if name == table.JOBS.name and not self.has_failed:
                self.has_failed = True
                raise OSError("no route to the collector")
            super().gauge(name, value, labels)
            if name == table.JOBS.name:
                seen.set()

    app.metrics = FailsOnce()
    app.handler("t")(lambda _: None).enqueue(delay=timedelta(days=1))
    stop = threading.Timer(30, seen.set)
    stop.start()
    worker_that_counts_often(app).run(seen)
    stop.cancel()
    assert app.metrics.value(table.JOBS.name, state="scheduled") == 1
    [failed] = [record for record in caplog.records if record.event == "metrics.failed"]
    assert failed.reason == "OSError: no route to the collector"


def test_gauges_of_jobs_that_are_gone_become_zero(app, metrics):
    gauges = StoreGauges(app.driver, metrics)
    answer = app.client.enqueue(JobRequest(type="t"))
    gauges.update()
    assert metrics.value(table.JOBS.name, state="ready") == 1
    app.client.cancel(answer.id)
    gauges.update()
    assert metrics.value(table.JOBS.name, state="ready") == 0
    assert metrics.value(table.OLDEST_READY.name) == 0


def test_health_follows_a_worker(app):
    health = Health()
    app.handler("t")(lambda _: None).enqueue()
    seen = []

    class Look(WorkerObserver):
        def settled(self, _settled):
            seen.append((health.live().ok, health.ready().ok))

    assert not health.ready().ok
    app.worker(processes=1, until_drained=True, observers=[health, Look()]).run()
    assert seen == [(True, True)]
    assert health.ready().reasons == ("the worker has stopped",)


def test_the_settings_name_a_collector(monkeypatch):
    collector = InMemoryMetrics()
    monkeypatch.setitem(sys.modules, "collected", SimpleNamespace(collector=collector))
    monkeypatch.setenv("HOLDFAST_METRICS", "collected:collector")
    app = Holdfast("memory://")
    app.handler("t")(lambda _: None).enqueue()
    assert app.metrics is collector
    assert collector.value(table.ENQUEUED.name) == 1
    app.close()


SERVICE = """
    import os
    from holdfast.app import Holdfast

    app = Holdfast("sqlite:///jobs.db")

    @app.handler("sockets")
    def sockets(payload):
        found = []
        for number in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{number}").partition(":")[0])
            except FileNotFoundError:
                pass
        return found.count("socket")
"""


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_holdfast_work_serves_metrics_and_health(tmp_path):
    (tmp_path / "service.py").write_text(textwrap.dedent(SERVICE), encoding="utf-8")
    store = Holdfast(f"sqlite:///{tmp_path}/jobs.db")
    command = [sys.executable, "-m", "holdfast", "work", "service:app", "--processes", "1", "--metrics", "127.0.0.1:0"]
    worker = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = worker.stdout.readline()
        url = line.rpartition("; ")[2].strip().removesuffix("/metrics")
        assert url.startswith("http://127.0.0.1:"), line
        job = store.client.enqueue(JobRequest(type="sockets"))
        done = store.client.wait(job.id, timeout=60)
        assert store.client.result(done) == 2, "the child has its own two sockets, and not the one that listens"
        families = {family.name: family for family in text_string_to_metric_families(ask(f"{url}/metrics")[1])}
        [settled] = [one for one in families["holdfast_jobs_settled"].samples if one.labels["outcome"] == "acked"]
        assert settled.labels == {"queue": "default", "type": "sockets", "outcome": "acked"}
        assert "process_cpu_seconds" in families
        assert ask(f"{url}/healthz")[0] == 200
        status, body = ask(f"{url}/readyz")
        assert (status, json.loads(body)["reasons"]) == (200, [])
        worker.terminate()
        assert worker.wait(timeout=60) == 0
        assert worker.stdout.read() == "1 acked\n"
    finally:
        worker.kill()
        worker.communicate()
        store.close()
    with pytest.raises(urllib.error.URLError, match="refused"):
        urllib.request.urlopen(f"{url}/healthz", timeout=30)


def test_an_address_in_use_stops_the_command_before_it_reserves(tmp_path):
    (tmp_path / "service.py").write_text(textwrap.dedent(SERVICE), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as used:
        port = used.getsockname()[1]
        command = [sys.executable, "-m", "holdfast", "work", "service:app", "--metrics", str(port)]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"127.0.0.1:{port}, Address already in use" in ended.stderr
