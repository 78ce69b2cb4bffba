"""How much do leases, fences, the ledger and the checks cost on PostgreSQL?

The driver is compared with a raw loop that writes the same rows with the same durability.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import holdfast
from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.driver_loop import JOBS, compare_drain
from benchmarks.jobs import make_batch, make_records
from benchmarks.raw_postgres import RawPostgres
from holdfast.client import MAX_BATCH_JOBS as BATCH
from holdfast.testing.servers.postgres import PostgresServer

ROUNDS = 5


def measure(_: Path) -> Iterator[Comparison]:
    with PostgresServer() as server:
        for batch_size in (100, 1000):
            yield _compare_drain(server.create_database(f"drain{batch_size}"), batch_size)
        yield _compare_enqueue(server.create_database("enqueue"))


def _compare_drain(url: str, batch_size: int) -> Comparison:
    with holdfast.connect(url) as store, closing(RawPostgres(url)) as raw:
        question = f"PostgreSQL: driver loop / raw loop, batches of {batch_size}"
        return compare_drain(question, store, raw.drain, batch_size=batch_size, rounds=ROUNDS)


def _compare_enqueue(url: str) -> Comparison:
    with holdfast.connect(url) as store, closing(RawPostgres(url)) as raw:

        def ours() -> float:
            batches = [make_batch(BATCH) for _ in range(0, JOBS, BATCH)]
            started = time.perf_counter()
            for batch in batches:
                store.enqueue(batch)
            return time.perf_counter() - started

        def other() -> float:
            batches = [make_records(BATCH) for _ in range(0, JOBS, BATCH)]
            started = time.perf_counter()
            for batch in batches:
                raw.enqueue(batch)
            return time.perf_counter() - started

        return compare_throughput(
            f"PostgreSQL: bulk enqueue / raw COPY, batches of {BATCH:,}",
            jobs=JOBS,
            rounds=ROUNDS,
            ours=ours,
            other=other,
            target=0.5,
        )
