"""How much do leases, fences, the ledger and the checks cost on SQLite?

The driver is compared with a raw loop that writes the same rows with the same durability.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.driver_loop import JOBS, compare_drain
from benchmarks.jobs import make_records
from benchmarks.raw_sqlite import RawSqlite

ROUNDS = 9
ENQUEUE_BATCH = 1000


def measure(folder: Path) -> Iterator[Comparison]:
    for batch_size in (100, 1000):
        path = folder / f"drain{batch_size}.db"
        yield compare_drain(
            f"SQLite: driver loop / raw loop, batches of {batch_size}",
            holdfast.connect(f"sqlite:///{path}"),
            RawSqlite(path).drain,
            batch_size=batch_size,
            rounds=ROUNDS,
        )
    yield _compare_enqueue(folder / "enqueue.db")


def _compare_enqueue(path: Path) -> Comparison:
    store, raw = holdfast.connect(f"sqlite:///{path}"), RawSqlite(path)

    def ours() -> float:
        jobs = make_records(JOBS)
        started = time.perf_counter()
        for start in range(0, JOBS, ENQUEUE_BATCH):
            store.enqueue(jobs[start : start + ENQUEUE_BATCH])
        return time.perf_counter() - started

    def other() -> float:
        jobs = make_records(JOBS)
        started = time.perf_counter()
        for start in range(0, JOBS, ENQUEUE_BATCH):
            raw.enqueue(jobs[start : start + ENQUEUE_BATCH])
        return time.perf_counter() - started

    return compare_throughput(
        f"SQLite: bulk enqueue / raw executemany, batches of {ENQUEUE_BATCH}",
        jobs=JOBS,
        rounds=ROUNDS,
        ours=ours,
        other=other,
        target=0.5,
    )
