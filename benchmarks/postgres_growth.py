"""Does reserve stay fast on PostgreSQL when the store holds many jobs, many other jobs or many ended jobs?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg

import holdfast
from benchmarks.comparison import Comparison
from benchmarks.jobs import QUEUE, TYPE, fill
from benchmarks.reserve_latency import FEW_JOBS, compare_reserve
from holdfast.driver import DAY, Store, SystemClock
from holdfast.testing.servers.postgres import PostgresServer

INSERT_READY = """
INSERT INTO holdfast.jobs (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts,
                           payload)
SELECT 'main', 'other-' || n, {queue}, '{type}', {priority}, {available_at}, 0, 0, 25, repeat('x', 100)::bytea
  FROM generate_series(1, {count}) AS n
"""
INSERT_ENDED = """
INSERT INTO holdfast.ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at,
                            created_at, attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload)
SELECT n, 'main', 'ended-' || n, '{queue}', '{type}', 0, 'done', 0, 0, n, 0, 1, 25, 0, false, false, '',
       repeat('x', 100)::bytea
  FROM generate_series(1, {count}) AS n
"""


def measure(_: Path, *, scale: int = 1_000_000) -> Iterator[Comparison]:
    half = scale // 2
    now = SystemClock().now()
    lane = {"queue": f"'{QUEUE}'", "type": TYPE, "priority": 0, "available_at": f"{now - DAY} + n"}
    tenth = scale // 10

    def insert_ready(count: int, **differences: object) -> str:
        return INSERT_READY.format(**{**lane, **differences, "count": count})

    situations = {
        f"{tenth:,} ready": insert_ready(tenth),
        f"{scale:,} ready": insert_ready(scale),
        f"{half:,} scheduled with a higher priority": insert_ready(half, priority=9, available_at=now + DAY),
        f"{half:,} of a type without a worker": insert_ready(half, type="bench.unknown"),
        "100 other queues": insert_ready(tenth, queue="'other-' || n % 100"),
        "10,000 other queues": insert_ready(tenth, queue="'other-' || n % 10000"),
        f"{scale:,} ended": INSERT_ENDED.format(queue=QUEUE, type=TYPE, count=scale),
    }
    with PostgresServer() as server, _filled(server.create_database("few"), None) as few:
        for number, (situation, script) in enumerate(situations.items()):
            with _filled(server.create_database(f"full{number}"), script) as full:
                yield compare_reserve("PostgreSQL", situation, full=full, few=few)


def _filled(url: str, script: str | None) -> Store:
    store = holdfast.connect(f"{url}?listen=off")
    if script is not None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script.encode())
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
    fill(store, FEW_JOBS)
    return store
