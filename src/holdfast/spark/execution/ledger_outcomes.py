"""The outcomes of a run, read from the ledger.

Spark keeps the rows of one try of each Spark task. The outcomes of other tries are missing from the frame: of a try
that was killed, of the slower copy under speculation, of a try whose executor was lost with its rows. Every try of a
slot registers itself when it starts. If more tries than slots have registered, the outcomes are read from the ledger,
which has one row for every lease that ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from holdfast.drivers.requests import Scan
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.ledger import LedgerRow
from holdfast.spark.execution.outcomes import DDL, from_ledger
from holdfast.spark.execution.run_spec import SLOT_TRY_KIND, RunSpec
from holdfast.spark.execution.slot import drain_input
from holdfast.spark.store_access import open_store
from holdfast.worker.attempt import RESULT_NOT_STORED

PAGE_ENTRIES = 100


def has_repeated_slots(store: Store, run: str, slots: int) -> bool:
    """Whether Spark started some slot of a run more than once. Runs on the Spark driver."""
    tries, after = 0, ""
    while entries := store.do(Scan(kind=SLOT_TRY_KIND, prefix=f"{run}/", after=after, limit=PAGE_ENTRIES)):
        tries += len(entries)
        after = entries[-1].key
    return tries > slots


def outcomes_from_ledger(spark: SparkSession, spec: RunSpec) -> DataFrame:
    """Return one row for each lease of the run that ended. Its only Spark task reads the ledger."""
    return spark.range(0, 1, 1, 1).mapInArrow(partial(_read_ledger, spec=spec), DDL)


def count_unstored_results(store: Store, after: str, queue: str) -> int:
    """Return how many jobs of a queue were done without their results since a cursor of the ledger."""
    pages = _ledger_pages(store, after)
    return sum(row.queue == queue and row.detail.startswith(RESULT_NOT_STORED) for page in pages for row in page)


def _read_ledger(batches: Iterator[pa.RecordBatch], spec: RunSpec) -> Iterator[pa.RecordBatch]:
    """Body of the Spark task, on an executor."""
    drain_input(batches)
    for page in _ledger_pages(open_store(spec.url, spec.space), spec.ledger_start):
        rows = [row for row in page if row.worker.startswith(f"{spec.run}/")]
        if rows:
            yield from_ledger(rows)


def _ledger_pages(store: Store, cursor: str | None) -> Iterator[Sequence[LedgerRow]]:
    while True:
        page = store.ledger(cursor, limit=bounds.MAX_BATCH_ITEMS)
        if not page.items:
            return
        yield page.items
        cursor = page.cursor
