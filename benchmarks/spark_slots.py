"""How much does it cost to run jobs in Spark tasks: two slots against two plain workers on the same store?

Both sides have one child process per core and drain the same queue. The Spark session exists already, as on a cluster;
starting and ending the Spark job counts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.handlers import make_handler
from benchmarks.jobs import QUEUE, TYPE, fill
from benchmarks.processes import run_timed
from holdfast import Holdfast
from holdfast.spark import run_queue, session
from holdfast.testing.servers.postgres import PostgresServer

SLOTS = 2
ROUNDS = 3
# kind: its description, the number of jobs (enough for about ten seconds), the target ratio to the plain workers
KINDS = {
    "noop": ("no-op jobs", 200_000, 0.7),
    "cpu": ("1 ms of CPU", 12_000, 0.85),
    "sleep": ("10 ms sleeps", 3_000, 0.95),
}


def measure(folder: Path) -> Iterator[Comparison]:
    spark = session(f"local[{SLOTS},4]")
    try:
        yield from _compare_on("SQLite", f"sqlite:///{folder}/slots.db")
        with PostgresServer() as server:
            yield from _compare_on("PostgreSQL", server.create_database("slots"))
    finally:
        spark.stop()


def _compare_on(name: str, url: str) -> Iterator[Comparison]:
    with holdfast.connect(url) as store:
        drain_with_slots(url, "noop")  # starts Spark's Python workers, which are reused
        for kind, (description, jobs, target) in KINDS.items():

            def ours(kind: str = kind, jobs: int = jobs) -> float:
                fill(store, jobs)
                return drain_with_slots(url, kind)

            def other(kind: str = kind, jobs: int = jobs) -> float:
                fill(store, jobs)
                return run_timed("worker_pair", "pair", url, kind)

            question = f"{name}: {SLOTS} slots / {SLOTS} plain workers, {description}"
            yield compare_throughput(question, jobs=jobs, rounds=ROUNDS, ours=ours, other=other, target=target)


def drain_with_slots(url: str, kind: str) -> float:
    """Seconds from the call of ``run_queue`` to its DataFrame of outcomes."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(make_handler(kind))
    started = time.perf_counter()
    run_queue(app, spark=session(), slots=SLOTS).unpersist()
    seconds = time.perf_counter() - started
    app.close()
    return seconds
