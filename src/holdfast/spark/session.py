"""A Spark session: the one that is there, or a local one that starts as fast as it can."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.java import java_home

LOCAL = "local[*,4]"  # four tries of a Spark task, as on a cluster: plain local mode has one
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
LOG4J = Path(__file__).with_name("log4j2.properties")

# Short compilation and the simplest collector: a local driver lives for minutes, and half of its start is warming up.
JAVA_OPTIONS = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={LOG4J.as_uri()}"

CONF = {
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


def session(master: str | None = None, **conf: Any) -> SparkSession:
    """The active session; else the one of ``sc://...``; else a local or cluster one. It knows the format ``holdfast``.

    ``conf`` are settings of Spark with ``_`` for ``.``, as in ``spark_sql_shuffle_partitions=4``; they are for a new
    session, an active one is not changed.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return registered(active)
    settings = {key.replace("_", "."): str(value) for key, value in conf.items()}
    builder: Any = SparkSession.builder
    remote = master if master and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    if remote and (master is None or master == remote):
        builder = builder.remote(remote)
    else:
        builder = builder.master(master or os.environ.get("SPARK_MASTER") or LOCAL)
        settings = {**_local(master), **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    return registered(builder.getOrCreate())


def registered(spark: SparkSession) -> SparkSession:
    """The same session, knowing the format ``holdfast``; one of Spark 3 has no formats in Python, and goes without."""
    try:
        from holdfast.spark.datasource import HoldfastSource  # noqa: PLC0415 - pyspark 4
    except ImportError:
        return spark
    spark.dataSource.register(HoldfastSource)
    spark.conf.set(PUSHDOWN, "true")  # or Spark refuses a source that knows what to do with filters
    return spark


def _local(master: str | None) -> dict[str, str]:
    """What a session of our own needs; a cluster's workers have their Python and their Java."""
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master is None or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or Spark tasks take whatever python3 is
    return CONF
