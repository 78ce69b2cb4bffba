"""Many runs in one Spark session: each result is its own, and what is held does not grow."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.spark import run, session
from tests.processes import resident_bytes

ROWS = 1000
WARM_UP_RUNS = 10  # after these, the processes have grown to their usual size
MAX_GROWTH = 1.25  # of the memory of this process
MAX_HELD_RESULTS = 4  # Spark itself refers to the plans of the last queries


def run_spark_runs(folder: Path, *, count: int) -> str:
    """Half of the results are freed by ``unpersist``, the others when they are garbage-collected."""
    spark = session("local[2,8]", spark_driver_memory="512m")
    try:
        url, sizes, most_held = f"sqlite:///{folder}/jobs.db", [], 0
        for number in range(count + WARM_UP_RUNS):
            df = spark.range(number, number + ROWS).toDF("n")
            result = run(df, lambda row: row["n"] * 2, key="n", url=url, slots=2, progress=False)
            assert result.ok.where("holdfast.result <> n * 2").count() == 0
            assert result.summary.done == result.ok.count() == ROWS
            if number % 2:
                result.unpersist()
            most_held = max(most_held, _held_results(spark))
            sizes.append(resident_bytes(os.getpid()))
        early, late = sum(sizes[WARM_UP_RUNS:][:5]), sum(sizes[-5:])
        assert most_held <= MAX_HELD_RESULTS, most_held
        assert late <= MAX_GROWTH * early, sizes
        return (
            f"{count} runs of {ROWS:,} rows in one session: at most {most_held} results held at a time, "
            f"memory {late / early:.2f} of the start"
        )
    finally:
        spark.stop()


def _held_results(spark: SparkSession) -> int:
    gc.collect()
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    return len(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[union-attr]
