"""The outcomes of a run once more, from the ledger.

Spark keeps the rows of one try of each Spark task. What others have done is then told by nobody: of a try that was
killed, of the loser when speculation made two, of one whose executor took its rows along. So every try signs the
register when it begins; if there are more of them than slots, the ledger tells instead: it has every lease that ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.drivers.contract import Store
from holdfast.model import bounds
from holdfast.spark.execution.outcomes import DDL, from_ledger
from holdfast.spark.execution.slot import TRY, Order, read_out, store_of

PAGE = 100


def is_untold(store: Store, run: str, slots: int) -> bool:
    """Whether some slot of a run was tried more than once."""
    tries, after = 0, ""
    while entries := store.scan(TRY, prefix=f"{run}/", after=after, limit=PAGE):
        tries += len(entries)
        after = entries[-1].key
    return tries > slots


def retold(spark: SparkSession, order: Order) -> DataFrame:
    """One row per attempt, as the ledger has it; kept by Spark's executors."""
    return keep(spark.range(0, 1, 1, 1).mapInArrow(partial(_of_run, order=order), DDL))


def keep(frame: DataFrame) -> DataFrame:
    """Its rows, computed once and kept by Spark's executors.

    Cached on the way, because only of a cached frame Spark knows the size, and a checkpointed one remembers it: else it
    thinks that the rows are as few as the numbers of the slots, and would send millions of them to every executor for
    a join.
    """
    cached = frame.persist()
    cached.count()
    kept = cached.localCheckpoint(eager=True)
    cached.unpersist()
    return kept


def _of_run(empty: Iterator[pa.RecordBatch], order: Order) -> Iterator[pa.RecordBatch]:
    read_out(empty)
    store, cursor = store_of(order.url, order.space), order.ledger_from
    while True:
        page = store.ledger(cursor, limit=bounds.MAX_BATCH_ITEMS)
        if not page.items:
            return
        rows = [row for row in page.items if row.worker.startswith(f"{order.run}/")]
        if rows:
            yield from_ledger(rows)
        cursor = page.cursor
