"""The latency of reserve on a store with many jobs, against a store with few."""

from __future__ import annotations

import time

from benchmarks.comparison import Comparison, compare_latency
from benchmarks.jobs import QUEUE, TYPE
from holdfast.driver import MINUTE, Release, Store

FEW_JOBS = 1_000
ROUNDS = 400
BATCH = 10


def compare_reserve(name: str, situation: str, *, full: Store, few: Store) -> Comparison:
    """The 99th percentile of reserve on the full store against the store with few jobs."""
    ours, other = _time_both(full, few)
    question = f"{name}: reserve with {situation} / with {FEW_JOBS:,} ready"
    return compare_latency(question, ours=ours, other=other, target=2.0, names=(situation, f"{FEW_JOBS:,} ready"))


def _time_both(full: Store, few: Store) -> tuple[list[float], list[float]]:
    """Seconds of reserve on both stores in turn; each batch is released again."""
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for store, seconds in zip((full, few), samples, strict=True):
            started = time.perf_counter()
            reservations = store.reserve([QUEUE], limit=BATCH, lease_for=MINUTE, types={TYPE})
            seconds.append(time.perf_counter() - started)
            assert len(reservations) == BATCH
            store.settle([Release(reservation.lease) for reservation in reservations])
    return samples
