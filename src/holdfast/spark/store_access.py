"""Which stores a session's executors can open: asked before any Spark task runs.

A file that every executor opens on its own machine would be as many queues as there are machines, each of them
certain that it is the only one.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from holdfast.drivers.contract import Feature, Store
from holdfast.errors import Unsupported

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


def check_reach(store: Store, spark: SparkSession) -> None:
    """Refuse a store that the executors of this session could not share."""
    check(store, one_machine=on_one_machine(spark))


def check(store: Store, *, one_machine: bool) -> None:
    """Refuse a store that several processes, or several machines, could not share."""
    gaps = store.capabilities.gaps
    if Feature.PROCESSES in gaps:
        raise Unsupported(store.capabilities.driver, "Spark", gaps[Feature.PROCESSES])
    if Feature.MACHINES in gaps and not one_machine:
        raise Unsupported(store.capabilities.driver, "a Spark cluster", gaps[Feature.MACHINES])


def on_one_machine(spark: SparkSession) -> bool:
    """Whether all that works for this session is here: local mode, and for Connect also a server on this machine."""
    if not str(spark.conf.get("spark.master", "local")).startswith("local"):
        return False
    return not is_connect(spark) or _server_of(spark) in LOOPBACK


def is_connect(spark: SparkSession) -> bool:
    """Whether it is a client of Spark Connect, which has neither a JVM nor a SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _server_of(spark: Any) -> str:
    return str(spark.client.host)
