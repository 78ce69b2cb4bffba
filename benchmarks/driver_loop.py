"""The driver without a worker: reserve a batch, ack it, repeat; compared with a raw loop on the same store."""

from __future__ import annotations

import time
from collections.abc import Callable

from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.jobs import QUEUE, fill
from holdfast.driver import MINUTE, Ack, Store

JOBS = 20_000


def drain(store: Store, batch_size: int) -> int:
    """Reserve and ack batches until the queue is empty; return the number of jobs."""
    drained = 0
    while reservations := store.reserve([QUEUE], limit=batch_size, lease_for=MINUTE, worker="bench"):
        refused = store.settle([Ack(reservation.lease) for reservation in reservations])
        assert not any(refused)
        drained += len(reservations)
    return drained


def compare_drain(
    question: str, store: Store, raw_drain: Callable[[int], int], *, batch_size: int, rounds: int
) -> Comparison:
    """The driver loop against a raw loop on the same store."""

    def ours() -> float:
        fill(store, JOBS)
        started = time.perf_counter()
        assert drain(store, batch_size) == JOBS
        return time.perf_counter() - started

    def other() -> float:
        fill(store, JOBS)
        started = time.perf_counter()
        assert raw_drain(batch_size) == JOBS
        return time.perf_counter() - started

    return compare_throughput(question, jobs=JOBS, rounds=rounds, ours=ours, other=other, target=0.7)
