"""Run slots on executors and watch them. Runs on the Spark driver, which never holds a lease itself."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession

from holdfast.app import Holdfast
from holdfast.clock import monotonic
from holdfast.drivers.requests import LedgerEnd
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, SparkTaskFailed, StoreError
from holdfast.model import bounds
from holdfast.spark.compat import cancel, cores, describe, tag
from holdfast.spark.execution.bar import Bar, choose_bar
from holdfast.spark.execution.held_rows import hold
from holdfast.spark.execution.jvm_shutdown import before_shutdown
from holdfast.spark.execution.ledger_outcomes import has_repeated_slots, outcomes_from_ledger
from holdfast.spark.execution.outcomes import DDL
from holdfast.spark.execution.progress import OnProgress, ProgressMonitor, slot_statuses
from holdfast.spark.execution.run_spec import RunSpec, send_stop
from holdfast.spark.execution.slot import run_slot
from holdfast.spark.execution.stop_signals import ABANDON, AT_ONCE, DRAIN, StopSignals, make_exception, summarize
from holdfast.spark.session import session
from holdfast.spark.store_access import check_reach
from holdfast.worker.options import WorkerOptions

_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+")
T = TypeVar("T")
PROGRESS_INTERVAL_SECONDS = 0.5
LAST_ROWS_SECONDS = 15.0  # after drain and grace, for the slots to return their last rows
CANCEL_SECONDS = 5.0  # for Spark to end a cancelled Spark job


def to_failure(error: BaseException) -> BaseException:
    """Return ``SparkTaskFailed`` for an exception in the Python of a Spark task; every other error unchanged."""
    if not isinstance(error, PythonException):
        return error
    reason = _reason(error)
    missing = _MISSING_MODULE.search(reason)
    if missing is not None:
        reason += (
            f": executors cannot import {missing[1]}; install it there, or ship it with the setting "
            "spark.submit.pyFiles or spark.archives"
        )
    failure = SparkTaskFailed(reason)
    failure.__cause__ = error
    return failure


def _reason(error: PySparkException) -> str:
    """Return the class and the message of the exception: the lines after the last frame of the traceback."""
    lines = [line for line in str(error).splitlines() if line.strip() and not _SQL_STATE.fullmatch(line)]
    last_frame = max((number for number, line in enumerate(lines) if line.startswith("  ")), default=-1)
    return " ".join(line.strip() for line in lines[last_frame + 1 :]) or "a Spark task failed"


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
    returns after that time instead, also if the queues are empty before. The first SIGINT or SIGTERM drains the slots,
    the second interrupts their jobs, and the call returns the outcomes so far. If slots do not end in time, or if the
    JVM shuts down, it raises ``KeyboardInterrupt`` for SIGINT and ``SystemExit`` for SIGTERM.

    Executors hold the rows of the result until it is garbage-collected (see ``held_rows.py``): write them to a table to
    keep them. ``progress`` shows a live bar on stderr or in the notebook: by default where the bar can be redrawn, with
    True also as log lines. ``on_progress`` is called with the same numbers, about twice a second.
    """
    options = WorkerOptions.of(options)  # refused before Spark starts
    spark = spark or session()
    slots = count_slots(spark, slots)
    spec = _make_spec(app, spark, options, stop_after, reports_attempts=True)
    outcomes = spark.range(0, slots, 1, slots).mapInArrow(partial(run_slot, spec=spec), DDL)
    rows = _SlotRun(spark, app.driver, spec, hold).watch(outcomes, on_progress, choose_bar(progress))
    if has_repeated_slots(app.driver, spec.run, slots):
        return hold(outcomes_from_ledger(spark, spec))
    return rows


def run_slots(
    app: Holdfast,
    spark: SparkSession,
    make_frame: Callable[[RunSpec], DataFrame],
    *,
    options: WorkerOptions | None,
    on_progress: OnProgress | None,
    progress: bool | None,
    count_rows: Callable[[], int],
) -> list[Row]:
    """Run slots that store their own jobs, and return the rows that they report.

    ``make_frame`` returns the frame whose partitions are the slots. ``count_rows`` is called only if progress is shown.
    """
    spec = _make_spec(app, spark, options, None, reports_attempts=False)
    run = _SlotRun(spark, app.driver, spec, lambda frame: frame.collect(), count_rows=count_rows)
    reports = run.watch(make_frame(spec), on_progress, choose_bar(progress))
    if run.signals.count:
        raise run.stopped()
    return reports


def count_slots(spark: SparkSession, slots: int | None) -> int:
    """Return how many slots to run: by default as many as Spark tasks can run at a time."""
    return cores(spark) if slots is None else bounds.check_integer("slots", slots, least=1, most=100_000)


def _make_spec(
    app: Holdfast,
    spark: SparkSession,
    options: WorkerOptions | None,
    stop_after: timedelta | None,
    *,
    reports_attempts: bool,
) -> RunSpec:
    options = app.worker_options(WorkerOptions.of(options, processes=1, until_drained=stop_after is None))
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
        ledger_start=store.do(LedgerEnd()),
        signing=app.settings.signing,
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
        self._ended = threading.Event()
        self.signals = StopSignals()

    def watch(self, frame: DataFrame, on_progress: OnProgress | None, bar: Bar | None) -> T:
        """Compute the frame in a thread, so that this thread can show progress and receive signals.

        After a signal, return the result if the slots have returned all their rows, else raise what a signal raises.
        """
        is_watched = on_progress is not None or bar is not None
        monitor = ProgressMonitor(self._store, self._spec, rows=self._count_rows()) if is_watched else None
        show = partial(_show, monitor, on_progress, bar)
        thread = threading.Thread(target=self._run, args=(frame,), name="holdfast-spark", daemon=True)
        with (
            self.signals,
            before_shutdown(self._spark, self._on_jvm_shutdown, timeout_seconds=self._max_stop_seconds()),
        ):
            try:
                thread.start()
                while thread.is_alive() and not self.signals.count:
                    thread.join(PROGRESS_INTERVAL_SECONDS)
                    if thread.is_alive():
                        show()
                if self.signals.count:
                    self._stop(thread, show)
                show(final=True)
            except BaseException:
                self._stop(thread)
                raise
            finally:
                self._ended.set()
        if self.signals.count and (not self._results or self.signals.is_jvm_ending):
            raise self.stopped() from None
        if self._error is not None:
            raise to_failure(self._error)
        [result] = self._results
        return result

    def stopped(self) -> BaseException:
        """Return what a run raises after a signal, with one line that says how many attempts ended."""
        counts: Counter[str] = Counter()
        with contextlib.suppress(StoreError):
            for status in slot_statuses(self._store, self._spec.run):
                counts.update(status.settled)
        summary = summarize(self.signals.cause, counts)
        if not self._results:
            summary += "; some slots did not end in time, and the leases that they hold will expire"
        return make_exception(self.signals.cause, summary)

    def _run(self, frame: DataFrame) -> None:
        try:
            tag(self._spark, self._spec.run)
            describe(self._spark, f"holdfast {', '.join(self._spec.options.queues or ())} ({self._spec.run})")
            self._results.append(self._compute(frame))
        except BaseException as error:  # noqa: BLE001 - raised again by watch()
            self._error = error

    def _on_jvm_shutdown(self) -> None:
        self.signals.on_jvm_shutdown()
        self._ended.wait()

    def _stop(self, thread: threading.Thread, show: Callable[[], object] = bool) -> None:
        """Let the slots drain, or after a second signal interrupt their jobs; then cancel the Spark job if it runs."""
        signals_seen, is_sent, deadline = -1, False, None
        while thread.is_alive() and (deadline is None or monotonic() < deadline):
            if self.signals.count != signals_seen:
                signals_seen, is_sent = self.signals.count, False
                seconds = self._max_stop_seconds(signals_seen)
                deadline = None if seconds is None else monotonic() + seconds
            if not is_sent:
                with contextlib.suppress(StoreError):  # sent again in the next turn
                    send_stop(self._store, self._spec.run, at_once=signals_seen >= AT_ONCE)
                    is_sent = True
            thread.join(PROGRESS_INTERVAL_SECONDS)
            show()
        if thread.is_alive():
            cancel(self._spark, self._spec.run)
            thread.join(CANCEL_SECONDS)

    def _max_stop_seconds(self, signals: int = DRAIN) -> float | None:
        """Return how long the slots may take to return their last rows after this many signals; None without limit."""
        if signals >= ABANDON:
            return 0.0
        options = self._spec.options
        drain = timedelta() if signals == AT_ONCE else options.drain
        return None if drain is None else (drain + options.grace).total_seconds() + LAST_ROWS_SECONDS


def _show(
    monitor: ProgressMonitor | None, on_progress: OnProgress | None, bar: Bar | None, *, final: bool = False
) -> None:
    if monitor is None:
        return
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
