"""A DataFrame through a handler: every row is a job with leases, retries, backoff and a dead letter of its own.

    ok, dead = holdfast.spark.execution.dataframe(df, fetch, key="url", run="fetch-2026-11", url="postgresql://...")

Rows become jobs once, by their key and the name of the run: a rerun after the whole application was killed finds what
has ended, and works on what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.app import Holdfast, Task
from holdfast.clock import SystemClock
from holdfast.drivers.contract import JobFilter
from holdfast.errors import InvalidInput, TooManyDead
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.retry import RetryPolicy
from holdfast.settings import read as settings
from holdfast.spark.compat import cores
from holdfast.spark.execution.engine import work_on
from holdfast.spark.execution.progress import OnProgress, Progress
from holdfast.spark.execution.row_source import TOLD, run_rows
from holdfast.spark.execution.slot import Order, store_of
from holdfast.spark.history.store_reader import pages
from holdfast.spark.store_access import check_reach
from holdfast.worker.options import WorkerOptions

TYPE = "spark.row"
KEY, PAYLOAD = "_holdfast_key", "_holdfast_payload"
KEY_LENGTH = 32  # hexadecimal digits: every store keeps the key of a row four times
ENOUGH = 100  # rows that must have ended before a share of dead ones says anything
OUTCOME = "key string, state string, result string, reason string, error string, attempts int"
FIELDS = ("idempotency_key", "state", "result", "dead_reason", "last_error", "attempts")  # what it is made of
ENDED = (State.DONE, State.DEAD, State.CANCELLED)


def run(
    df: DataFrame,
    handler: Callable[..., Any],
    *,
    key: str | Sequence[str],
    url: str | None = None,
    run: str | None = None,
    max_attempts: int = 3,
    timeout: timedelta | None = None,
    retry: RetryPolicy | None = None,
    chunk: int | None = None,
    max_dead_ratio: float | None = None,
    slots: int | None = None,
    options: WorkerOptions | None = None,
    on_progress: OnProgress | None = None,
    progress: bool | None = None,
) -> tuple[DataFrame, DataFrame]:
    """``(ok, dead)``: the rows of ``df`` that succeeded, with ``result``; and those that did not, with why.

    ``handler`` is ``fn(row)`` or ``fn(row, ctx)`` where ``row`` is a dict, or a handler of an app. ``key`` names the
    columns that tell rows apart; rows that are equal in all columns share one job, and two that differ elsewhere stop
    the run with ``InvalidInput``: others may have run by then. ``run`` names the run: the same name goes on where it
    ended, without one every call is a run of its own. With ``chunk`` the handler takes a list of up to so many rows,
    and gives a list of as many results or exceptions. ``progress`` is the bar of ``run_queue``.
    """
    spark = df.sparkSession
    where = url or settings().url
    if where is None:
        raise InvalidInput("url", wanted="a store, as an argument or as HOLDFAST_URL", got="none")
    if max_dead_ratio is not None and not 0 <= max_dead_ratio <= 1:
        raise InvalidInput("max_dead_ratio", wanted="a share from 0 to 1", got=max_dead_ratio)
    columns = [key] if isinstance(key, str) else list(key)
    missing = [column for column in columns if column not in df.columns]
    if missing or not columns:
        wanted = f"columns of the frame ({', '.join(df.columns)})"
        raise InvalidInput("key", wanted=wanted, got=", ".join(missing) or "none")
    queue = bounds.check_name("run", f"run:{run or uuid7()}")
    app = _app(where, handler, queue, max_attempts=max_attempts, timeout=timeout, retry=retry, chunk=chunk)
    try:
        check_reach(app.driver, spark)
        rows = df.withColumn(KEY, _key_of(columns)).persist()
        like = JobRecord(
            id="-", type=TYPE, queue=queue, payload=b"", created_at=SystemClock().now(), max_attempts=max_attempts
        )
        told = work_on(
            app,
            spark,
            partial(_slots, rows, slots or cores(spark), like),
            slots=slots,
            options=_on(options, queue),
            on_progress=on_progress if max_dead_ratio is None else _limited(max_dead_ratio, on_progress),
            progress=progress,
            rows=rows.count,
        )
        return _joined(rows, _outcomes(spark, where, queue, _ids(told)))
    finally:
        app.close()


def _app(url: str, handler: Callable[..., Any], queue: str, **options: Any) -> Holdfast:
    app = Holdfast(url)
    app.handler(TYPE, queue=queue, **options)(handler.function if isinstance(handler, Task) else handler)
    return app


def _on(options: WorkerOptions | None, queue: str) -> WorkerOptions:
    """For this queue, to its end: every row has an outcome."""
    return replace(options or WorkerOptions(), queues=(queue,), max_jobs=None)


# In ---------------------------------------------------------------------------------------------------------


def _key_of(columns: Sequence[str]) -> Column:
    """What tells a row from others: the same for the same values, in any application."""
    values = f.to_json(f.struct(*(f.col(f"`{name}`") for name in columns)), {"ignoreNullFields": "false"})
    return f.substring(f.sha2(values, 256), 1, KEY_LENGTH)


def _slots(rows: DataFrame, slots: int, like: JobRecord, order: Order) -> DataFrame:
    """As many slots as asked for, each with its share of the rows, equal ones together."""
    names = [name for name in rows.columns if name != KEY]
    payload = f.to_json(f.struct(*(f.col(f"`{name}`") for name in names)), {"ignoreNullFields": "false"})
    jobs = rows.select(f.col(KEY), payload.alias(PAYLOAD)).repartition(slots, f.col(KEY))
    return jobs.mapInArrow(partial(run_rows, order=order, like=like), TOLD)


def _ids(told: Sequence[Row]) -> list[str]:
    """Some of the ids in order, among them the first and the last."""
    refused = next((row["refused"] for row in told if row["refused"] is not None), None)
    if refused is not None:
        got = f"two rows with the key {refused} and different values, here or in an earlier run of this name"
        raise InvalidInput("key", wanted="columns that tell all rows apart", got=got)
    return sorted({row["id"] for row in told if row["id"] is not None})


# Out --------------------------------------------------------------------------------------------------------


def _limited(most: float, on_progress: OnProgress | None) -> OnProgress:
    def watch(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(progress)
        dead = progress.settled["dead"] + progress.settled["rejected"]
        ended = dead + progress.settled["acked"]
        if ended >= ENOUGH and dead > most * ended:
            raise TooManyDead(dead, ended, most)

    return watch


def _outcomes(spark: SparkSession, url: str, queue: str, ids: Sequence[str]) -> DataFrame:
    """How each job of the run has ended, read now and kept by Spark: the store may forget it later.

    Ids grow with time, so the jobs of a run lie close together among all that the store has; each Spark task reads from
    one of the ids to another. Kept as a cached frame, because only of that Spark knows the size: of a checkpointed one
    it thinks that it is as small as the handful of numbers it was made from, and would send millions of rows to every
    executor for a join.
    """
    parts = max(1, min(cores(spark), len(ids) - 1))
    ends = [ids[place * (len(ids) - 1) // parts] for place in range(parts + 1)] if ids else []
    read = partial(_read_outcomes, url=url, queue=queue, ends=ends)
    outcomes = spark.range(0, max(0, len(ends) - 1), 1, parts).mapInArrow(read, OUTCOME).persist()
    outcomes.count()
    return outcomes


def _read_outcomes(
    parts: Iterator[pa.RecordBatch], *, url: str, queue: str, ends: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    store, where = store_of(url, "main"), JobFilter(queue=queue, states=ENDED)
    for part in [number for batch in parts for number in batch.column(0).to_pylist()]:
        if part == 0:  # the others begin behind the end of the one before
            first = store.get(ends[0])
            if first is not None and first.state.has_ended:
                yield _arrow([[getattr(first, name)] for name in FIELDS])
        for columns in pages(store, where, FIELDS, limit=bounds.MAX_BATCH_ITEMS, after=ends[part], upto=ends[part + 1]):
            yield _arrow(columns)


def _arrow(columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    keys, states, results, reasons, errors, attempts = columns
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array(keys, pa.string()),
            "state": pa.array(states, pa.string()),
            "result": pa.array(results, pa.binary()).cast(pa.string()),
            "reason": pa.array(reasons, pa.string()),
            "error": pa.array([error or None for error in errors], pa.string()),
            "attempts": pa.array(attempts, pa.int32()),
        }
    )


def _joined(rows: DataFrame, outcomes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Every row of the input is in exactly one of the two."""
    both = rows.join(outcomes, rows[KEY] == outcomes["key"]).drop(KEY, "key")
    ok = both.where(f.col("state") == str(State.DONE)).drop("state", "reason", "error")
    dead = both.where(f.col("state") != str(State.DONE)).drop("result")
    return ok, dead
