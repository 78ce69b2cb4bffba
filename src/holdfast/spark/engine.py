"""The Spark driver's side: as many slots as asked for, watched until they are done. It never holds a lease itself."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import msgspec
from pyspark.sql import DataFrame, SparkSession
from uuid_utils import uuid7

from holdfast.app import Holdfast
from holdfast.clock import DAY, monotonic
from holdfast.drivers.contract import Store
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change
from holdfast.spark.flavours import cancel, cores, tag
from holdfast.spark.outcomes import DDL
from holdfast.spark.reach import check_reach
from holdfast.spark.retold import is_untold, retold
from holdfast.spark.session import session
from holdfast.spark.slot import PRESENCE, RUN, STOP, Order, Standing, run_slot
from holdfast.worker.worker import WorkerOptions

LOOK_EVERY = 0.5  # seconds between two looks at how the slots stand
CLEAN_UP = 5.0  # seconds beyond drain and grace that slots have, once stopped, to tell their last rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How a run stands, as its slots tell."""

    settled: Counter[str]  # how many attempts ended how
    slots: int  # that are alive
    elapsed: float


OnProgress = Callable[[Progress], None]


def run_queue(
    app: Holdfast,
    *,
    spark: SparkSession | None = None,
    slots: int | None = None,
    options: WorkerOptions | None = None,
    stop_after: timedelta | None = None,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Drain the queues of an app on Spark; gives one row per attempt (see ``outcomes.py``), each run exactly once.

    Ends when nothing of the app's types waits, is scheduled or runs in its queues; or after ``stop_after``; or, on
    Ctrl-C, once the slots have drained. The rows are kept by Spark's executors: write them somewhere to keep them.
    """
    spark = spark or session()
    asked = replace(options or WorkerOptions(), processes=1, until_drained=stop_after is None)
    if asked.queues is None and app.queues:
        asked = replace(asked, queues=tuple(app.queues))
    if slots is not None:
        bounds.integer("slots", slots, least=1, most=100_000)
    if app.url is None:
        raise InvalidInput("app", wanted="one with a store URL, which slots can open", got="one with a driver")
    store = app.driver
    check_reach(store, spark)
    order = Order(
        run=f"{spark.conf.get('spark.app.id')}-{uuid7()}",
        url=app.url,
        space=app.space,
        catalogue=app.catalogue,
        options=asked,
        stop_after=None if stop_after is None else stop_after.total_seconds(),
        ledger_from=store.ledger_end(),
    )
    many = slots or cores(spark)
    rows = _Watch(spark, store, order).until_done(_slots(spark, many, order), on_progress)
    return retold(spark, order) if is_untold(store, order.run, many) else rows


def _slots(spark: SparkSession, slots: int, order: Order) -> DataFrame:
    """A frame that is the work itself: whoever computes it works. It is computed once, and its rows are kept."""
    return spark.range(0, slots, 1, slots).mapInArrow(partial(run_slot, order=order), DDL)


class _Watch:
    """From the start of the Spark job to its end."""

    def __init__(self, spark: SparkSession, store: Store, order: Order) -> None:
        self._spark = spark
        self._store = store
        self._order = order
        self._rows: DataFrame | None = None
        self._error: BaseException | None = None

    def until_done(self, frame: DataFrame, on_progress: OnProgress | None) -> DataFrame:
        """Run it in a thread, so that this one can watch, and be interrupted."""
        began = monotonic()
        thread = threading.Thread(target=self._run, args=(frame,), name="holdfast-spark", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(LOOK_EVERY)
                if on_progress is not None:
                    on_progress(self._progress(monotonic() - began))
        except BaseException:
            self._stop(thread)
            raise
        if self._error is not None:
            raise self._error
        assert self._rows is not None
        return self._rows

    def _run(self, frame: DataFrame) -> None:
        try:
            tag(self._spark, self._order.run)
            self._rows = frame.localCheckpoint(eager=True)
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

    def _progress(self, elapsed: float) -> Progress:
        settled: Counter[str] = Counter()
        alive = 0
        after = ""
        while entries := self._store.scan(PRESENCE, prefix=f"{self._order.run}/", after=after, limit=100):
            for entry in entries:
                standing = msgspec.json.decode(entry.value or b"{}", type=Standing)
                settled.update(standing.settled)
                alive += standing.alive
            after = entries[-1].key
        return Progress(settled=settled, slots=alive, elapsed=elapsed)
