"""How fast are the sink, the source and ``run`` compared with raw Spark code, on PostgreSQL with durable settings?

The raw side uses the same DataFrame in the same partitions of the same session. Each Spark task opens one connection
and uses the fastest plain way in and out of the database: COPY, and rows in binary form. The raw side guarantees
nothing: no lease, no ledger, no retry, and a retried Spark task would write its rows twice.

The sink is compared with a COPY of the rows that it stores: jobs and their keys, in tables with their indexes. ``run``
is compared with one write of everything that it leaves in the store. Both are also compared with a COPY into a table
without indexes, which shows the extra cost of a job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import holdfast
from benchmarks.comparison import Comparison, compare_throughput
from benchmarks.raw_spark import copy_ended, copy_jobs, copy_rows, scan_ledger
from holdfast.spark import run, session
from holdfast.spark.datasource import ledger_table
from holdfast.testing.servers.postgres import PostgresServer

PARTITIONS = 2
ROWS = 100_000
LEDGER_ROWS = 2_000_000  # so many that Spark's planning of a Python source does not matter
LEDGER_BATCH = 1000  # rows in one transaction
ROUNDS = 3
RUN_ROUNDS = 5  # the first round also starts the Python workers of Spark
RAW_REPEATS = 4  # raw writes that take about as long as one ``run``
NOTE = "a payload of a usual size, some hundred bytes long"

CREATE_RAW_ROWS = "CREATE TABLE raw_rows (customer bigint, action text, note text, result text)"
INSERT_LEDGER = """
INSERT INTO holdfast.ledger (space, job_id, type, queue, attempt, fence, worker, enqueued_at, available_at, reserved_at,
                             started_at, ended_at, ending, state, detail, error)
SELECT 'main', '019a8b00-0000-7000-8000-' || lpad(n::text, 12, '0'), 'bench.noop', 'bench', 1, n, 'worker', n, n, n, n,
       n, 'acked', 'done', '', ''
  FROM generate_series(%s::bigint, %s::bigint) AS n
"""


def measure(_: Path) -> Iterator[Comparison]:
    spark = session(f"local[{PARTITIONS},4]")
    try:
        with PostgresServer() as server:
            frame = _cached_frame(spark)
            yield from _compare_sink(frame, server.create_database("sink"))
            yield _compare_source(spark, server.create_database("ledger"))
            yield from _compare_run(frame, server.create_database("run"))
    finally:
        spark.stop()


def _cached_frame(spark: SparkSession) -> DataFrame:
    frame = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id AS customer", "'refresh' AS action", f"'{NOTE}' AS note")
    frame = frame.cache()
    frame.count()
    return frame


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _compare_sink(frame: DataFrame, url: str) -> Iterator[Comparison]:
    holdfast.connect(url).close()
    _execute(url, CREATE_RAW_ROWS)
    write = frame.write.format("holdfast").options(url=url, queue="bench", type="bench.noop").mode("append")
    raw_writes: dict[str, tuple[Callable[..., Iterator[pa.RecordBatch]], float]] = {
        "the same jobs into the same tables": (copy_jobs, 0.4),
        "the frame into a table without an index": (copy_rows, 0.1),
    }
    for description, (raw_write, target) in raw_writes.items():
        other = frame.mapInArrow(partial(raw_write, url=url), "rows bigint")
        yield compare_throughput(
            f"PostgreSQL: sink / raw COPY of {description}",
            jobs=ROWS,
            rounds=ROUNDS,
            ours=lambda: _time(write.save),
            other=lambda other=other: _time(other.collect),  # type: ignore[misc]
            target=target,
        )


def _compare_source(spark: SparkSession, url: str) -> Comparison:
    """Both sides read every row and column in the same number of Spark tasks, and Spark discards them."""
    holdfast.connect(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        for start in range(0, LEDGER_ROWS, LEDGER_BATCH):
            connection.execute(INSERT_LEDGER, [start, start + LEDGER_BATCH - 1])
        connection.execute("VACUUM ANALYZE holdfast.ledger")
        row = connection.execute("SELECT relpages FROM pg_class WHERE oid = 'holdfast.ledger'::regclass").fetchone()
    assert row is not None
    options = {"url": url, "partitions": str(PARTITIONS)}
    raw_scan = spark.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(
        partial(scan_ledger, url=url, pages=row[0]), ledger_table.DDL
    )

    def ours() -> float:
        return _time(lambda: _read_all(spark.read.format("holdfast").options(**options).load("ledger")))

    return compare_throughput(
        "PostgreSQL: ledger source / Arrow scan of the same table",
        jobs=LEDGER_ROWS,
        rounds=ROUNDS,
        ours=ours,
        other=lambda: _time(lambda: _read_all(raw_scan)),
        target=0.5,
    )


def _read_all(frame: DataFrame) -> None:
    """Read every column of every row and discard it."""
    frame.write.format("noop").mode("overwrite").save()


def _compare_run(frame: DataFrame, url: str) -> Iterator[Comparison]:
    """An empty handler under leases, with ledger and outcomes, against the same function in mapInArrow.

    The raw side is much shorter, so it counts as the mean of several runs. On a machine whose speed changes from second
    to second, its best run would otherwise have the fastest second, and ``run`` an average of many.
    """
    holdfast.connect(url).close()
    _execute(url, CREATE_RAW_ROWS)
    raw_writes: dict[str, tuple[Callable[..., Iterator[pa.RecordBatch]], float]] = {
        "one raw write of the same keys, ended jobs and ledger rows": (copy_ended, 0.25),
        "one raw write of the results into a table without an index": (copy_rows, 0.02),
    }

    def ours() -> float:
        def work() -> None:
            ok, _ = run(frame, lambda row: row["action"], key="customer", url=url, slots=PARTITIONS)
            assert ok.count() == ROWS

        return _time(work)

    for description, (raw_write, target) in raw_writes.items():
        other = frame.mapInArrow(partial(raw_write, url=url, handle=_handle), "rows bigint")
        yield compare_throughput(
            f"PostgreSQL: run() of {ROWS:,} rows / mapInArrow and {description}",
            jobs=ROWS,
            rounds=RUN_ROUNDS,
            ours=ours,
            other=lambda other=other: fmean(_time(other.collect) for _ in range(RAW_REPEATS)),  # type: ignore[misc]
            target=target,
        )


def _handle(row: dict[str, object]) -> object:
    return row["action"]


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
