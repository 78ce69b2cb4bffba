"""Counting a store with millions of jobs: in bounded time, with a small queue beside a long one."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psycopg

import holdfast
from holdfast.driver import JobRecord, Store, SystemClock
from holdfast.drivers.requests import Counts
from holdfast.testing.servers.postgres import PostgresServer

SMALL = 40  # jobs of the small queue
MAX_SECONDS = 5.0  # of one estimate; it takes about a tenth of a second on a quiet machine
INSERT = """
INSERT INTO {table} (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts, payload)
SELECT 'main', 'job-' || n, 'long', CASE WHEN n % 10 < 7 THEN 'a' ELSE 'b' END, 0, {now} - n, 0, 0, 25, {payload}
  FROM {numbers}
"""


def run_large_counts(folder: Path, *, jobs: int) -> str:
    """Fill a store of each kind by one statement, and compare the estimates with the truth."""
    took = {"SQLite": _count_sqlite(folder / "jobs.db", jobs), "PostgreSQL": _count_postgres(jobs)}
    times = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in took.items())
    return f"{jobs:,} jobs counted within a tenth, a queue of {SMALL} beside them exactly: {times}"


def _count_sqlite(path: Path, jobs: int) -> float:
    with holdfast.connect(f"sqlite:///{path}") as store:
        numbers = f"(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < {jobs}) SELECT n FROM c)"
        statement = INSERT.format(table="holdfast_jobs", now=SystemClock().now(), payload="x'7b7d'", numbers=numbers)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(statement)
            lanes = [("main", "long", "a", 0), ("main", "long", "b", 0)]
            connection.executemany("INSERT INTO holdfast_lanes VALUES (?, ?, ?, ?)", lanes)
        return _check(store, jobs)


def _count_postgres(jobs: int) -> float:
    with PostgresServer(durable=False) as server, holdfast.connect(server.url) as store:
        numbers = f"generate_series(1, {jobs}) AS n"
        statement = INSERT.format(table="holdfast.jobs", now=SystemClock().now(), payload="'{}'", numbers=numbers)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(statement.encode())
        return _check(store, jobs)


def _check(store: Store, jobs: int) -> float:
    """Return the seconds of the slowest of three estimates."""
    now = SystemClock().now()
    small = [
        JobRecord(id=f"small-{n}", queue="small", type="t", payload=b"{}", created_at=now, priority=9)
        for n in range(SMALL)
    ]
    store.enqueue(small)
    slowest = 0.0
    for _ in range(3):
        began = time.monotonic()
        rows = {(row.queue, row.type): row for row in store.do(Counts(estimate=True))}  # type: ignore[attr-defined]
        slowest = max(slowest, time.monotonic() - began)
        assert (rows["small", "t"].ready, rows["small", "t"].is_estimate) == (SMALL, False), rows
        for type_, share in (("a", 0.7), ("b", 0.3)):
            assert abs(rows["long", type_].ready - share * jobs) < 0.1 * share * jobs, rows
            assert (rows["long", type_].oldest_ready_age or 0) >= jobs - 10, rows
    assert slowest < MAX_SECONDS, f"an estimate took {slowest:.1f} s"
    return slowest
