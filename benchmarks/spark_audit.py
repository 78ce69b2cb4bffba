"""Whether an audit grows with its history, and no faster: ten times the rows in at most ten times the time.

Both histories lie in Parquet, as `holdfast history sync` would leave them, and are judged in turn by the same session.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.made_history import made
from benchmarks.measure import Answer
from holdfast.spark import session
from holdfast.spark.history.audit import audit

SMALL = 1_000_000  # ledger rows
TIMES = 10
ROUNDS = 2


def answers(folder: Path) -> Iterator[Answer]:
    spark = session("local[2,4]")
    try:
        yield _growth(spark, folder)
    finally:
        spark.stop()


def _growth(spark: SparkSession, folder: Path) -> Answer:
    histories = {rows: kept(spark, folder / str(rows), rows) for rows in (SMALL, SMALL * TIMES)}
    judged(histories[SMALL])  # the Java of the session warms up
    took: dict[int, list[float]] = {rows: [] for rows in histories}
    for _ in range(ROUNDS):
        for rows, history in histories.items():
            took[rows].append(judged(history))
    small, large = (min(each) for each in took.values())
    return Answer(
        question=f"Audit: {TIMES * SMALL:,} ledger rows / {SMALL:,}, by row",
        ratio=large / small / TIMES,
        wanted=1.0,
        at_least=False,
        ours=f"{large:.1f} s",
        other=f"{small:.1f} s",
    )


History = tuple[DataFrame, DataFrame, DataFrame, int]


def kept(spark: SparkSession, folder: Path, rows: int) -> History:
    """A made history, written and read again."""
    *frames, snapshot = made(spark, rows)
    for name, frame in zip(("leases", "jobs", "waiting"), frames, strict=True):
        frame.write.parquet(str(folder / name))
    leases, jobs, waiting = (spark.read.parquet(str(folder / name)) for name in ("leases", "jobs", "waiting"))
    return leases, jobs, waiting, snapshot


def judged(history: History) -> float:
    """Seconds from the frames to the certificate, which must hold."""
    *frames, snapshot = history
    started = time.perf_counter()
    certificate = audit(*frames, snapshot=snapshot)
    took = time.perf_counter() - started
    assert certificate.holds, certificate.violations
    return took
