"""What it costs to run jobs in Spark tasks: two slots of a local session beside two plain workers on the same store.

Both sides have one child process for each core and drain the same queue. The session is there already, as on a cluster;
what a Spark job costs to start and to end is counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.handlers import handler
from benchmarks.jobs import QUEUE, TYPE, fill
from benchmarks.measure import Answer, throughput
from benchmarks.sides import seconds
from holdfast.app import Holdfast
from holdfast.spark import run_queue, session
from holdfast.testing.servers.postgres import PostgresServer

SLOTS = 2
ROUNDS = 3
# kind: what it is called, how many jobs (enough for some ten seconds), and what share of the plain workers is wanted
KINDS = {
    "noop": ("no-op jobs", 200_000, 0.7),
    "cpu": ("1 ms of CPU", 12_000, 0.85),
    "sleep": ("10 ms sleeps", 3_000, 0.95),
}


def answers(folder: Path) -> Iterator[Answer]:
    spark = session(f"local[{SLOTS},4]")
    try:
        yield from _on("SQLite", f"sqlite:///{folder}/slots.db")
        with PostgresServer() as server:
            yield from _on("PostgreSQL", server.create_database("slots"))
    finally:
        spark.stop()


def _on(name: str, url: str) -> Iterator[Answer]:
    with holdfast.connect(url) as store:
        drained_by_slots(url, "noop")  # Python workers are started once, and used again
        for kind, (called, jobs, wanted) in KINDS.items():

            def ours(kind: str = kind, jobs: int = jobs) -> float:
                fill(store, jobs)
                return drained_by_slots(url, kind)

            def other(kind: str = kind, jobs: int = jobs) -> float:
                fill(store, jobs)
                return seconds("contender_pair", "pair", url, kind)

            question = f"{name}: {SLOTS} slots / {SLOTS} plain workers, {called}"
            yield throughput(question, jobs=jobs, rounds=ROUNDS, ours=ours, other=other, wanted=wanted)


def drained_by_slots(url: str, kind: str) -> float:
    """Seconds from the call of ``run_queue`` to its frame of outcomes."""
    app = Holdfast(url)
    app.handler(TYPE, queue=QUEUE)(handler(kind))
    started = time.perf_counter()
    run_queue(app, spark=session(), slots=SLOTS).unpersist()
    took = time.perf_counter() - started
    app.close()
    return took
