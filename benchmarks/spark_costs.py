"""How much processor time does a job use in the store's server, the Python processes and the JVM of Spark?

Slots against plain workers, as in ``spark-slots``, but in processor time instead of wall-clock time.
docs/explanation/scale.md uses these numbers; other load on the machine changes them little.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import SparkSession

import holdfast
from benchmarks.comparison import Comparison
from benchmarks.cpu_time import descendant_seconds, own_seconds, tree_seconds
from benchmarks.jobs import fill
from benchmarks.processes import run_timed
from benchmarks.spark_slots import SLOTS, drain_with_slots
from holdfast.spark import session
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 3
TARGET = 1.4  # times the processor time of a plain worker
COUNT_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSeconds:
    """Processor seconds by place."""

    server: float
    python: float
    java: float = 0.0

    @property
    def total(self) -> float:
        """The sum over all places."""
        return self.server + self.python + self.java

    def per_job(self, empty_run: CpuSeconds, jobs: int) -> CpuSeconds:
        """The seconds of one job, without the cost of a run that has no jobs."""
        return CpuSeconds(
            server=(self.server - empty_run.server) / jobs,
            python=(self.python - empty_run.python) / jobs,
            java=(self.java - empty_run.java) / jobs,
        )

    def __str__(self) -> str:
        parts = {"server": self.server, "Python": self.python, "Java": self.java}
        return " + ".join(f"{name} {value * 1e6:.0f}" for name, value in parts.items() if value) + " µs"


def measure(folder: Path) -> Iterator[Comparison]:
    spark = session(f"local[{SLOTS},4]")
    try:
        yield _compare_cpu(spark, "SQLite", f"sqlite:///{folder}/costs.db", None)
        with PostgresServer() as server:
            url = server.create_database("costs")
            yield _compare_cpu(spark, "PostgreSQL", url, server.pid)
            yield _count_connections(url)
    finally:
        spark.stop()


def _compare_cpu(spark: SparkSession, name: str, url: str, server: int | None) -> Comparison:
    context: Any = spark.sparkContext
    java = int(context._jvm.java.lang.ProcessHandle.current().pid())

    def slots() -> CpuSeconds:
        before = _server_seconds(server), descendant_seconds(java), own_seconds(java)
        drain_with_slots(url, "noop")
        return CpuSeconds(
            server=_server_seconds(server) - before[0],
            python=descendant_seconds(java) - before[1],
            java=own_seconds(java) - before[2],
        )

    def plain_workers() -> CpuSeconds:
        before = _server_seconds(server), _reaped_children_seconds()
        run_timed("worker_pair", "pair", url, "noop")
        return CpuSeconds(server=_server_seconds(server) - before[0], python=_reaped_children_seconds() - before[1])

    with holdfast.connect(url) as store:

        def per_job(run: Callable[[], CpuSeconds]) -> CpuSeconds:
            """The cost of one job; a run without jobs pays for imports and for the start of the processes."""
            empty_run = run()
            fill(store, JOBS)
            return run().per_job(empty_run, JOBS)

        drain_with_slots(url, "noop")
        rounds = [(per_job(slots), per_job(plain_workers)) for _ in range(ROUNDS)]
    ours, other = (min(side, key=lambda cost: cost.total) for side in zip(*rounds, strict=True))
    return Comparison(
        question=f"{name}: processor time of a no-op job, slots / plain workers",
        ratio=ours.total / other.total,
        target=TARGET,
        at_least=False,
        ours=str(ours),
        other=str(other),
    )


def _server_seconds(server: int | None) -> float:
    return 0.0 if server is None else tree_seconds(server)


def _reaped_children_seconds() -> float:
    """Seconds of children that have ended. The JVM of the session is a child too, but it is still running."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Connections ------------------------------------------------------------------------------------------------


def _count_connections(url: str) -> Comparison:
    """The most sessions that a run has open at a time, without those of this process."""
    with holdfast.connect(url) as store:
        fill(store, JOBS)
    with _session_counter(url) as highest_count:
        drain_with_slots(url, "noop")
    return Comparison(
        question=f"PostgreSQL: sessions per slot with {SLOTS} slots",
        ratio=highest_count() / SLOTS,
        target=5.0,
        at_least=False,
        ours=f"{highest_count()}",
        other=f"{SLOTS} slots",
    )


@contextmanager
def _session_counter(url: str) -> Iterator[Callable[[], int]]:
    counts = [0]
    done = threading.Event()

    def count() -> None:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as connection:
            while not done.wait(COUNT_INTERVAL_SECONDS):
                row = connection.execute(query).fetchone()
                assert row is not None
                counts.append(row[0])

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield lambda: max(counts)
    finally:
        done.set()
        thread.join()
