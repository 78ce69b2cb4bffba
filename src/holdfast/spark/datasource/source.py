"""The batch readers of jobs and of the ledger.

Spark creates a reader and calls its ``partitions`` on the Spark driver, at the first use of a frame. All later queries
of the frame use the same reader and partitions: neither may depend on the query. Both are pickled; ``read`` runs on
executors, once for each try of each Spark task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from holdfast.clock import SystemClock
from holdfast.drivers.store import Store
from holdfast.spark.datasource import jobs_table, ledger_table
from holdfast.spark.datasource.options import SourceOptions, StoreLocation
from holdfast.spark.store_access import open_store


class JobsPartition(InputPartition):
    """A range of job ids."""

    def __init__(self, ids: jobs_table.IdRange) -> None:
        super().__init__(ids)
        self.ids = ids


class JobsReader(DataSourceReader):
    """Reads the jobs that match the filter of the options."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[JobsPartition]:
        """Return ranges of ids, one for each Spark task."""
        store, options = _open(self._options.store), self._options
        ranges = jobs_table.split_ids(store, options.where, most=options.partitions, now=SystemClock().now())
        return [JobsPartition(ids) for ids in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the jobs of one range."""
        assert isinstance(partition, JobsPartition)
        return jobs_table.read(_open(self._options.store), self._options.where, partition.ids)


class LedgerPartition(InputPartition):
    """A range of the ledger."""

    def __init__(self, ledger_range: ledger_table.LedgerRange) -> None:
        super().__init__(ledger_range)
        self.ledger_range = ledger_range


class LedgerReader(DataSourceReader):
    """Reads the ledger from its oldest row to the row that is the last one when the last range is read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[LedgerPartition]:
        """Return ranges of the ledger.

        The last range has no end: a later query of the frame, which uses the same partitions, must see new rows.
        """
        store = _open(self._options.store)
        start = ledger_table.ledger_start(store)
        points = ledger_table.split_points(store, start.after)
        ranges = ledger_table.split_ledger(start, points, self._options.partitions)
        *closed, last = ranges or [start]
        return [LedgerPartition(each) for each in (*closed, replace(last, rows=None))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range, in order."""
        assert isinstance(partition, LedgerPartition)
        return ledger_table.read(_open(self._options.store), partition.ledger_range)


def _open(store: StoreLocation) -> Store:
    return open_store(store.url, store.space)
