"""The batch sources: jobs in any state, and the ledger.

A reader is made, given its filters and asked for its partitions on the Spark driver; ``read`` runs in a Python worker,
once for each try of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from holdfast.clock import SystemClock
from holdfast.drivers.contract import LedgerScan, Store
from holdfast.spark.datasource import jobs_table, ledger_table
from holdfast.spark.datasource.options import Place, Source
from holdfast.spark.execution.slot import store_of


class JobsPartition(InputPartition):
    """A range of ids."""

    def __init__(self, within: jobs_table.Range) -> None:
        super().__init__(within)
        self.within = within


class JobsReader(DataSourceReader):
    """Jobs in any state, filtered by the store as far as it can."""

    def __init__(self, asked: Source) -> None:
        self._asked = asked
        self._pushed = jobs_table.Pushed()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - so Spark calls it
        """Take over what the store knows how to look for."""
        return list(self._pushed.take(filters))

    def partitions(self) -> list[JobsPartition]:
        """Ranges of ids, as many as are worth a Spark task."""
        store = _open(self._asked.place)
        pieces, now = self._asked.partitions, SystemClock().now()
        return [
            JobsPartition(within) for within in jobs_table.ranges(store, self._pushed.wanted, pieces=pieces, now=now)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The jobs of one range."""
        assert isinstance(partition, JobsPartition)
        return jobs_table.read(_open(self._asked.place), self._pushed.wanted, partition.within)


class LedgerPartition(InputPartition):
    """A stretch of the ledger."""

    def __init__(self, stretch: ledger_table.Stretch) -> None:
        super().__init__(stretch)
        self.stretch = stretch


class LedgerReader(DataSourceReader):
    """The ledger, from the oldest row that is kept to the last one there is when the read is planned."""

    def __init__(self, asked: Source) -> None:
        self._asked = asked

    def partitions(self) -> list[LedgerPartition]:
        """Stretches, if the store can find marks without reading the rows; else one."""
        store = _open(self._asked.place)
        start = ledger_table.oldest(store)
        if not isinstance(store, LedgerScan):
            return [LedgerPartition(start)]
        found = ledger_table.stretches(start, ledger_table.marks(store, start.after), self._asked.partitions)
        return [LedgerPartition(stretch) for stretch in found or [ledger_table.Stretch(after=start.after, rows=0)]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one stretch, in order."""
        assert isinstance(partition, LedgerPartition)
        return ledger_table.read(_open(self._asked.place), partition.stretch)


def _open(place: Place) -> Store:
    return store_of(place.url, place.space)
