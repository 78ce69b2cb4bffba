"""Rows that executors hold: computed once, never computed again, freed when no frame reads them any more.

Runs on the Spark driver. ``run`` and ``run_queue`` return frames over held rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame


def hold(frame: DataFrame) -> DataFrame:
    """Compute a frame now and return a frame over its rows, which executors hold in memory and on disk.

    The rows are a local checkpoint: reading them never computes ``frame`` again, which may mean to run jobs. Spark
    frees them after the returned frame and every frame derived from it are garbage-collected, on the Spark driver and
    in its JVM. An executor that is lost takes its rows with it, and reading them then raises an error.

    The rows are cached first, because Spark knows the size of a cached frame, and the checkpoint inherits that size.
    Without it Spark estimates a few bytes, and would broadcast millions of rows to every executor for a join.
    """
    cached = frame.persist()
    try:
        cached.count()
        return cached.localCheckpoint(eager=True)
    finally:
        cached.unpersist()
