"""How near the sink, the source and ``run`` come to doing the same by hand, on PostgreSQL with durable settings.

By hand means: the same frame in the same partitions of the same session, each Spark task with a connection of its own
and the quickest plain way of the store, in and out: COPY, and rows in binary form. It makes no promise: no lease, no
ledger, no retry, and Spark's second try of a Spark task would write everything twice.

A sink is compared with a COPY of the same rows, which are those that it stores: jobs with their keys, in tables with
their indexes; and so is ``run`` with one write of what it leaves behind. Beside that stands a COPY into a bare table,
for those who ask what a job costs more.
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
from benchmarks.measure import Answer, throughput
from benchmarks.raw_spark import copied_as_ended, copied_as_jobs, copied_as_rows, scanned
from holdfast.spark import run, session
from holdfast.spark.datasource import ledger_table
from holdfast.testing.servers.postgres import PostgresServer

PARTITIONS = 2
ROWS = 100_000
LEDGER_ROWS = 2_000_000  # enough that what Spark needs to plan a source of Python counts for little
ROUNDS = 3
RUN_ROUNDS = 5  # the first of them also starts what the others find
AS_LONG = 4  # times that the other side does what ``run`` does once, which takes about as long
NOTE = "a payload of a usual size, some hundred bytes long"

TABLE = "CREATE TABLE raw_rows (customer bigint, action text, note text, result text)"
LEDGER = """
INSERT INTO holdfast.ledger (space, job_id, type, queue, attempt, fence, worker, enqueued_at, available_at, reserved_at,
                             started_at, ended_at, ending, state, detail, error)
SELECT 'main', '019a8b00-0000-7000-8000-' || lpad(n::text, 12, '0'), 'bench.noop', 'bench', 1, n, 'worker', n, n, n, n,
       n, 'acked', 'done', '', ''
  FROM generate_series(%s::bigint, %s::bigint) AS n
"""


def answers(_: Path) -> Iterator[Answer]:
    spark = session(f"local[{PARTITIONS},4]")
    try:
        with PostgresServer() as server:
            frame = _frame(spark)
            url = server.create_database("sink")
            yield from _sink(frame, url)
            yield _source(spark, server.create_database("ledger"))
            yield from _run(frame, server.create_database("run"))
    finally:
        spark.stop()


def _frame(spark: SparkSession) -> DataFrame:
    made = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id AS customer", "'refresh' AS action", f"'{NOTE}' AS note")
    made = made.cache()
    made.count()
    return made


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


# In ---------------------------------------------------------------------------------------------------------


def _sink(frame: DataFrame, url: str) -> Iterator[Answer]:
    holdfast.connect(url).close()
    _execute(url, TABLE)
    write = frame.write.format("holdfast").options(url=url, queue="bench", type="bench.noop").mode("append")
    sides: dict[str, tuple[Callable[..., Iterator[pa.RecordBatch]], float]] = {
        "the same jobs into the same tables": (copied_as_jobs, 0.4),
        "the frame into a table without an index": (copied_as_rows, 0.1),
    }
    for what, (side, wanted) in sides.items():
        other = frame.mapInArrow(partial(side, url=url), "rows bigint")
        yield throughput(
            f"PostgreSQL: sink / raw COPY of {what}",
            jobs=ROWS,
            rounds=ROUNDS,
            ours=lambda: timed(write.save),
            other=lambda other=other: timed(other.collect),  # type: ignore[misc]
            wanted=wanted,
        )


# Out --------------------------------------------------------------------------------------------------------


def _source(spark: SparkSession, url: str) -> Answer:
    """Both read every row and column in the same number of Spark tasks, and Spark throws them away."""
    holdfast.connect(url).close()
    each = 1000  # rows of a transaction
    with psycopg.connect(url, autocommit=True) as connection:
        for start in range(0, LEDGER_ROWS, each):
            connection.execute(LEDGER, [start, start + each - 1])
        connection.execute("VACUUM ANALYZE holdfast.ledger")
        row = connection.execute("SELECT relpages FROM pg_class WHERE oid = 'holdfast.ledger'::regclass").fetchone()
    assert row is not None
    options = {"url": url, "partitions": str(PARTITIONS)}
    plain = spark.range(0, PARTITIONS, 1, PARTITIONS).mapInArrow(
        partial(scanned, url=url, pages=row[0]), ledger_table.DDL
    )

    def ours() -> float:
        return timed(lambda: _read_through(spark.read.format("holdfast").options(**options).load("ledger")))

    return throughput(
        "PostgreSQL: ledger source / Arrow scan of the same table",
        jobs=LEDGER_ROWS,
        rounds=ROUNDS,
        ours=ours,
        other=lambda: timed(lambda: _read_through(plain)),
        wanted=0.5,
    )


def _read_through(frame: DataFrame) -> None:
    """Every column of every row, thrown away."""
    frame.write.format("noop").mode("overwrite").save()


# Through ----------------------------------------------------------------------------------------------------


def _run(frame: DataFrame, url: str) -> Iterator[Answer]:
    """A handler that returns at once, under leases, with ledger and outcomes; or the same function by mapInArrow.

    The other side is much shorter, and counts as the mean of several: on a machine whose speed changes from one second
    to the next, it would else have the quickest second for itself.
    """
    holdfast.connect(url).close()
    _execute(url, TABLE)
    sides: dict[str, tuple[Callable[..., Iterator[pa.RecordBatch]], float]] = {
        "one raw write of the same keys, ended jobs and ledger rows": (copied_as_ended, 0.25),
        "one raw write of the results into a table without an index": (copied_as_rows, 0.02),
    }

    def ours() -> float:
        def work() -> None:
            ok, _ = run(frame, lambda row: row["action"], key="customer", url=url, slots=PARTITIONS)
            assert ok.count() == ROWS  # so none is among the dead

        return timed(work)

    for what, (side, wanted) in sides.items():
        other = frame.mapInArrow(partial(side, url=url, handle=_handle), "rows bigint")
        yield throughput(
            f"PostgreSQL: run() of {ROWS:,} rows / mapInArrow and {what}",
            jobs=ROWS,
            rounds=RUN_ROUNDS,
            ours=ours,
            other=lambda other=other: fmean(timed(other.collect) for _ in range(AS_LONG)),  # type: ignore[misc]
            wanted=wanted,
        )


def _handle(row: dict[str, object]) -> object:
    return row["action"]


def _execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
