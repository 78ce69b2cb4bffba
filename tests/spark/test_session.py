"""Which session is taken, what a new one is made with, and which stores its executors may open."""

import subprocess
import sys
import threading

import pytest

import holdfast
from holdfast.errors import Unsupported
from holdfast.spark import session
from holdfast.spark.session import EVERYWHERE, LOCAL, _ours, _said_elsewhere, _setting
from holdfast.spark.store_access import check, on_one_machine


def test_the_session_that_is_there_is_taken_also_from_another_thread_and_when_it_is_given(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    found = []
    thread = threading.Thread(target=lambda: found.append(session("local[7]", spark_sql_shuffle_partitions=77)))
    thread.start()
    thread.join()
    assert found == [spark]
    assert session(spark) is session() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_on_a_cluster_the_spark_driver_is_where_executors_reach_it(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _ours("local[2]")["spark.driver.host"] == "127.0.0.1"
    for master in ("spark://host:7077", "yarn", "k8s://https://host:6443", None):
        assert _ours(master) == EVERYWHERE


def test_the_master_is_what_the_environment_says_unless_spark_submit_has_the_say(monkeypatch):
    for name in ("SPARK_REMOTE", "SPARK_MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert _said_elsewhere() == LOCAL
    monkeypatch.setenv("SPARK_MASTER", "yarn")
    assert _said_elsewhere() == "yarn"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert _said_elsewhere() is None


def test_a_setting_is_named_with_underscores_or_as_it_is():
    assert _setting("spark_executor_memory") == "spark.executor.memory"
    assert _setting("spark.executorEnv.MY_VARIABLE") == "spark.executorEnv.MY_VARIABLE"


def test_a_file_is_for_one_machine_and_memory_for_one_process(spark, tmp_path):
    assert on_one_machine(spark)
    with holdfast.connect(f"sqlite:///{tmp_path}/jobs.db") as store:
        check(store, one_machine=True)
        with pytest.raises(Unsupported, match="a Spark cluster: the file is on one machine"):
            check(store, one_machine=False)
    with holdfast.connect("memory://") as store, pytest.raises(Unsupported, match="one process"):
        check(store, one_machine=True)


def test_running_needs_nothing_that_pyspark_3_lacks():
    """Formats in Python came with pyspark 4. Without them all of ``holdfast.spark`` imports, and sessions are given."""
    program = """
import sys
for name in ("pyspark.sql.datasource", "pyspark.sql.streaming.datasource"):
    sys.modules[name] = None  # as if it were not there
from holdfast.spark import run, run_queue, session
from holdfast.spark.session import registered
assert registered("any session") == "any session"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
