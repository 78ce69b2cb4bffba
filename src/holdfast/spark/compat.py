"""Calls that differ between classic Spark and Spark Connect, or between versions of Spark."""

from __future__ import annotations

import inspect
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.spark.store_access import is_connect

JOB_DESCRIPTION = "spark.job.description"  # a property of the calling thread
PROBE_ROWS = 100_000  # enough that no partition of the probe is empty


def tag(spark: SparkSession, name: str) -> None:
    """Give a tag to all Spark jobs that the calling thread starts from now on."""
    if is_connect(spark):
        spark.addTag(name)
    else:
        spark.sparkContext.addJobTag(name)


def describe(spark: SparkSession, text: str | None) -> str | None:
    """Describe all Spark jobs that the calling thread starts from now on, for Spark's pages. Return what it was before.

    A Connect client cannot describe Spark jobs.
    """
    if is_connect(spark):
        return None
    before: str | None = spark.sparkContext.getLocalProperty(JOB_DESCRIPTION)
    spark.sparkContext.setLocalProperty(JOB_DESCRIPTION, text)  # type: ignore[arg-type] # None removes it
    return before


def cancel(spark: SparkSession, name: str) -> None:
    """Cancel the Spark jobs with this tag, from any thread. Spark kills their Python workers within seconds."""
    if is_connect(spark):
        spark.interruptTag(name)
        return
    context: Any = spark.sparkContext  # SparkSession.interruptTag ignores Spark jobs that other threads started
    context.cancelJobsWithTag(name)


def cores(spark: SparkSession) -> int:
    """Return how many Spark tasks can run at a time, as far as Spark knows now."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A Connect client has no call for this number, but a range has as many partitions by default.
    return spark.range(PROBE_ROWS).select(f.spark_partition_id()).distinct().count()


def local_checkpoint(frame: DataFrame, level: StorageLevel, *, eager: bool) -> DataFrame:
    """Return a frame over the rows of a frame, which executors hold at a storage level.

    The rows are computed now if ``eager``, else by the first Spark job that reads the returned frame. Before Spark 4 a
    local checkpoint has no choice of level: one executor holds each row.
    """
    if "storageLevel" not in inspect.signature(frame.localCheckpoint).parameters:
        return frame.localCheckpoint(eager=eager)
    return frame.localCheckpoint(eager=eager, storageLevel=level)


def free_checkpoint(frame: DataFrame) -> None:
    """Free the rows of a local checkpoint on executors. The frame, and frames derived from it, cannot be read again.

    A Connect server frees the rows when it collects its garbage.
    """
    inner: Any = frame
    if not is_connect(frame.sparkSession):
        inner._jdf.logicalPlan().rdd().unpersist(False)  # noqa: FBT003, SLF001 - Spark has no public call
        return
    from pyspark.sql.connect.plan import RemoveRemoteCachedRelation  # noqa: PLC0415 - needs grpc

    client: Any = inner._session.client  # noqa: SLF001 - the same
    client.execute_command(RemoveRemoteCachedRelation(inner._plan).command(client))  # noqa: SLF001 - the same
