"""Whether reserve stays as quick when the store is full, or full of jobs that are not for us."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.jobs import QUEUE, TYPE, fill
from benchmarks.measure import Answer, latency
from holdfast.clock import DAY, MINUTE, SystemClock
from holdfast.drivers.contract import Store
from holdfast.model.settlement import Release

FEW = 1_000
ROUNDS = 400
BATCH = 10


def answers(folder: Path, *, scale: int = 1_000_000) -> Iterator[Answer]:
    half = scale // 2
    later = SystemClock().now() + DAY

    def stocked(name: str, ready: int, **others: object) -> Store:
        store = holdfast.connect(f"sqlite:///{folder / name}.db")
        if others:
            fill(store, half, **others)
        fill(store, ready)
        return store

    few = stocked("few", FEW)
    crowds = {
        f"{scale:,} ready": stocked("many", scale),
        f"{half:,} scheduled of a higher priority in front": stocked("later", FEW, priority=9, run_at=later),
        f"{half:,} of a type nobody asks for": stocked("unknown", FEW, type="bench.unknown"),
    }
    for crowd, store in crowds.items():
        ours, other = _timed(store, few)
        question = f"SQLite: reserve with {crowd} / with {FEW:,} ready"
        yield latency(question, ours=ours, other=other, wanted=2.0, names=(crowd, f"{FEW:,} ready"))


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
