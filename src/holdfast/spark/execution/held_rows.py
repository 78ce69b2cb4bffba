"""Rows that executors hold: computed once, never computed again, freed when no frame reads them any more.

Runs on the Spark driver. ``run`` and ``run_queue`` return frames over held rows.
"""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame

from holdfast.spark.compat import local_checkpoint
from holdfast.spark.store_access import on_one_machine


def hold(frame: DataFrame) -> DataFrame:
    """Compute a frame now and return a frame over its rows, which executors hold in memory and on disk.

    The rows are a local checkpoint: reading them never computes ``frame`` again, which may mean to run jobs. Spark
    frees them after the returned frame and every frame derived from it are garbage-collected, on the Spark driver and
    in its JVM. On a cluster two executors hold every row, so that the rows survive the loss of one executor. After the
    loss of both, reading the rows raises an error.

    The rows are cached first, which costs a second copy of them for a moment: a local checkpoint has the size that
    Spark estimates for ``frame``, but Spark knows the size of a cached frame. For the frame of slots the estimate is a
    few bytes, and Spark would broadcast millions of rows to every executor for a join.
    """
    cached = frame.persist()
    try:
        cached.count()
        return local_checkpoint(cached, _level(frame), eager=True)
    finally:
        cached.unpersist()


def hold_at_first_read(frame: DataFrame) -> DataFrame:
    """Return a frame over the rows of a frame, as ``hold``; the first Spark job that reads all rows computes them.

    The caller starts that Spark job before anybody else can read the rows, and needs no other Spark job to compute
    them. The size of the rows is the estimate of Spark for ``frame``.
    """
    return local_checkpoint(frame, _level(frame), eager=False)


def _level(frame: DataFrame) -> StorageLevel:
    return StorageLevel.MEMORY_AND_DISK if on_one_machine(frame.sparkSession) else StorageLevel.MEMORY_AND_DISK_2
