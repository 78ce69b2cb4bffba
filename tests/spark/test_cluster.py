"""Jobs on a real cluster: a standalone master and two workers, whose executors have nothing but what is shipped."""

import json
import os
import signal

import pytest

import holdfast
from holdfast.spark.history.sync import audit_store
from holdfast.testing.servers.spark_cluster import SparkCluster
from holdfast.testing.servers.spark_process import children
from tests.spark.clusters import PROGRAMS, Program, packed_environment, settings

ROOT = PROGRAMS.parents[2]
PASSWORD = "hunter2-of-the-store"
pytestmark = pytest.mark.timeout(1200)  # one of them may start a cluster, and then a Spark application on it
SHOP = PROGRAMS / "shop.py"
WORK = ("-m", "holdfast", "spark", "work", "shop:app", "--lease", "3s", "--grace", "1s", "--json")


@pytest.fixture(scope="module")
def cluster():
    with SparkCluster(workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return packed_environment(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def store(postgres_database):
    url = postgres_database()
    with holdfast.connect(url) as opened:
        opened.address = url
        yield opened


def enqueue(store, type, payloads):
    client = holdfast.Client(store)
    return client.enqueue([holdfast.JobRequest(type=type, queue="orders", payload=payload) for payload in payloads])


def count(store, *states):
    return sum(getattr(count, state) for count in store.counts() for state in states)


def shipped(archive):
    """The application as a file, Holdfast inside an environment."""
    return settings(
        **{
            "spark.submit.pyFiles": SHOP,
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
    )


def test_an_executor_and_a_python_worker_are_killed_and_the_history_is_clean(cluster, archive, store, spark):
    enqueue(store, "ship", range(300))
    command = (*WORK, "--master", cluster.master, "--slots", "2", *shipped(archive))
    with Program(*command, folder=SHOP.parent, SHOP_URL=store.address) as work:
        work.until(lambda: count(store, "done") > 20)
        killed = cluster.executors()[0]
        os.kill(killed, signal.SIGKILL)
        work.until(lambda: killed not in cluster.executors() and len(cluster.executors()) == 2)
        before = count(store, "done")
        work.until(lambda: count(store, "done") > before + 20)
        busy = work.until(lambda: [pid for pid in cluster.python_workers() if children(pid)])
        os.kill(busy[0], signal.SIGKILL)
        tally = json.loads(work.output())
    assert (count(store, "done"), count(store, "dead")) == (294, 6)
    assert (tally["acked"], tally["failed"], tally["expired"] > 0) == (294, 6, True)
    certificate = audit_store(store, spark=spark)
    assert certificate.holds, certificate.violations
    assert sum(tally.values()) == certificate.leases


# Speculation: one Spark application, in which everything that takes a second is done twice ---------------------------


@pytest.fixture(scope="module")
def speculated(cluster, postgres_database, tmp_path_factory):
    """What the program found, its folder, and the URL that it was given."""
    folder = tmp_path_factory.mktemp("speculated")
    url = postgres_database().replace("//postgres@", f"//postgres:{PASSWORD}@")
    arguments = (PROGRAMS / "speculation.py", cluster.master, url, folder)
    with Program(*arguments, folder=ROOT, PYTHONPATH=str(ROOT)) as program:
        return json.loads(program.output()), folder, url


def test_under_speculation_no_job_is_lost_or_ended_twice_and_all_outcomes_are_told(speculated, spark):
    found, _, url = speculated
    assert found["tries"] > 2, "wanted a second copy of at least one of the two slots"
    jobs = [job for job, ending in found["queue"] if ending == "acked"]
    assert len(jobs) == len(set(jobs)) == 80
    assert found["rows"] == [80, 0]
    assert (found["counts"]["slow"], found["counts"]["run:speculated"]) == (80, 80)
    with holdfast.connect(url) as store:
        certificate = audit_store(store, spark=spark)
    assert certificate.holds, certificate.violations
    assert found["read"] == certificate.rows


def test_under_speculation_the_sink_makes_no_second_job(speculated):
    found, _, _ = speculated
    jobs, tries = found["saved"]
    assert (jobs, tries) == (200, 2)


def test_an_interrupt_on_a_cluster_gives_back_what_slots_hold(speculated):
    found, _, _ = speculated
    assert found["stopped"] == ["ready", 0]


def test_on_a_cluster_a_file_is_refused_by_every_way_in(speculated):
    found, _, _ = speculated
    assert set(found["refused"]) == {"run_queue", "run", "sink", "jobs", "ledger"}
    for said in found["refused"].values():
        assert "does not offer a Spark cluster: the file is on one machine" in said


def test_no_page_and_no_log_of_spark_shows_the_password_of_a_store(speculated):
    _, folder, _ = speculated
    shown = [file for place in ("pages", "events") for file in (folder / place).rglob("*") if file.is_file()]
    texts = {file.name: file.read_text(errors="replace") for file in shown}
    assert any("spark.executorEnv.SHOP_URL" in text for text in texts.values())  # the setting is there, and hidden
    assert any("SparkListenerSQLExecutionStart" in text for text in texts.values())
    assert [name for name, text in texts.items() if PASSWORD in text] == []


def test_the_example_of_a_cluster_proves_itself_and_leaves_nothing_behind(tmp_path):
    script = ROOT / "examples" / "standalone_cluster.py"
    with Program("-W", "error", script, folder=tmp_path, TMPDIR=str(tmp_path)) as example:
        said = example.output()
    assert "was killed" in said
    assert "all laws held" in said
    assert [place.name for place in tmp_path.iterdir() if place.name.startswith("holdfast-")] == []
