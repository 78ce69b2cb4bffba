"""Return the Spark session of this process, or create one: a local one unless a cluster is named.

Runs on the Spark driver.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.spark.java import java_home
from holdfast.spark.store_access import on_one_machine

LOCAL_MASTER = "local[*,8]"  # attempts of a Spark task: a job that kills its slot does so up to four times (ADR 0025)
PYTHON = "spark.pyspark.python"
LOG4J = Path(__file__).with_name("log4j2.properties")

# Only the fast compiler and the serial collector: a local Spark driver lives for minutes, and JIT warm-up is half of
# its start time. With that compiler alone the JVM reserves 48 MB for compiled code. Spark compiles each query: some
# dozen runs and audits fill them, and the JVM interprets from then on. 240 MB is what it reserves with both compilers.
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    f"-Dlog4j2.configurationFile={LOG4J.as_uri()}"
)
JAVA_OPTIONS_KEY = "spark.driver.extraJavaOptions"
TRIES_OPTION = "-Dholdfast.spark.tries=NEUTRAL"  # read by the log configuration

# Settings of every new session. By default Spark redacts settings by name. These also redact the password of a URL, in
# the values of settings and in the text of plans: CREATE TABLE shows its options there, before it calls the source.
CREDENTIALS_IN_URL = r"://[^/\s:@]*:[^/\s@]*@"
COMMON_CONF = {
    "spark.redaction.regex": rf"(?i)secret|password|token|access[.]?key|{CREDENTIALS_IN_URL}",
    "spark.redaction.string.regex": CREDENTIALS_IN_URL,
}
# Settings for local mode only: the executors of a cluster cannot reach a Spark driver on loopback, and the web pages
# and defaults of a cluster are a decision of its operators.
LOCAL_CONF = {
    "spark.app.name": "holdfast",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    JAVA_OPTIONS_KEY: JAVA_OPTIONS,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",  # opens no port
    "spark.ui.showConsoleProgress": "false",
}


def session(master: str | SparkSession | None = None, *, debug: bool = False, **conf: Any) -> SparkSession:
    """Return a session with the format ``holdfast``: the session that is passed, else the active one, else a new one.

    A new session connects to ``master``, which may be ``sc://...`` for Spark Connect. Without ``master`` it uses the
    master that ``spark-submit``, ``SPARK_REMOTE`` or ``SPARK_MASTER`` names, else local mode. ``conf`` are settings of
    Spark with ``_`` for ``.``, as in ``spark_sql_shuffle_partitions=4``. They apply to a new session only. With
    ``debug`` a new local session logs every try of a failed Spark task on stderr, with the trace of the JVM.
    """
    if master is not None and not isinstance(master, str):
        return register_format(master)
    active = SparkSession.getActiveSession() or _default_session()
    if active is not None:
        return register_format(active)
    master = master or _master_of_environment()
    builder: Any = SparkSession.builder
    settings = {_setting(key): str(value) for key, value in conf.items()}
    if master is not None and master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        if master is not None:
            builder = builder.master(master)
        if PYTHON in settings:  # spark-submit reads the setting; a session that Python starts reads only the variable
            os.environ["PYSPARK_PYTHON"] = settings[PYTHON]
        defaults = _default_conf(master)
        if debug and JAVA_OPTIONS_KEY in defaults:
            defaults = {**defaults, JAVA_OPTIONS_KEY: f"{JAVA_OPTIONS} {TRIES_OPTION}"}
        settings = {**defaults, **settings}
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _java_for(master):
        return register_format(builder.getOrCreate())


@contextmanager
def _java_for(master: str | None) -> Iterator[None]:
    """Set JAVA_HOME for a JVM that is started inside, if Holdfast chooses its Java. One of the caller is set again."""
    if master is None or master.startswith("sc://"):
        yield
        return
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = java_home()
    try:
        yield
    finally:
        if before is not None:
            os.environ["JAVA_HOME"] = before


def register_format(spark: SparkSession) -> SparkSession:
    """Register the format ``holdfast`` and return the session. Spark 3 has no data sources in Python: skip it there."""
    try:
        from holdfast.spark.datasource.format import ClusterSource, HoldfastSource  # noqa: PLC0415 - pyspark 4
    except ImportError:
        return spark
    spark.dataSource.register(HoldfastSource if on_one_machine(spark) else ClusterSource)
    return spark


def _default_session() -> SparkSession | None:
    """Return the session that another thread created: a session is active only in the threads that have used it."""
    default: SparkSession | None = getattr(SparkSession, "_instantiatedSession", None)
    if default is None or default._sc._jsc is None:  # noqa: SLF001 - the attribute still names a stopped session
        return None
    return default


def _setting(key: str) -> str:
    """Return the name of a setting: underscores become dots, except in a name that has dots."""
    return key if "." in key else key.replace("_", ".")


def _master_of_environment() -> str | None:
    """Return the master that the environment names; None if ``spark-submit`` decides."""
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if submitted:
        return None
    return os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_MASTER") or LOCAL_MASTER


def _default_conf(master: str | None) -> dict[str, str]:
    """Return the settings of a new session; the caller's settings override them."""
    if master is None:
        return COMMON_CONF
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not master.startswith("local"):
        return COMMON_CONF  # executors of a cluster have their own Python
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else Spark tasks run the python3 of the PATH
    return {**COMMON_CONF, **LOCAL_CONF}
