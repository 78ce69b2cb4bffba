"""Many runs, syncs and audits in one Spark session: what is held does not grow, and none takes longer."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.cpu_time import own_seconds
from holdfast.connect import connect
from holdfast.spark import History, run, session, sync
from tests.processes import resident_bytes

ROWS = 1000
WARM_UP_ROUNDS = 10  # after these, the processes have grown to their usual size
AVERAGED_ROUNDS = 5
MAX_GROWTH = 1.25  # of the memory of this process, and of the processor time of the JVM for a round
MAX_HELD_RESULTS = 12  # Spark itself refers to the results of about the last minute, of every second round
MAX_CODE_SHARE = 0.75  # of the code cache: a JVM with a full one interprets


def run_spark_runs(folder: Path, *, count: int) -> str:
    """Measure the rounds after a warm-up. The time is the processor time of the JVM: other load hardly changes it."""
    spark = session("local[2,8]", spark_driver_memory="512m")
    try:
        sizes, seconds, most_code = [], [], 0.0
        jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        for number in range(count + WARM_UP_ROUNDS):
            began = own_seconds(jvm)
            run_sync_audit(spark, folder / str(number), number)
            seconds.append(own_seconds(jvm) - began)
            used, reserved = code_cache_bytes(spark)
            most_code = max(most_code, used / reserved)
            sizes.append(resident_bytes(os.getpid()))
        memory, slowdown, held = _growth(sizes), _growth(seconds), _held_results(spark)
        assert held <= MAX_HELD_RESULTS, held
        assert most_code <= MAX_CODE_SHARE, most_code
        assert memory <= MAX_GROWTH, sizes
        assert slowdown <= MAX_GROWTH, seconds
        return (
            f"{count} runs of {ROWS:,} rows, syncs and audits in one session: {held} results held at the end, memory "
            f"{memory:.2f} and time {slowdown:.2f} of the start, at most {most_code:.0%} of the code cache used"
        )
    finally:
        spark.stop()


def run_sync_audit(spark: SparkSession, folder: Path, number: int) -> None:
    """One round, on a store of its own. Half of the results are freed by ``unpersist``, the others by collection."""
    url, history = f"sqlite:///{folder}/jobs.db", str(folder / "history")
    folder.mkdir()
    df = spark.range(number, number + ROWS).toDF("n")
    result = run(df, lambda row: row["n"] * 2, key="n", url=url, slots=2, progress=False)
    assert result.ok.where("holdfast.result <> n * 2").count() == 0
    assert result.summary.done == result.ok.count() == ROWS
    if number % 2:
        result.unpersist()
    with connect(url) as store:
        sync(store, history, spark=spark)
    certificate = History(spark, history).audit()
    assert (certificate.holds, certificate.jobs) == (True, ROWS), certificate  # a slow machine may need more leases


def code_cache_bytes(spark: SparkSession) -> tuple[int, int]:
    """Return the bytes of compiled code in the JVM, and the space for them."""
    beans = spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()  # type: ignore[union-attr]
    usages = [bean.getUsage() for bean in beans if bean.getName().startswith("Code")]
    return sum(usage.getUsed() for usage in usages), sum(usage.getMax() for usage in usages)


def _growth(values: list[float]) -> float:
    """Return the mean of the last rounds as a multiple of that of the first ones after the warm-up."""
    return sum(values[-AVERAGED_ROUNDS:]) / sum(values[WARM_UP_ROUNDS:][:AVERAGED_ROUNDS])


def _held_results(spark: SparkSession) -> int:
    gc.collect()
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    return len(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[union-attr]
