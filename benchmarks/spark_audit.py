"""Does the time of an audit grow no faster than the history: ten times the rows in at most ten times the time?

Both histories are in Parquet, as `holdfast history sync` writes them, and the same session audits them in turn.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.comparison import Comparison
from benchmarks.generated_history import generate_history
from holdfast.spark import session
from holdfast.spark.history.audit import Scope, audit

SMALL_ROWS = 1_000_000  # of the ledger
GROWTH = 10
ROUNDS = 2


def measure(folder: Path) -> Iterator[Comparison]:
    spark = session("local[2,4]")
    try:
        yield _compare_growth(spark, folder)
    finally:
        spark.stop()


def _compare_growth(spark: SparkSession, folder: Path) -> Comparison:
    histories = {rows: write_history(spark, folder / str(rows), rows) for rows in (SMALL_ROWS, SMALL_ROWS * GROWTH)}
    time_audit(histories[SMALL_ROWS])  # warms up the JVM
    seconds: dict[int, list[float]] = {rows: [] for rows in histories}
    for _ in range(ROUNDS):
        for rows, history in histories.items():
            seconds[rows].append(time_audit(history))
    small, large = (min(each) for each in seconds.values())
    return Comparison(
        question=f"Audit: time per row with {GROWTH * SMALL_ROWS:,} ledger rows / with {SMALL_ROWS:,}",
        ratio=large / small / GROWTH,
        target=1.0,
        at_least=False,
        ours=f"{large:.1f} s",
        other=f"{small:.1f} s",
    )


History = tuple[DataFrame, DataFrame, DataFrame, Scope]


def write_history(spark: SparkSession, folder: Path, rows: int) -> History:
    """Write a generated history to Parquet and return the frames that read it."""
    *frames, scope = generate_history(spark, rows)
    for name, frame in zip(("leases", "jobs", "waiting"), frames, strict=True):
        frame.write.parquet(str(folder / name))
    leases, jobs, waiting = (spark.read.parquet(str(folder / name)) for name in ("leases", "jobs", "waiting"))
    return leases, jobs, waiting, scope


def time_audit(history: History) -> float:
    """Audit a history, which must hold; return the seconds."""
    *frames, scope = history
    started = time.perf_counter()
    certificate = audit(*frames, scope=scope)
    seconds = time.perf_counter() - started
    assert certificate.holds, certificate.violations
    return seconds
