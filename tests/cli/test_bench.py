"""``holdfast bench``: what it measures, where, and that it cleans up. The speed itself is not tested."""

import json
import os
import signal
import sqlite3
import time
from contextlib import closing

import pytest

from holdfast import Client, JobRequest
from holdfast.cli import store_benchmark

# The limit of time is never reached: bench ends when all jobs have run.
QUICK = ("--jobs", "50", "--for", "2m", "--processes", "1")


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(store_benchmark, "SAMPLES", 5)


@pytest.fixture
def temporary(folder, monkeypatch):
    """The folder of temporary files, to see that none remains."""
    place = folder / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    return place


def test_a_temporary_file_is_measured_and_removed(run, temporary, monkeypatch):
    monkeypatch.setenv("HOLDFAST_SIGNING", "required")  # of the jobs of others: those of the benchmark are not signed
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", "correct horse battery staple")
    report = run("bench", *QUICK, "--processes", "2", "--json").json
    assert (report["driver"], report["durability"], report["jobs"]) == ("sqlite", "fsync", 50)
    kinds = [(one["kind"], one["size"]) for one in report["throughput"]]
    assert kinds == [("enqueue", 1000), ("loop", 1), ("loop", 100), ("loop", 1000), ("worker", 1), ("worker", 2)]
    assert all(0 < one["jobs"] <= 50 and one["per_second"] > 0 for one in report["throughput"])
    assert max(one["ratio"] for one in report["throughput"] if one["kind"] == "loop") == 1
    assert report["latency"]["jobs"] > 0
    assert 0 < report["latency"]["p50"] <= report["latency"]["p99"]
    assert (report["no_worker"], report["space"], report["removed"]) == (None, None, None)
    assert list(temporary.iterdir()) == []


def test_without_json_a_table_is_printed(run):
    out = run("bench", *QUICK).out.splitlines()
    assert out[0].startswith("sqlite (fsync), 50 jobs in a temporary file")
    assert out[1].split() == ["measurement", "jobs", "jobs/s", "ratio"]
    assert [line.split(",")[0] for line in out[2:7]] == ["enqueue", *["driver loop"] * 3, "worker"]
    assert out[7].startswith("enqueue to start in an idle worker: p50 ")


def test_a_given_store_keeps_its_jobs_and_none_of_the_benchmark(run, url, store):
    mine = Client(store).enqueue(
        [JobRequest(type="bench.noop", queue=queue) for queue in ("loop-1", "worker-1", "idle")]
    )
    report = run("bench", *QUICK, "--url", url, "--json").json
    assert report["space"].startswith("bench-")
    assert report["removed"] >= 5 * 50
    assert sum(one.ready for one in store.counts()) == len(mine)
    assert store.ledger().items == []
    ours = store.space(report["space"])
    assert (ours.find().items, ours.counts(), ours.ledger().items) == ([], [], [])
    assert "removed from the store: " in run("bench", *QUICK, "--url", url).err


def test_a_url_in_the_settings_is_ignored(run, url, folder):
    assert run("bench", *QUICK, "--json").json["space"] is None
    assert not (folder / "jobs.db").exists()


def test_a_store_of_one_process_is_measured_without_a_worker(run):
    report = run("bench", *QUICK, "--url", "memory://", "--json").json
    assert [one["kind"] for one in report["throughput"]] == ["enqueue", "loop", "loop", "loop"]
    assert report["latency"] is None
    assert "one process" in report["no_worker"]
    assert (
        "no worker was measured: it needs a store that processes share"
        in run("bench", *QUICK, "--url", "memory://").out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs"),
        (["--processes", "0"], "--processes"),
        (["--for", "soon"], "wanted a length"),
        (["--for", "1ms"], "--for: wanted 1s at least, got 1ms"),
        (["--space", "mine"], "--space: bench always creates its own space"),
        (["--url", "mysql://host/db"], "got mysql://"),
    ],
)
def test_a_usage_error_is_one_line(run, arguments, message):
    err = run("bench", *arguments, code=2).err
    assert message in err
    assert err.count("\n") == 1


def test_an_interrupt_cleans_up(start, url, store):
    measuring = start("bench", "--url", url, "--jobs", "200", "--for", "60s")
    while not any(one.done for one in spaces_counts(store)):
        time.sleep(0.05)
        assert measuring.poll() is None
    measuring.send_signal(signal.SIGINT)
    _, err = measuring.communicate(timeout=60)
    assert measuring.returncode == 130
    assert err.strip().startswith("removed from the store: ")
    assert spaces_counts(store) == []


def spaces_counts(store):
    """The counts of every space in the file."""
    path = os.environ["HOLDFAST_URL"].removeprefix("sqlite:///")
    with closing(sqlite3.connect(path)) as connection:
        both = "SELECT space FROM holdfast_ended UNION SELECT space FROM holdfast_jobs"
        names = [name for (name,) in connection.execute(both)]
    return [one for name in names for one in store.space(name).counts()]


def test_a_failed_worker_is_reported(run, monkeypatch, folder):
    broken = folder / "python"
    broken.write_text("#!/bin/sh\necho no worker today >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr("holdfast.cli.store_benchmark.sys.executable", str(broken))
    assert "ended with code 7: no worker today" in run("bench", *QUICK, code=1).err


def test_json_output_of_a_child_process_is_valid(start):
    out, _ = start("bench", *QUICK, "--json").communicate(timeout=120)
    assert json.loads(out)["driver"] == "sqlite"
