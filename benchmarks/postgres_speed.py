"""What leases, fences, ledger and checks cost on PostgreSQL, beside a bare loop that writes the same rows durably."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.jobs import alike, fill, make
from benchmarks.measure import Answer, throughput
from benchmarks.raw_postgres import RawPostgres
from benchmarks.sqlite_speed import drain
from holdfast.client import MAX_BATCH_JOBS as BATCH
from holdfast.testing.servers.postgres import PostgresServer

JOBS = 20_000
ROUNDS = 5


def answers(_: Path) -> Iterator[Answer]:
    with PostgresServer() as server:
        for k in (100, 1000):
            yield _drain(server.create_database(f"drain{k}"), k)
        yield _enqueue(server.create_database("enqueue"))


def _drain(url: str, k: int) -> Answer:
    store, raw = holdfast.connect(url), RawPostgres(url)

    def ours() -> float:
        fill(store, JOBS)
        started = time.perf_counter()
        assert drain(store, k) == JOBS
        return time.perf_counter() - started

    def other() -> float:
        fill(store, JOBS)
        started = time.perf_counter()
        assert raw.drain(k) == JOBS
        return time.perf_counter() - started

    try:
        return throughput(
            f"PostgreSQL: driver loop / raw loop, k = {k}", jobs=JOBS, rounds=ROUNDS, ours=ours, other=other, wanted=0.7
        )
    finally:
        store.close()
        raw.connection.close()


def _enqueue(url: str) -> Answer:
    store, raw = holdfast.connect(url), RawPostgres(url)

    def ours() -> float:
        jobs = [alike(BATCH) for _ in range(0, JOBS, BATCH)]  # as Client.enqueue_many hands them over
        started = time.perf_counter()
        for batch in jobs:
            store.enqueue(batch)
        return time.perf_counter() - started

    def other() -> float:
        jobs = [make(BATCH) for _ in range(0, JOBS, BATCH)]
        started = time.perf_counter()
        for batch in jobs:
            raw.enqueue(batch)
        return time.perf_counter() - started

    try:
        return throughput(
            f"PostgreSQL: bulk enqueue / bare COPY, {BATCH:,} a batch",
            jobs=JOBS,
            rounds=ROUNDS,
            ours=ours,
            other=other,
            wanted=0.5,
        )
    finally:
        store.close()
        raw.connection.close()
