"""What classic Spark and Spark Connect do in different ways: names for Spark jobs, cancelling them, counting cores."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from holdfast.spark.store_access import is_connect

MANY = 100_000  # rows, so that every partition has some


def tag(spark: SparkSession, name: str) -> None:
    """Give all Spark jobs that this thread starts from now on a name."""
    if is_connect(spark):
        spark.addTag(name)
    else:
        spark.sparkContext.addJobTag(name)


def cancel(spark: SparkSession, name: str) -> None:
    """End the Spark jobs of that name, whoever started them. Their Python workers are killed within seconds."""
    if is_connect(spark):
        spark.interruptTag(name)
        return
    context: Any = spark.sparkContext  # the session's own interruptTag does nothing for Spark jobs of other threads
    context.cancelJobsWithTag(name)


def cores(spark: SparkSession) -> int:
    """How many Spark tasks can run at a time, as far as Spark knows by now."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    # A client cannot ask; but that is how many partitions a range has.
    return spark.range(MANY).select(f.spark_partition_id()).distinct().count()
