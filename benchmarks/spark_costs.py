"""Where the processor time of a job goes: the store's server, the Python processes, and the Java of Spark.

Slots beside plain workers, as in ``spark-slots``, in processor time instead of time on the wall. These are the numbers
that docs/scale.md multiplies; a busy machine changes them little.
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
from benchmarks.cpu import below, own, spent
from benchmarks.jobs import fill
from benchmarks.measure import Answer
from benchmarks.sides import seconds
from benchmarks.spark_slots import SLOTS, drained_by_slots
from holdfast.spark import session
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 3
WANTED = 1.4  # times the processor time of a plain worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds of a processor."""

    server: float
    python: float
    java: float = 0.0

    @property
    def total(self) -> float:
        """Of the whole machine."""
        return self.server + self.python + self.java

    def beyond(self, nothing: Spent, jobs: int) -> Spent:
        """For each of the jobs, what goes beyond a run without any."""
        return Spent(
            server=(self.server - nothing.server) / jobs,
            python=(self.python - nothing.python) / jobs,
            java=(self.java - nothing.java) / jobs,
        )

    def __str__(self) -> str:
        parts = {"server": self.server, "Python": self.python, "Java": self.java}
        return " + ".join(f"{name} {value * 1e6:.0f}" for name, value in parts.items() if value) + " µs"


def answers(folder: Path) -> Iterator[Answer]:
    spark = session(f"local[{SLOTS},4]")
    try:
        yield _beside(spark, "SQLite", f"sqlite:///{folder}/costs.db", None)
        with PostgresServer() as server:
            url = server.create_database("costs")
            yield _beside(spark, "PostgreSQL", url, server.pid)
            yield _connections(url)
    finally:
        spark.stop()


def _beside(spark: SparkSession, name: str, url: str, server: int | None) -> Answer:
    context: Any = spark.sparkContext
    java = int(context._jvm.java.lang.ProcessHandle.current().pid())

    def slots() -> Spent:
        before = _of(server), below(java), own(java)
        drained_by_slots(url, "noop")
        return Spent(server=_of(server) - before[0], python=below(java) - before[1], java=own(java) - before[2])

    def pair() -> Spent:
        before = _of(server), _waited_for()
        seconds("contender_pair", "pair", url, "noop")
        return Spent(server=_of(server) - before[0], python=_waited_for() - before[1])

    with holdfast.connect(url) as store:

        def each(run: Callable[[], Spent]) -> Spent:
            """Beyond what a run without jobs takes, which imports and starts processes."""
            nothing = run()
            fill(store, JOBS)
            return run().beyond(nothing, JOBS)

        drained_by_slots(url, "noop")
        rounds = [(each(slots), each(pair)) for _ in range(ROUNDS)]
    mine, theirs = (min(side, key=lambda spent: spent.total) for side in zip(*rounds, strict=True))
    return Answer(
        question=f"{name}: processor time of a no-op job, slots / plain workers",
        ratio=mine.total / theirs.total,
        wanted=WANTED,
        at_least=False,
        ours=str(mine),
        other=str(theirs),
    )


def _of(server: int | None) -> float:
    return 0.0 if server is None else spent(server)


def _waited_for() -> float:
    """Of children that have ended: the Java of the session, which is one, has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Connections ------------------------------------------------------------------------------------------------


def _connections(url: str) -> Answer:
    """The most sessions that a run has open at a time, beside those that this process holds."""
    with holdfast.connect(url) as store:
        fill(store, JOBS)
    with _counted(url) as most:
        drained_by_slots(url, "noop")
    return Answer(
        question=f"PostgreSQL: sessions of {SLOTS} slots, for each",
        ratio=most() / SLOTS,
        wanted=5.0,
        at_least=False,
        ours=f"{most()}",
        other=f"{SLOTS} slots",
    )


@contextmanager
def _counted(url: str) -> Iterator[Callable[[], int]]:
    counts = [0]
    done = threading.Event()

    def look() -> None:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with psycopg.connect(url, autocommit=True) as connection:
            while not done.wait(0.05):
                row = connection.execute(asked).fetchone()
                assert row is not None
                counts.append(row[0])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield lambda: max(counts)
    finally:
        done.set()
        thread.join()
