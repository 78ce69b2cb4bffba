"""The Spark driver's side: as many slots as asked for, watched until they are done. It never holds a lease itself."""

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
from holdfast.clock import DAY
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput, StoreError
from holdfast.model import bounds
from holdfast.model.registry import Change
from holdfast.spark.compat import cancel, cores, tag
from holdfast.spark.execution.bar import Bar, bar_of
from holdfast.spark.execution.ledger_outcomes import is_untold, keep, retold
from holdfast.spark.execution.outcomes import DDL
from holdfast.spark.execution.progress import Gauge, OnProgress
from holdfast.spark.execution.slot import RUN, STOP, Order, run_slot
from holdfast.spark.session import session
from holdfast.spark.store_access import check_reach
from holdfast.worker.options import WorkerOptions

T = TypeVar("T")
LOOK_EVERY = 0.5  # seconds between two looks at how the slots stand
CLEAN_UP = 5.0  # seconds beyond drain and grace that slots have, once stopped, to tell their last rows


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
    """Drain the queues of an app on Spark; gives one row per attempt (see ``outcomes.py``), each run exactly once.

    Ends when nothing of the app's types waits, is scheduled or runs in its queues; or after ``stop_after``; or, on
    Ctrl-C, once the slots have drained. The rows are kept by Spark's executors: write them somewhere to keep them.
    ``progress`` is a live bar on stderr or in the notebook: by default where it can move, with True also as lines
    elsewhere. ``on_progress`` is told the same, about twice a second.
    """
    spark = spark or session()
    order = _order(app, spark, slots, options, stop_after, tell=True)
    many = slots or cores(spark)
    rows = _Watch(spark, app.driver, order, keep).until_done(_slots(spark, many, order), on_progress, bar_of(progress))
    return retold(spark, order) if is_untold(app.driver, order.run, many) else rows


def work_on(
    app: Holdfast,
    spark: SparkSession,
    frame: Callable[[Order], DataFrame],
    *,
    slots: int | None,
    options: WorkerOptions | None,
    on_progress: OnProgress | None,
    progress: bool | None,
    rows: Callable[[], int],
) -> list[Row]:
    """The same with slots that bring their jobs; gives what they tell. ``rows`` are counted if somebody looks."""
    order = _order(app, spark, slots, options, None, tell=False)
    watch = _Watch(spark, app.driver, order, lambda made: made.collect(), rows=rows)
    return watch.until_done(frame(order), on_progress, bar_of(progress))


def _order(
    app: Holdfast,
    spark: SparkSession,
    slots: int | None,
    options: WorkerOptions | None,
    stop_after: timedelta | None,
    *,
    tell: bool,
) -> Order:
    asked = replace(options or WorkerOptions(), processes=1, until_drained=stop_after is None)
    if asked.queues is None and app.queues:
        asked = replace(asked, queues=tuple(app.queues))
    if slots is not None:
        bounds.check_integer("slots", slots, least=1, most=100_000)
    if app.url is None:
        raise InvalidInput("app", wanted="one with a store URL, which slots can open", got="one with a driver")
    store = app.driver
    check_reach(store, spark)
    return Order(
        run=f"{spark.conf.get('spark.app.id')}-{secrets.token_hex(4)}",
        url=app.url,
        space=app.space,
        catalogue=app.catalogue,
        options=asked,
        stop_after=None if stop_after is None else stop_after.total_seconds(),
        ledger_from=store.ledger_end(),
        tell=tell,
    )


def _slots(spark: SparkSession, slots: int, order: Order) -> DataFrame:
    """A frame that is the work itself: whoever computes it works. It is computed once, and its rows are kept."""
    return spark.range(0, slots, 1, slots).mapInArrow(partial(run_slot, order=order), DDL)


class _Watch(Generic[T]):
    """From the start of the Spark job, which ``compute`` runs, to its end."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        order: Order,
        compute: Callable[[DataFrame], T],
        *,
        rows: Callable[[], int] = int,
    ) -> None:
        self._spark = spark
        self._store = store
        self._order = order
        self._compute = compute
        self._rows = rows
        self._answers: list[T] = []
        self._error: BaseException | None = None

    def until_done(self, frame: DataFrame, on_progress: OnProgress | None, bar: Bar | None) -> T:
        """Run it in a thread, so that this one can watch, and be interrupted."""
        looked_at = on_progress is not None or bar is not None
        gauge = Gauge(self._store, self._order, rows=self._rows()) if looked_at else None
        thread = threading.Thread(target=self._run, args=(frame,), name="holdfast-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(LOOK_EVERY)
                if gauge is not None and thread.is_alive():
                    _show(gauge, on_progress, bar)
            if gauge is not None:
                _show(gauge, on_progress, bar, last=True)
        except BaseException:
            self._stop(thread)
            raise
        if self._error is not None:
            raise self._error
        [answer] = self._answers
        return answer

    def _run(self, frame: DataFrame) -> None:
        try:
            tag(self._spark, self._order.run)
            self._answers.append(self._compute(frame))
        except BaseException as error:  # noqa: BLE001 - raised again by whoever waits
            self._error = error

    def _stop(self, thread: threading.Thread) -> None:
        """Let the slots drain; those that do not are cancelled for real."""
        options = self._order.options
        self._store.write([Change(kind=RUN, key=self._order.run, value=STOP, ttl=DAY)])
        patience = None
        if options.drain is not None:
            patience = (options.drain + options.grace).total_seconds() + CLEAN_UP
        with contextlib.suppress(KeyboardInterrupt):  # the second one does not wait
            thread.join(patience)
        if thread.is_alive():
            cancel(self._spark, self._order.run)
            thread.join(CLEAN_UP)


def _show(gauge: Gauge, on_progress: OnProgress | None, bar: Bar | None, *, last: bool = False) -> None:
    try:
        seen = gauge.look(last=last)
    except StoreError:
        return  # the slots go on trying, and so does whoever watches them
    if bar is not None:
        bar.wipe()  # what the other one prints stands above it
    if on_progress is not None:
        on_progress(seen)
    if bar is not None:
        bar.show(seen, last=last)
