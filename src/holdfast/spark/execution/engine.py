"""Run slots on executors and watch them. Runs on the Spark driver, which never holds a lease itself."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, Row, SparkSession

from holdfast.app import Holdfast
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput, StoreError
from holdfast.model import bounds
from holdfast.spark.compat import cancel, cores, describe, tag
from holdfast.spark.execution.bar import Bar, choose_bar
from holdfast.spark.execution.failures import to_failure
from holdfast.spark.execution.held_rows import hold
from holdfast.spark.execution.ledger_outcomes import has_repeated_slots, outcomes_from_ledger
from holdfast.spark.execution.outcomes import DDL
from holdfast.spark.execution.progress import OnProgress, ProgressMonitor
from holdfast.spark.execution.run_spec import RunSpec, send_stop
from holdfast.spark.execution.slot import run_slot
from holdfast.spark.session import session
from holdfast.spark.store_access import check_reach
from holdfast.worker.options import WorkerOptions

T = TypeVar("T")
PROGRESS_INTERVAL_SECONDS = 0.5
CLEAN_UP_SECONDS = 5.0  # after drain and grace, for the slots to return their last rows


def run_queue(
    app: Holdfast,
    *,
    spark: SparkSession | None = None,
    slots: int | None = None,
    options: WorkerOptions | None = None,
    stop_after: timedelta | None = None,
    on_progress: OnProgress | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Run the jobs in the queues of an app on executors. Return one row for each attempt (see ``outcomes.py``).

    The call returns when no job of the app's types is ready, scheduled or running in its queues. With ``stop_after`` it
    returns after that time instead, also if the queues are empty before. On Ctrl-C it returns after the slots have
    drained. Executors hold the rows of the result until it is garbage-collected (see ``held_rows.py``): write them to a
    table to keep them. ``progress`` shows a live bar on stderr or in the notebook: by default where the bar can be
    redrawn, with True also as log lines. ``on_progress`` is called with the same numbers, about twice a second.
    """
    spark = spark or session()
    spec = _make_spec(app, spark, slots, options, stop_after, reports_attempts=True)
    slot_count = slots or cores(spark)
    outcomes = spark.range(0, slot_count, 1, slot_count).mapInArrow(partial(run_slot, spec=spec), DDL)
    hold_rows = partial(hold, measure_size=True)
    rows = _SlotRun(spark, app.driver, spec, hold_rows).watch(outcomes, on_progress, choose_bar(progress))
    if has_repeated_slots(app.driver, spec.run, slot_count):
        return hold_rows(outcomes_from_ledger(spark, spec))
    return rows


def run_slots(
    app: Holdfast,
    spark: SparkSession,
    make_frame: Callable[[RunSpec], DataFrame],
    *,
    slots: int | None,
    options: WorkerOptions | None,
    on_progress: OnProgress | None,
    progress: bool | None,
    count_rows: Callable[[], int],
) -> list[Row]:
    """Run slots that store their own jobs, and return the rows that they report.

    ``make_frame`` returns the frame whose partitions are the slots. ``count_rows`` is called only if progress is shown.
    """
    spec = _make_spec(app, spark, slots, options, None, reports_attempts=False)
    run = _SlotRun(spark, app.driver, spec, lambda frame: frame.collect(), count_rows=count_rows)
    return run.watch(make_frame(spec), on_progress, choose_bar(progress))


def _make_spec(
    app: Holdfast,
    spark: SparkSession,
    slots: int | None,
    options: WorkerOptions | None,
    stop_after: timedelta | None,
    *,
    reports_attempts: bool,
) -> RunSpec:
    options = replace(options or WorkerOptions(), processes=1, until_drained=stop_after is None)
    options = app.worker_options(options)
    if slots is not None:
        bounds.check_integer("slots", slots, least=1, most=100_000)
    if app.url is None:
        raise InvalidInput("app", wanted="one with a store URL, which slots can open", got="one with a driver")
    store = app.driver
    check_reach(store, spark)
    return RunSpec(
        run=f"{spark.conf.get('spark.app.id')}-{secrets.token_hex(4)}",
        url=app.url,
        space=app.space,
        catalogue=app.catalogue,
        options=options,
        stop_after=None if stop_after is None else stop_after.total_seconds(),
        ledger_start=store.ledger_end(),
        reports_attempts=reports_attempts,
    )


class _SlotRun(Generic[T]):
    """One Spark job that runs slots. ``compute`` starts the Spark job and returns its result."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        spec: RunSpec,
        compute: Callable[[DataFrame], T],
        *,
        count_rows: Callable[[], int] = int,
    ) -> None:
        self._spark = spark
        self._store = store
        self._spec = spec
        self._compute = compute
        self._count_rows = count_rows
        self._results: list[T] = []
        self._error: BaseException | None = None

    def watch(self, frame: DataFrame, on_progress: OnProgress | None, bar: Bar | None) -> T:
        """Compute the frame in a thread, so that this thread can show progress and receive Ctrl-C."""
        is_watched = on_progress is not None or bar is not None
        monitor = ProgressMonitor(self._store, self._spec, rows=self._count_rows()) if is_watched else None
        thread = threading.Thread(target=self._run, args=(frame,), name="holdfast-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(PROGRESS_INTERVAL_SECONDS)
                if monitor is not None and thread.is_alive():
                    _show(monitor, on_progress, bar)
            if monitor is not None:
                _show(monitor, on_progress, bar, final=True)
        except BaseException:
            self._stop(thread)
            raise
        if self._error is not None:
            raise to_failure(self._error)
        [result] = self._results
        return result

    def _run(self, frame: DataFrame) -> None:
        try:
            tag(self._spark, self._spec.run)
            describe(self._spark, f"holdfast {', '.join(self._spec.options.queues or ())} ({self._spec.run})")
            self._results.append(self._compute(frame))
        except BaseException as error:  # noqa: BLE001 - raised again by watch()
            self._error = error

    def _stop(self, thread: threading.Thread) -> None:
        """Let the slots drain, then cancel the Spark job if it still runs."""
        options = self._spec.options
        send_stop(self._store, self._spec.run)
        timeout = None
        if options.drain is not None:
            timeout = (options.drain + options.grace).total_seconds() + CLEAN_UP_SECONDS
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C ends the wait
            thread.join(timeout)
        if thread.is_alive():
            cancel(self._spark, self._spec.run)
            thread.join(CLEAN_UP_SECONDS)


def _show(monitor: ProgressMonitor, on_progress: OnProgress | None, bar: Bar | None, *, final: bool = False) -> None:
    try:
        progress = monitor.read(final=final)
    except StoreError:
        return  # the slots retry, and the next call reads again
    if bar is not None:
        bar.clear()  # on_progress may print: its text belongs above the bar
    if on_progress is not None:
        on_progress(progress)
    if bar is not None:
        bar.show(progress, final=final)
