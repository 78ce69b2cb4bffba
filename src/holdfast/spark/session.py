"""A Spark session: the one that is there, or a new one, which is a local one unless a cluster is named."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.java import java_home
from holdfast.spark.store_access import on_one_machine

LOCAL = "local[*,4]"  # four tries of a Spark task, as on a cluster: plain local mode has one
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PYTHON = "spark.pyspark.python"
LOG4J = Path(__file__).with_name("log4j2.properties")

# Short compilation and the simplest collector: a local driver lives for minutes, and half of its start is warming up.
JAVA_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={LOG4J.as_uri()}"

# What any session of ours has. Spark hides settings by their names; a URL with a password is one by its value.
EVERYWHERE = {
    "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|://[^/\s:@]*:[^/\s@]*@",
}
# What only fits a session on one machine: a cluster's executors could not reach a Spark driver on loopback, and its
# pages and defaults are its operators'.
ON_ONE_MACHINE = {
    "spark.app.name": "holdfast",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",  # no port, no clash
    "spark.ui.showConsoleProgress": "false",
}


def session(master: str | SparkSession | None = None, **conf: Any) -> SparkSession:
    """A session that knows the format ``holdfast``: the one that is given or there already, else a new one.

    A new one is of ``master``, which may be ``sc://...`` for Spark Connect; else of what ``spark-submit``,
    ``SPARK_REMOTE`` or ``SPARK_MASTER`` say; else local. ``conf`` are settings of Spark with ``_`` for ``.``, as in
    ``spark_sql_shuffle_partitions=4``; they are for a new session, one that is there is not changed.
    """
    if master is not None and not isinstance(master, str):
        return registered(master)
    there = SparkSession.getActiveSession() or _default_session()
    if there is not None:
        return registered(there)
    wanted = master or _said_elsewhere()
    builder: Any = SparkSession.builder
    settings = {_setting(key): str(value) for key, value in conf.items()}
    if wanted is not None and wanted.startswith("sc://"):
        builder = builder.remote(wanted)
    else:
        if wanted is not None:
            builder = builder.master(wanted)
        if PYTHON in settings:  # spark-submit reads it; a session that Python starts reads the variable alone
            os.environ["PYSPARK_PYTHON"] = settings[PYTHON]
        settings = {**_ours(wanted), **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return registered(builder.getOrCreate())


def registered(spark: SparkSession) -> SparkSession:
    """The same session, knowing the format ``holdfast``; one of Spark 3 has no formats in Python, and goes without."""
    try:
        from holdfast.spark.datasource.format import ClusterSource, HoldfastSource  # noqa: PLC0415 - pyspark 4
    except ImportError:
        return spark
    spark.dataSource.register(HoldfastSource if on_one_machine(spark) else ClusterSource)
    spark.conf.set(PUSHDOWN, "true")  # or Spark refuses a source that knows what to do with filters
    return spark


def _default_session() -> SparkSession | None:
    """What another thread has made: Spark calls a session active only in the threads that used it."""
    made = getattr(SparkSession, "_instantiatedSession", None)
    return made if made is not None and made._sc._jsc is not None else None  # noqa: SLF001 - a stopped one stays there


def _setting(key: str) -> str:
    """``spark_executor_memory`` is a setting's name where dots cannot be; ``spark.executorEnv.MY_VARIABLE`` is one."""
    return key if "." in key else key.replace("_", ".")


def _said_elsewhere() -> str | None:
    """The master that the environment names; None if ``spark-submit`` has the say."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if submitted:
        return None
    return os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_MASTER") or LOCAL


def _ours(master: str | None) -> dict[str, str]:
    """What a new session is made with, unless the caller says otherwise."""
    if master is None:
        return EVERYWHERE
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not master.startswith("local"):
        return EVERYWHERE  # its workers have their own Python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark tasks take whatever python3 is
    return {**EVERYWHERE, **ON_ONE_MACHINE}
