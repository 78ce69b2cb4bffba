"""What leases, fences, ledger and checks cost on SQLite, beside a bare loop that writes the same rows durably."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.jobs import QUEUE, fill, make
from benchmarks.measure import Answer, throughput
from benchmarks.raw_sqlite import RawSqlite
from holdfast.clock import MINUTE
from holdfast.drivers.contract import Store
from holdfast.model.settlement import Ack

JOBS = 20_000
ROUNDS = 9


def drain(store: Store, k: int) -> int:
    """Reserve k and ack k until nothing is left; gives how many there were."""
    drained = 0
    while reservations := store.reserve([QUEUE], limit=k, lease_for=MINUTE, worker="bench"):
        refused = store.settle([Ack(reservation.lease) for reservation in reservations])
        assert not any(refused)
        drained += len(reservations)
    return drained


def answers(folder: Path) -> Iterator[Answer]:
    for k in (100, 1000):
        yield _drain(folder / f"drain{k}.db", k)
    yield _enqueue(folder / "enqueue.db")


def _drain(path: Path, k: int) -> Answer:
    store, raw = holdfast.connect(f"sqlite:///{path}"), RawSqlite(path)

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

    return throughput(
        f"SQLite: driver loop / raw loop, k = {k}", jobs=JOBS, rounds=ROUNDS, ours=ours, other=other, wanted=0.7
    )


def _enqueue(path: Path) -> Answer:
    store, raw = holdfast.connect(f"sqlite:///{path}"), RawSqlite(path)

    def ours() -> float:
        jobs = make(JOBS)
        started = time.perf_counter()
        for start in range(0, JOBS, 1000):
            store.enqueue(jobs[start : start + 1000])
        return time.perf_counter() - started

    def other() -> float:
        jobs = make(JOBS)
        started = time.perf_counter()
        for start in range(0, JOBS, 1000):
            raw.enqueue(jobs[start : start + 1000])
        return time.perf_counter() - started

    return throughput(
        "SQLite: bulk enqueue / bare executemany, 1000 a batch",
        jobs=JOBS,
        rounds=ROUNDS,
        ours=ours,
        other=other,
        wanted=0.5,
    )
