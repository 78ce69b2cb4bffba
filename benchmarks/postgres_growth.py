"""Whether reserve stays as quick on PostgreSQL when the store is full, or full of jobs that are not for us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

import holdfast
from benchmarks.jobs import QUEUE, TYPE, fill
from benchmarks.measure import Answer, latency
from holdfast.clock import DAY, MINUTE, SystemClock
from holdfast.drivers.contract import Store
from holdfast.model.settlement import Release
from holdfast.testing.servers.postgres import PostgresServer

FEW = 1_000
ROUNDS = 400
BATCH = 10

HOT = """
INSERT INTO holdfast.jobs (space, id, queue, type, priority, available_at, enqueued_at, created_at, max_attempts,
                           payload)
SELECT 'main', 'crowd-' || n, {queue}, '{type}', {priority}, {available_at}, 0, 0, 25, repeat('x', 100)::bytea
  FROM generate_series(1, {count}) AS n
"""
ENDED = """
INSERT INTO holdfast.ended (seq, space, id, queue, type, priority, state, available_at, enqueued_at, ended_at,
                            created_at, attempts, max_attempts, crashes, cancel_requested, noted, last_error, payload)
SELECT n, 'main', 'ended-' || n, '{queue}', '{type}', 0, 'done', 0, 0, n, 0, 1, 25, 0, false, false, '',
       repeat('x', 100)::bytea
  FROM generate_series(1, {count}) AS n
"""


def answers(_: Path, *, scale: int = 1_000_000) -> Iterator[Answer]:
    half = scale // 2
    now = SystemClock().now()
    lane = {"queue": f"'{QUEUE}'", "type": TYPE, "priority": 0, "available_at": f"{now - DAY} + n"}
    tenth = scale // 10
    crowds = {
        f"{tenth:,} ready": HOT.format(**{**lane, "count": tenth}),
        f"{scale:,} ready": HOT.format(**{**lane, "count": scale}),
        f"{half:,} scheduled of a higher priority in front": HOT.format(
            **{**lane, "priority": 9, "available_at": now + DAY, "count": half}
        ),
        f"{half:,} of a type nobody asks for": HOT.format(**{**lane, "type": "bench.unknown", "count": half}),
        "100 queues beside it": HOT.format(**{**lane, "queue": "'other-' || n % 100", "count": tenth}),
        "10,000 queues beside it": HOT.format(**{**lane, "queue": "'other-' || n % 10000", "count": tenth}),
        f"{scale:,} ended": ENDED.format(queue=QUEUE, type=TYPE, count=scale),
    }
    with PostgresServer() as server:
        few = _stocked(server.create_database("few"), None)
        for number, (crowd, script) in enumerate(crowds.items()):
            store = _stocked(server.create_database(f"crowd{number}"), script)
            ours, other = _timed(store, few)
            store.close()
            question = f"PostgreSQL: reserve with {crowd} / with {FEW:,} ready"
            yield latency(question, ours=ours, other=other, wanted=2.0, names=(crowd, f"{FEW:,} ready"))
        few.close()


def _stocked(url: str, script: str | None) -> Store:
    store = holdfast.connect(f"{url}?listen=off")
    if script is not None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(script.encode())
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
    fill(store, FEW)
    return store


def _timed(crowded: Store, few: Store) -> tuple[list[float], list[float]]:
    """Both in turn: reserve a batch on one, give it back, then the same on the other."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for store, taken in zip((crowded, few), times, strict=True):
            started = time.perf_counter()
            reservations = store.reserve([QUEUE], limit=BATCH, lease_for=MINUTE, types={TYPE})
            taken.append(time.perf_counter() - started)
            assert len(reservations) == BATCH
            store.settle([Release(reservation.lease) for reservation in reservations])
    return times
