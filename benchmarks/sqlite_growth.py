"""Does reserve stay fast on SQLite when the store holds many jobs, or many jobs of other types?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import holdfast
from benchmarks.comparison import Comparison
from benchmarks.jobs import fill
from benchmarks.reserve_latency import FEW_JOBS, compare_reserve
from holdfast.driver import DAY, Store, SystemClock


def measure(folder: Path, *, scale: int = 1_000_000) -> Iterator[Comparison]:
    half = scale // 2
    tomorrow = SystemClock().now() + DAY

    def filled(name: str, ready: int, **others: object) -> Store:
        store = holdfast.connect(f"sqlite:///{folder / name}.db")
        if others:
            fill(store, half, **others)
        fill(store, ready)
        return store

    few = filled("few", FEW_JOBS)
    situations = {
        f"{scale:,} ready": filled("many", scale),
        f"{half:,} scheduled with a higher priority": filled("scheduled", FEW_JOBS, priority=9, run_at=tomorrow),
        f"{half:,} of a type without a worker": filled("unknown", FEW_JOBS, type="bench.unknown"),
    }
    for situation, store in situations.items():
        yield compare_reserve("SQLite", situation, full=store, few=few)
