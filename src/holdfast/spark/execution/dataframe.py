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
from typing import Any, Literal

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as f
from uuid_utils import uuid7

from holdfast.app import Holdfast
from holdfast.clock import DAY, SystemClock
from holdfast.cron.store import ScheduleStore
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.requests import Configure, LedgerEnd, Read, Settings
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, OutcomesTrimmed, TooManyDead
from holdfast.model import bounds, duration, retention
from holdfast.model.job import JobRecord
from holdfast.model.limit_proposal import QueueLimits, parse_rate
from holdfast.model.queue_settings import TYPE_LIMIT_FIELDS, OnExhausted
from holdfast.model.retry import RetryPolicy
from holdfast.model.retry import parse as parse_policy
from holdfast.settings import named_store_url
from holdfast.settings import read as settings
from holdfast.spark.compat import describe
from holdfast.spark.execution.engine import count_slots, run_slots
from holdfast.spark.execution.handler_version import begin_version, handler_version, mixed_versions
from holdfast.spark.execution.ledger_outcomes import count_unstored_results
from holdfast.spark.execution.progress import OnProgress, Progress
from holdfast.spark.execution.row_handler import make_row_handler
from holdfast.spark.execution.row_order import (
    OrderBy,
    check_distinct_rows,
    configure_order,
    count_halted,
    ordered_rows,
    parse_on_exhausted,
    remember_order,
    with_order,
)
from holdfast.spark.execution.row_outcomes import read_row_outcomes
from holdfast.spark.execution.row_source import REPORT_DDL, EarlierCalls, run_rows
from holdfast.spark.execution.run_columns import (
    KEY,
    InputColumns,
    check_nulls,
    choose_outcome_columns,
    join_outcomes,
    keyed_rows,
    newest_outcomes,
    read_columns,
    slot_rows,
)
from holdfast.spark.execution.run_result import RunResult, hold_result
from holdfast.spark.execution.run_spec import RunSpec
from holdfast.spark.store_access import check_reach
from holdfast.task import Task
from holdfast.worker.bad_rows import make_bad_row_handler
from holdfast.worker.options import WorkerOptions

TYPE = "spark.row"
DEFAULT_RUN_ATTEMPTS = 3
KEY_MARGIN = 30 * DAY  # from the storing of a row to its end: a key outlives the job of every row that takes no longer
MIN_ENDED_FOR_RATIO = 100  # rows that must have ended before max_dead_ratio is checked


def run(
    df: DataFrame,
    handler: Callable[..., Any],
    *,
    key: str | Sequence[str],
    url: str | None = None,
    store: str | None = None,
    run: str | None = None,
    retry_dead: bool = False,
    max_attempts: int | None = None,
    timeout: timedelta | str | None = None,
    retry: RetryPolicy | str | None = None,
    chunk: int | None = None,
    order_by: OrderBy | None = None,
    on_exhausted: OnExhausted | Literal["skip", "halt"] | None = None,
    rate: str | float | None = None,
    max_inflight: int | None = None,
    max_dead_ratio: float | None = None,
    column: str | None = None,
    flatten: bool = False,
    version: str | None = None,
    slots: int | None = None,
    options: WorkerOptions | None = None,
    on_progress: OnProgress | None = None,
    progress: bool | None = None,
) -> RunResult:
    """Return ``(ok, dead)``: the rows of ``df`` that are done, and the rows that are dead or cancelled.

    Both frames have the columns of ``df``, unchanged, and one more: the struct ``holdfast`` with the fields ``result``
    (JSON), ``attempts``, ``error``, ``reason``, ``state`` and ``job_id``. ``column`` gives the struct another name;
    ``flatten`` makes a column of each field. A name that the input has already is refused before anything runs. A row
    whose result cannot be stored is dead, with the reason ``bad result``, unless the handler of an app has
    ``strict_result=False``; ``summary`` counts such results. A row of more than 1 MiB, or with text that is not UTF-8,
    is dead without a call of the handler, with the reason ``bad payload``.

    ``handler`` is ``fn(row)`` or ``fn(row, ctx)`` where ``row`` is a dict, or a handler of an app. Such a handler keeps
    its attempts, timeout, retry policy, chunk, guards, breaker and limits, unless an argument replaces them, and has
    the resources and the middleware of its app. Without ``max_attempts`` of either, a row has 3 attempts. The row has
    the values of the frame (``row_values.py`` lists the types).
    ``key`` names the columns that identify a row, as a list or separated by commas; none of them may be null. Rows that
    are equal in all columns share one job. Two rows with the same key that differ in another column stop the run with
    ``InvalidInput``; other rows may have run by then. ``run`` names the run: a call with the name of an earlier run
    continues that run; without a name every call is a new run. With ``chunk`` the handler takes a list of at most
    ``chunk`` rows, and returns a list of as many results or exceptions.

    ``order_by=("customer", "event_time")`` runs the rows of one customer one at a time, in the order of their event
    times: the last item is the column of the order, or a list of columns, and the items before it are the columns of
    the domain. Rows with equal values run in the order of their key columns. A row keeps its place while it is retried;
    after a dead row the next row goes on. A chunk has at most one row of a domain. Rows that a later call with the same
    name adds run after the rows of their domain that are stored already. No column of ``order_by`` may be null. Two
    different rows with the same key are refused before anything runs. With ``on_exhausted="halt"`` a dead row stops its
    domain, until an operator resumes it and a call with the same name continues the run: the rows after it are in
    neither frame, and ``summary`` counts them as open. None keeps what a named run has.

    ``timeout`` and ``retry`` may be texts, ``"30s"`` and ``"exponential(1s)"``.

    ``rate`` (``"100/s"``, or a number per second) and ``max_inflight`` limit the rows of the run over all executors,
    exactly; None keeps what a named run has. ``max_dead_ratio`` stops the run with ``TooManyDead`` once a larger share
    of the rows is dead, over all calls with this name; at least 100 rows must have ended. ``progress`` and
    ``on_progress`` are those of ``run_queue``. ``version`` names the handler; without it, a hash of the handler's code
    does. If a run has results of several versions, ``summary`` of the result says so.

    A named run remembers its rows as long as the store keeps their jobs (``keep_ended``), and their keys for 30 days
    more: a call in that time raises ``OutcomesTrimmed`` and runs no row twice. Both errors have the frames of the rows
    that have ended, as ``result``.

    A row that a named run has stored keeps its values: a call with other values for its key stops with
    ``InvalidInput``. With ``retry_dead`` the dead rows of earlier calls that are in ``df`` run again, as new jobs with
    all their attempts, whether their values were corrected or not. The job of the dead row is purged in the
    transaction that stores the new one, so two calls at a time make one job of a row. In order of a domain such a row
    is a new one. ``max_dead_ratio`` then counts the rows of this call only.

    The store is ``url``, or the store with the name ``store`` in the settings of the Spark driver and of the executors,
    or the store of the settings.

    Executors hold the rows of the result, once for both frames. ``unpersist`` of the result frees them, and so does
    Spark after ``ok``, ``dead`` and every frame derived from them are garbage-collected: one of the two frames is
    enough to hold all rows. On a cluster the rows survive the loss of one executor. Otherwise a call with the same
    ``run`` reads the outcomes again and runs no row twice.
    """
    _check_arguments(df, run, max_attempts, max_dead_ratio, retry_dead=retry_dead)
    options = WorkerOptions.of(options, queues=None, max_jobs=None)
    spark = df.sparkSession
    store_url = _store_url(url, store)
    columns = with_order(read_columns(df, key), df.schema, order_by)
    halting = parse_on_exhausted(on_exhausted, run, columns)
    outcome = choose_outcome_columns(columns, column, flatten=flatten)
    queue = bounds.check_name("run", f"run:{run or uuid7()}")  # with its prefix
    is_limited = rate is not None or max_inflight is not None
    limited_queue = None if is_limited else queue
    app = _make_app(
        store_url, handler, queue, columns, timeout=timeout, retry=retry, chunk=chunk, limited_queue=limited_queue
    )
    version = handler_version(handler, version)
    worker_options = app.worker_options(replace(options, queues=(queue,)))
    app.catalogue.check_chunks(concurrency=worker_options.concurrency)
    description = describe(spark, f"holdfast {queue}")
    try:
        driver = app.driver
        check_reach(driver, spark)
        configure_order(driver, queue, columns, halting)
        if is_limited:
            _limit_rows(driver, queue, QueueLimits(max_inflight=max_inflight, rate=parse_rate("rate", rate)))
        if run is not None:
            remembered_for = _remember_keys(driver, queue, worker_options)
            remember_order(driver, queue, TYPE, columns, ttl=remembered_for)
            begin_version(driver, queue, version, ttl=remembered_for)
        if max_dead_ratio is not None:
            on_progress = _limit_dead(max_dead_ratio, on_progress, () if retry_dead else driver.counts([queue]))
        slots = count_slots(spark, slots)
        count_unstored = _count_unstored_from_now(app, queue)
        # The input is read once. One shuffle by key serves the slots and, at the end, the join with the outcomes.
        rows = keyed_rows(df, columns).repartition(slots, f.col(KEY)).persist()

        def read_result(ids: Sequence[str] | None) -> RunResult:
            outcomes = read_row_outcomes(spark, store_url, app.space, queue, ids)
            joined = join_outcomes(rows, outcomes if run is None else newest_outcomes(outcomes), partitions=slots)
            mix = {} if run is None else mixed_versions(driver, queue)
            halted = count_halted(driver, queue, columns)
            return hold_result(
                joined, columns, outcome, version=version, mix=mix, halted=halted, unstored=count_unstored()
            )

        try:
            check_nulls(rows, df, columns)
            check_distinct_rows(rows, columns)
            reports = run_slots(
                app,
                spark,
                partial(
                    _slot_frame,
                    rows,
                    columns,
                    slots,
                    _template(queue, handler, max_attempts),
                    earlier=_earlier_calls(driver, run, retry_dead=retry_dead),
                ),
                options=worker_options,
                on_progress=on_progress,
                progress=progress,
                count_rows=rows.count,
            )
            return _check_complete(read_result(_sampled_ids(reports)), run or queue)
        except TooManyDead as error:
            error.result = read_result(None)
            raise
        finally:
            rows.unpersist()
    finally:
        describe(spark, description)
        app.close()


def _check_arguments(
    df: DataFrame, run: str | None, max_attempts: int | None, max_dead_ratio: float | None, *, retry_dead: bool
) -> None:
    """Raise ``InvalidInput``, before Spark or the store is used."""
    if not hasattr(type(df), "sparkSession"):
        got = f"{type(df).__module__.partition('.')[0]}.{type(df).__name__}"
        raise InvalidInput("df", wanted="a DataFrame of Spark: spark.createDataFrame makes one of pandas", got=got)
    if run is not None:
        bounds.check_name("run", run)
    elif retry_dead:
        raise InvalidInput("retry_dead", wanted="the name of an earlier run (run=...)", got="none")
    bounds.check_optional_integer("max_attempts", max_attempts, least=1)
    if max_dead_ratio is not None and not 0 <= max_dead_ratio <= 1:
        raise InvalidInput("max_dead_ratio", wanted="a share from 0 to 1", got=max_dead_ratio)


def _check_complete(result: RunResult, run: str) -> RunResult:
    """Return the result. Raises ``OutcomesTrimmed`` if rows have no outcome and no domain is halted."""
    if result.summary.open and not result.summary.halted:
        trimmed = OutcomesTrimmed(run, result.summary.open)
        trimmed.result = result
        raise trimmed
    return result


def _store_url(url: str | None, store: str | None) -> str:
    if url is not None and store is not None:
        raise InvalidInput("store", wanted="either a url or a store", got="both")
    store_url = (url if store is None else named_store_url(store)) or settings().url
    if store_url is None:
        raise InvalidInput("url", wanted="a store, as an argument or as HOLDFAST_URL", got="none")
    return store_url


def _make_app(
    url: str,
    handler: Callable[..., Any],
    queue: str,
    columns: InputColumns,
    *,
    timeout: timedelta | str | None,
    retry: RetryPolicy | str | None,
    **options: Any,
) -> Holdfast:
    options["timeout"] = duration.parse("timeout", timeout) if isinstance(timeout, str) else timeout
    options["retry"] = parse_policy(retry) if isinstance(retry, str) else retry
    app = Holdfast(url)
    if isinstance(handler, Task):
        app.catalogue.resources |= handler.app.catalogue.resources
        app.catalogue.middleware += handler.app.catalogue.middleware
    app.catalogue.add(make_row_handler(TYPE, handler, columns, **options))
    app.catalogue.add(make_bad_row_handler())
    app.queues[queue] = None
    return app


def _remember_keys(store: Store, queue: str, options: WorkerOptions) -> int:
    """Remember the keys of a named run for longer than its jobs, and return for how long.

    The store forgets a key after a day by default, and an ended job after ``keep_ended``. If the key goes first, the
    row runs again. If the job goes first, the run has no outcome for the row, and says so.
    """
    [entry] = store.do(Read(kind=retention.KIND, keys=[retention.KEY]))
    chosen = retention.read_retention(entry) or retention.choose_retention(options.keep_ended, None)
    window = (chosen or retention.Retention()).ended_for + KEY_MARGIN
    settings = store.do(Settings(queue=queue))
    if settings.dedupe_window < window:
        store.do(Configure(queue=queue, settings=replace(settings, dedupe_window=window), only=("dedupe_window",)))
    return window


def _count_unstored_from_now(app: Holdfast, queue: str) -> Callable[[], int]:
    """Return a function that counts the rows that are done without their results since this call."""
    if all(each.strict_result for each in app.catalogue):
        return int
    return partial(count_unstored_results, app.driver, app.driver.do(LedgerEnd()), queue)


def _limit_rows(store: Store, queue: str, limits: QueueLimits) -> None:
    store.do(Configure(queue=queue, settings=limits.as_settings(), only=TYPE_LIMIT_FIELDS))


# Rows to jobs -----------------------------------------------------------------------------------------------


def _template(queue: str, handler: Callable[..., Any], max_attempts: int | None) -> JobRecord:
    own = handler.definition.max_attempts if isinstance(handler, Task) else None
    attempts = max_attempts or own or DEFAULT_RUN_ATTEMPTS
    now = SystemClock().now()
    return JobRecord(id="-", type=TYPE, queue=queue, payload=b"", created_at=now, max_attempts=attempts)


def _earlier_calls(store: Store, run: str | None, *, retry_dead: bool) -> EarlierCalls | None:
    return None if run is None else EarlierCalls(ScheduleStore(store).now(), retry_dead=retry_dead)


def _slot_frame(
    rows: DataFrame,
    columns: InputColumns,
    slots: int,
    template: JobRecord,
    spec: RunSpec,
    *,
    earlier: EarlierCalls | None,
) -> DataFrame:
    """Return the frame whose partitions are the slots. Rows with the same key, or domain, go to the same slot."""
    jobs = slot_rows(rows, columns)
    if columns.domain:
        jobs = ordered_rows(jobs, columns, slots)
    body = partial(run_rows, spec=spec, template=template, columns=columns, earlier=earlier)
    return jobs.mapInArrow(body, REPORT_DDL)


def _sampled_ids(reports: Sequence[Row]) -> list[str]:
    """Return some of the job ids in order, among them the first and the last.

    Raises ``InvalidInput`` for a row that a slot has refused.
    """
    refused = next((row for row in reports if row["field"] is not None), None)
    if refused is not None:
        raise InvalidInput(refused["field"], wanted=refused["wanted"], got=refused["got"])
    return sorted({row["id"] for row in reports if row["id"] is not None})


def _limit_dead(max_ratio: float, on_progress: OnProgress | None, before: Sequence[QueueCounts]) -> OnProgress:
    """Return a callback that raises ``TooManyDead``. Cancelled rows count neither as dead nor as ended.

    ``before`` are the counts of the run before this call: rows that are dead since an earlier call count as well.
    """
    dead_before = sum(row.dead for row in before)
    ended_before = dead_before + sum(row.done for row in before)

    def check(progress: Progress) -> None:
        if on_progress is not None:
            on_progress(progress)
        dead_now = progress.settled["dead"] + progress.settled["rejected"]
        dead = dead_before + dead_now
        ended = ended_before + dead_now + progress.settled["acked"] + progress.settled["skipped"]
        if ended >= MIN_ENDED_FOR_RATIO and dead > max_ratio * ended:
            raise TooManyDead(dead, ended, max_ratio)

    return check
