"""Which session is used, the settings of a new one, and which stores its executors may open."""

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import holdfast
from holdfast.errors import Unsupported
from holdfast.spark import session
from holdfast.spark.session import COMMON_CONF, LOCAL_MASTER, _default_conf, _java_for, _master_of_environment, _setting
from holdfast.spark.store_access import check, on_one_machine
from tests.soak.spark_runs import MAX_CODE_SHARE, code_cache_bytes, run_sync_audit


def test_an_existing_session_is_used_also_from_another_thread(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    sessions = []
    thread = threading.Thread(target=lambda: sessions.append(session("local[7]", spark_sql_shuffle_partitions=77)))
    thread.start()
    thread.join()
    assert sessions == [spark]
    assert session(spark) is session() is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == before


def test_a_session_has_room_for_the_compiled_code_of_many_runs_and_audits(spark, tmp_path):
    """``python3 run soak spark-runs`` does a hundred. The space that the JVM would reserve by itself is a fifth."""
    run_sync_audit(spark, tmp_path / "round", 1)
    used, reserved = code_cache_bytes(spark)
    assert reserved >= 200 << 20
    assert used < MAX_CODE_SHARE * reserved


def test_the_jvm_gets_no_module_about_which_it_would_print_a_warning(spark):
    management = spark.sparkContext._jvm.java.lang.management.ManagementFactory
    arguments = list(management.getRuntimeMXBean().getInputArguments())
    assert arguments
    assert not any("incubator" in one for one in arguments)


@pytest.mark.parametrize("home", [None, "/usr/lib/jvm/of the caller"])
def test_the_java_of_the_caller_stays_after_the_start(home, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home is not None:
        monkeypatch.setenv("JAVA_HOME", home)
    with _java_for("local[2]"):
        shim = Path(os.environ["JAVA_HOME"], "bin", "java")
        command = [shim, "--add-modules=jdk.incubator.vector", "-version"]
        version = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "version" in version.stderr
    assert "incubator" not in version.stderr + version.stdout
    assert os.environ.get("JAVA_HOME") == (home or str(shim.parents[1]))
    assert ("of the caller" in shim.read_text()) == (home is not None)


def test_on_a_cluster_the_spark_driver_does_not_bind_to_loopback(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert _default_conf("local[2]")["spark.driver.host"] == "127.0.0.1"
    for master in ("spark://host:7077", "yarn", "k8s://https://host:6443", None):
        assert _default_conf(master) == COMMON_CONF


def test_the_environment_names_the_master_unless_spark_submit_does(monkeypatch):
    for name in ("SPARK_REMOTE", "SPARK_MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    assert _master_of_environment() == LOCAL_MASTER
    monkeypatch.setenv("SPARK_MASTER", "yarn")
    assert _master_of_environment() == "yarn"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert _master_of_environment() is None


def test_a_setting_is_named_with_underscores_or_with_dots():
    assert _setting("spark_executor_memory") == "spark.executor.memory"
    assert _setting("spark.executorEnv.MY_VARIABLE") == "spark.executorEnv.MY_VARIABLE"


def test_a_file_is_refused_on_a_cluster_and_memory_everywhere(spark, tmp_path):
    assert on_one_machine(spark)
    with holdfast.connect(f"sqlite:///{tmp_path}/jobs.db") as store:
        check(store, one_machine=True)
        with pytest.raises(Unsupported, match="a Spark cluster: the file is on one machine"):
            check(store, one_machine=False)
    with holdfast.connect("memory://") as store, pytest.raises(Unsupported, match="one process"):
        check(store, one_machine=True)


def test_the_package_imports_without_the_data_source_api_of_pyspark_4():
    """Without data sources in Python all of ``holdfast.spark`` imports, and sessions are returned unchanged."""
    program = """
import sys
for name in ("pyspark.sql.datasource", "pyspark.sql.streaming.datasource"):
    sys.modules[name] = None  # the import fails
from holdfast.spark import run, run_queue, session
from holdfast.spark.session import register_format
assert register_format("any session") == "any session"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
