"""Jobs on a real cluster: a standalone master and two workers. The executors get Holdfast in an archive."""

import json
import os
import signal
import sys
import urllib.request

import pytest

import holdfast
from holdfast.drivers.requests import Scan
from holdfast.spark.execution.run_spec import RUN_KIND
from holdfast.testing.servers.spark_cluster import SparkCluster
from holdfast.testing.servers.spark_process import children
from tests.spark.clusters import PROGRAMS, Program, packed_environment, settings, spark_submit, wait_until

ROOT = PROGRAMS.parents[2]
PASSWORD = "hunter2-of-the-store"
SIGNING_KEY = "correct horse battery staple"
pytestmark = pytest.mark.timeout(1200)  # the first test starts a cluster and a Spark application
SHOP = PROGRAMS / "shop.py"
WORK = ("-m", "holdfast", "spark", "work", "shop:app", "--lease", "3s", "--grace", "1s", "--json")


@pytest.fixture(scope="module")
def cluster():
    with SparkCluster(workers=2) as cluster:
        yield cluster


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
    """Settings that ship the application as a file, and Holdfast in a packed environment."""
    return settings(
        **{
            "spark.submit.pyFiles": SHOP,
            "spark.archives": f"{archive}#environment",
            "spark.pyspark.python": "./environment/bin/python",
        }
    )


@pytest.fixture(scope="module")
def drained(cluster, archive, postgres_database):
    """The URL of a store of 300 jobs, and the counts that the command printed when it had run them.

    An executor was killed meanwhile, and then a Python worker with a job.
    """
    url = postgres_database()
    command = (*WORK, "--master", cluster.master, "--slots", "2", *shipped(archive))
    with holdfast.connect(url) as store:
        enqueue(store, "ship", range(300))
        with Program(*command, folder=SHOP.parent, SHOP_URL=url) as work:
            work.until(lambda: count(store, "done") > 20)
            kill_an_executor(cluster, work)
            work.until(lambda: len(cluster.executors()) == 2)
            before = count(store, "done")
            work.until(lambda: count(store, "done") > before + 20)
            busy = work.until(lambda: [pid for pid in cluster.python_workers() if children(pid)])
            os.kill(busy[0], signal.SIGKILL)
            return url, json.loads(work.output())


def kill_an_executor(cluster, program):
    killed = cluster.executors()[0]
    os.kill(killed, signal.SIGKILL)
    program.until(lambda: killed not in cluster.executors())


def test_no_job_is_lost_when_an_executor_and_a_python_worker_are_killed(drained):
    url, tally = drained
    with holdfast.connect(url) as store:
        assert (count(store, "done"), count(store, "dead")) == (294, 6)
    assert (tally["acked"], tally["dead"], tally["expired"] > 0) == (294, 6, True)


def kill_over_rest(cluster, driver):
    url = f"http{cluster.rest_master.removeprefix('spark')}/v1/submissions/kill/{driver}"
    with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=30) as answer:
        assert json.load(answer)["success"]


def kill_by_command(cluster, driver):
    """Send the same request in a JVM of its own."""
    spark_submit("--master", cluster.rest_master, "--kill", driver)


@pytest.mark.parametrize("kill", [kill_over_rest, pytest.param(kill_by_command, marks=pytest.mark.long)])
def test_spark_submit_kill_drains_the_slots(cluster, store, tmp_path, kill):
    finish = tmp_path / "finish"
    holdfast.Client(store).enqueue(holdfast.JobRequest(type="wait", queue="killed"))
    conf = settings(**{"spark.pyspark.python": sys.executable, "spark.pyspark.driver.python": sys.executable})
    driver = cluster.submit("--master", cluster.master, *conf, PROGRAMS / "killed.py", store.address, finish)
    wait_until(lambda: count(store, "inflight"))
    kill(cluster, driver)
    wait_until(lambda: store.do(Scan(kind=RUN_KIND, limit=1)))
    finish.touch()
    wait_until(lambda: not cluster.state()["activedrivers"])
    assert (count(store, "done"), count(store, "ready", "inflight", "dead")) == (1, 0)


# Speculation: one Spark application that starts a copy of every Spark task that takes a second ------------------------


@pytest.fixture(scope="module")
def speculated(cluster, drained, postgres_database, tmp_path_factory):
    """The output of the program, and its folder.

    The settings file, which the Spark driver and the executors read, is the only place with the signing key.
    """
    folder = tmp_path_factory.mktemp("speculated")
    url = postgres_database().replace("//postgres@", f"//postgres:{PASSWORD}@")
    file = folder / "settings.toml"
    signing = f'signing = "required"\nsigning_key = "{SIGNING_KEY}"\n'
    file.write_text(f'{signing}[stores.shop]\nurl = "{url}"\nspace = "tenant"\n', encoding="utf-8")
    file.chmod(0o600)
    arguments = (PROGRAMS / "speculation.py", cluster.master, url, folder, drained[0])
    variables = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "HOLDFAST_CONFIG": str(file)}
    with Program(*arguments, folder=ROOT, **variables) as program:
        program.until((folder / "returned").exists)
        kill_an_executor(cluster, program)
        (folder / "killed").touch()
        results = json.loads(program.output())
        (folder / "pages" / "stderr").write_text(program.error_output(), encoding="utf-8")
        return results, folder


def test_no_law_is_broken_when_an_executor_and_a_python_worker_are_killed(drained, speculated):
    _, tally = drained
    results, _ = speculated
    certificate = results["drained_certificate"]
    assert certificate["holds"], certificate["violations"]
    assert sum(tally.values()) == certificate["leases"]


def test_under_speculation_no_job_is_lost_or_ended_twice_and_all_outcomes_are_returned(speculated):
    results, _ = speculated
    assert results["attempts"] > 2, "wanted a second copy of at least one of the two slots"
    jobs = [job for job, ending in results["queue"] if ending == "acked"]
    assert len(jobs) == len(set(jobs)) == 80
    assert results["rows"] == [80, 0]
    assert (results["counts"]["slow"], results["counts"]["run:speculated"]) == (80, 80)
    certificate = results["certificate"]
    assert certificate["holds"], certificate["violations"]
    assert results["read"] == certificate["rows"]


def test_the_result_of_a_run_survives_the_loss_of_an_executor(speculated):
    results, _ = speculated
    assert results["lost"] == [396, 4]


def test_under_speculation_the_sink_makes_no_second_job(speculated):
    results, _ = speculated
    jobs, attempts = results["saved"]
    assert (jobs, attempts) == (200, 2)


def test_an_interrupt_on_a_cluster_releases_the_jobs_of_slots(speculated):
    results, _ = speculated
    assert results["stopped"] == ["ready", 0]


def test_on_a_cluster_every_function_refuses_a_file(speculated):
    results, _ = speculated
    assert set(results["refused"]) == {"run_queue", "run", "sink", "jobs", "ledger"}
    for message in results["refused"].values():
        assert "does not offer a Spark cluster: the file is on one machine" in message


def test_a_named_store_and_keys_are_used_on_a_cluster(speculated):
    results, _ = speculated
    assert results["named"] == {"saved": 5, "drained": 5, "run": [3, 0], "table": 8, "signed": 8, "ledger": 8}


def test_no_page_and_no_log_of_spark_shows_the_password_of_a_store_or_a_key(speculated):
    _, folder = speculated
    shown = [file for place in ("pages", "events") for file in (folder / place).rglob("*") if file.is_file()]
    texts = {file.name: file.read_text(errors="replace") for file in shown}
    assert any("spark.executorEnv.SHOP_URL" in text for text in texts.values())  # the setting is listed, and redacted
    assert any("SparkListenerSQLExecutionStart" in text and "CreateTable" in text for text in texts.values())
    for secret in (PASSWORD, SIGNING_KEY):
        assert [name for name, text in texts.items() if secret in text] == []


@pytest.mark.long  # the tests above run the same on the cluster of this module
def test_the_cluster_example_runs_and_leaves_no_files(tmp_path):
    script = ROOT / "examples" / "standalone_cluster.py"
    with Program("-W", "error", script, folder=tmp_path, TMPDIR=str(tmp_path)) as example:
        output = example.output()
    assert "was killed" in output
    assert "every law holds" in output
    left = [place.name for place in tmp_path.iterdir() if place.name.startswith("holdfast-")]
    assert left in ([], [f"holdfast-java-{os.getuid()}"])  # shared by all programs of a user; see holdfast.spark.java
