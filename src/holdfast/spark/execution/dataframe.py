"""A DataFrame through a handler: every row becomes a job with its own leases, retries, backoff and dead letter.

    ok, dead = holdfast.spark.run(df, fetch, key="url", run="fetch-2026-11", url="postgresql://...")

A row becomes one job, identified by its key and the name of the run: a second run with the same name, also after the
whole application was killed, runs only the rows that have not ended. This module runs on the Spark driver; the body of
its Spark tasks is in ``row_source.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.app import Holdfast, Task
from holdfast.clock import SystemClock
from holdfast.errors import InvalidInput, TooManyDead
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.retry import RetryPolicy
from holdfast.settings import named_store_url
from holdfast.settings import read as settings
from holdfast.spark.compat import cores, describe
from holdfast.spark.execution.engine import run_slots
from holdfast.spark.execution.held_rows import hold
from holdfast.spark.execution.progress import OnProgress, Progress
from holdfast.spark.execution.row_outcomes import read_row_outcomes
from holdfast.spark.execution.row_source import REPORT_DDL, run_rows
from holdfast.spark.execution.run_spec import RunSpec
from holdfast.spark.store_access import check_reach
from holdfast.worker.options import WorkerOptions

TYPE = "spark.row"
KEY, PAYLOAD = "_holdfast_key", "_holdfast_payload"
KEY_CHARACTERS = 32  # hexadecimal; short, because a store keeps the key of a row in four places
MIN_ENDED_FOR_RATIO = 100  # rows that must have ended before max_dead_ratio is checked


def run(
    df: DataFrame,
    handler: Callable[..., Any],
    *,
    key: str | Sequence[str],
    url: str | None = None,
    store: str | None = None,
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
    """Return ``(ok, dead)``: the rows of ``df`` that succeeded, with ``result``; and the other rows, with the reason.

    ``handler`` is ``fn(row)`` or ``fn(row, ctx)`` where ``row`` is a dict, or a handler of an app. ``key`` names the
    columns that identify a row. Rows that are equal in all columns share one job. Two rows with the same key that
    differ in another column stop the run with ``InvalidInput``; other rows may have run by then. ``run`` names the run:
    a call with the name of an earlier run continues that run; without a name every call is a new run. With ``chunk``
    the handler takes a list of at most ``chunk`` rows, and returns a list of as many results or exceptions.
    ``max_dead_ratio`` stops the run with ``TooManyDead`` once a larger share of the rows is dead. ``progress`` and
    ``on_progress`` are those of ``run_queue``.

    The store is ``url``, or the store with the name ``store`` in the settings of the Spark driver and of the executors,
    or the store of the settings.

    Executors hold the rows of the result, once for both frames. Spark frees them after ``ok``, ``dead`` and every frame
    derived from them are garbage-collected: one of the two frames is enough to hold all rows. On a cluster the rows
    survive the loss of one executor. Otherwise a call with the same ``run`` reads the outcomes again and runs no row
    twice.
    """
    spark = df.sparkSession
    store_url = _store_url(url, store)
    if max_dead_ratio is not None and not 0 <= max_dead_ratio <= 1:
        raise InvalidInput("max_dead_ratio", wanted="a share from 0 to 1", got=max_dead_ratio)
    key_columns = _key_columns(df, key)
    queue = bounds.check_name("run", f"run:{run or uuid7()}")
    app = _make_app(store_url, handler, queue, max_attempts=max_attempts, timeout=timeout, retry=retry, chunk=chunk)
    description = describe(spark, f"holdfast {queue}")
    try:
        check_reach(app.driver, spark)
        rows = df.withColumn(KEY, _key_of(key_columns)).persist()  # the input is read once, and joined at the end
        try:
            reports = run_slots(
                app,
                spark,
                partial(_slot_frame, rows, slots or cores(spark), _template(queue, max_attempts)),
                slots=slots,
                options=replace(options or WorkerOptions(), queues=(queue,), max_jobs=None),
                on_progress=on_progress if max_dead_ratio is None else _limit_dead(max_dead_ratio, on_progress),
                progress=progress,
                count_rows=rows.count,
            )
            outcomes = read_row_outcomes(spark, store_url, app.space, queue, _sampled_ids(reports))
            return _split(hold(_join(rows, outcomes), measure_size=False))  # a join is estimated large
        finally:
            rows.unpersist()
    finally:
        describe(spark, description)
        app.close()


def _store_url(url: str | None, store: str | None) -> str:
    if url is not None and store is not None:
        raise InvalidInput("store", wanted="either a url or a store", got="both")
    store_url = (url if store is None else named_store_url(store)) or settings().store_url
    if store_url is None:
        raise InvalidInput("url", wanted="a store, as an argument or as HOLDFAST_URL", got="none")
    return store_url


def _key_columns(df: DataFrame, key: str | Sequence[str]) -> list[str]:
    columns = [key] if isinstance(key, str) else list(key)
    missing = [column for column in columns if column not in df.columns]
    if missing or not columns:
        wanted = f"columns of the frame ({', '.join(df.columns)})"
        raise InvalidInput("key", wanted=wanted, got=", ".join(missing) or "none")
    return columns


def _make_app(url: str, handler: Callable[..., Any], queue: str, **options: Any) -> Holdfast:
    app = Holdfast(url)
    app.handler(TYPE, queue=queue, **options)(handler.function if isinstance(handler, Task) else handler)
    return app


# Rows to jobs -----------------------------------------------------------------------------------------------


def _template(queue: str, max_attempts: int) -> JobRecord:
    now = SystemClock().now()
    return JobRecord(id="-", type=TYPE, queue=queue, payload=b"", created_at=now, max_attempts=max_attempts)


def _key_of(columns: Sequence[str]) -> Column:
    """Return the key of a row: a hash that is the same for the same values in every application."""
    return f.substring(f.sha2(_json_of(columns), 256), 1, KEY_CHARACTERS)


def _json_of(columns: Sequence[str]) -> Column:
    return f.to_json(f.struct(*(f.col(f"`{name}`") for name in columns)), {"ignoreNullFields": "false"})


def _slot_frame(rows: DataFrame, slots: int, template: JobRecord, spec: RunSpec) -> DataFrame:
    """Return the frame whose partitions are the slots. Rows with the same key go to the same slot."""
    payload = _json_of([name for name in rows.columns if name != KEY])
    jobs = rows.select(f.col(KEY), payload.alias(PAYLOAD)).repartition(slots, f.col(KEY))
    return jobs.mapInArrow(partial(run_rows, spec=spec, template=template), REPORT_DDL)


def _sampled_ids(reports: Sequence[Row]) -> list[str]:
    """Return some of the job ids in order, among them the first and the last. Raises ``InvalidInput`` on a conflict."""
    conflict = next((row["conflict"] for row in reports if row["conflict"] is not None), None)
    if conflict is not None:
        got = f"two rows with the key {conflict} and different values, here or in an earlier run of this name"
        raise InvalidInput("key", wanted="columns that tell all rows apart", got=got)
    return sorted({row["id"] for row in reports if row["id"] is not None})


def _limit_dead(max_ratio: float, on_progress: OnProgress | None) -> OnProgress:
    """Return a callback that raises ``TooManyDead``. Cancelled rows count neither as dead nor as ended."""

    def check(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(progress)
        dead = progress.settled["dead"] + progress.settled["rejected"]
        ended = dead + progress.settled["acked"]
        if ended >= MIN_ENDED_FOR_RATIO and dead > max_ratio * ended:
            raise TooManyDead(dead, ended, max_ratio)

    return check


# Jobs to rows -----------------------------------------------------------------------------------------------


def _join(rows: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Return every row with the outcome of its job.

    The hint forbids a broadcast join: Spark cannot know how many outcomes the store has, and estimates a few bytes.
    """
    return rows.join(outcomes.hint("merge"), rows[KEY] == outcomes["key"]).drop(KEY, "key")


def _split(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return ``(ok, dead)``: every row is in exactly one of the two."""
    is_done = f.col("state") == str(State.DONE)
    return rows.where(is_done).drop("state", "reason", "error"), rows.where(~is_done).drop("result")
