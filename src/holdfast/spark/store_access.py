"""Which stores the executors of a session can share, and the open connection of each Python process.

The checks run on the Spark driver, before any Spark task starts. A file that every executor opens on its own machine
would be one separate queue for each machine.
"""

from __future__ import annotations

import os
from typing import Any, cast

from pyspark.sql import SparkSession

from holdfast import settings
from holdfast.connect import connect
from holdfast.drivers.capabilities import Feature
from holdfast.drivers.store import Store
from holdfast.errors import Unsupported
from holdfast.settings import SigningMode
from holdfast.signing import open_signer
from holdfast.wire.signing import Signer

LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")

_open_stores: dict[tuple[int, str, str], Store] = {}


def open_store(url: str, space: str) -> Store:
    """Return the connection of this process to a store: a Python worker runs many Spark tasks, and connects once."""
    key = (os.getpid(), url, space)  # a forked process must not use the connection of its parent
    if key not in _open_stores:
        _open_stores[key] = connect(url, space=space)
    return _open_stores[key]


def signer_of(space: str, at_least: SigningMode) -> Signer | None:
    """Return the signer of a space, with the keys of this process: no plan, no log and no event log has a key.

    ``at_least`` is the mode of the Spark driver. Raises ``InvalidInput`` if signing is on and this process has no key.
    """
    return open_signer(settings.read(), space=space, at_least=at_least)


def check_reach(store: Store, spark: SparkSession) -> None:
    """Raise ``Unsupported`` for a store that the executors of this session cannot share."""
    check(store, one_machine=on_one_machine(spark))


def check(store: Store, *, one_machine: bool) -> None:
    """Raise ``Unsupported`` for a store that several processes, or several machines, cannot share."""
    gaps = store.capabilities.gaps
    if Feature.PROCESSES in gaps:
        raise Unsupported(store.capabilities.driver, "Spark", gaps[Feature.PROCESSES])
    if Feature.MACHINES in gaps and not one_machine:
        raise Unsupported(store.capabilities.driver, "a Spark cluster", gaps[Feature.MACHINES])


def on_one_machine(spark: SparkSession) -> bool:
    """Whether all executors run on this machine: local mode, with Spark Connect also a server on this machine."""
    if not str(spark.conf.get("spark.master", "local")).startswith("local"):
        return False
    return not is_connect(spark) or cast("Any", spark).client.host in LOOPBACK


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect, which has neither a JVM nor a SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
