"""The ledger as a stream: each row once, in order, across restarts.

An offset is a cursor and the number of rows before it: ``{"cursor": ..., "rows": ...}``. The difference of two offsets
is the number of rows of a micro-batch, so a micro-batch has the same rows whenever it is read. One reader lives on the
Spark driver as long as the query; ``read`` runs on executors, once for each try of each Spark task.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from holdfast.drivers.requests import LedgerEnd
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.spark.datasource import ledger_table
from holdfast.spark.datasource.options import SourceOptions
from holdfast.spark.datasource.source import LedgerPartition
from holdfast.spark.store_access import open_store

MAX_BATCH_ROWS = 1_000_000  # in a micro-batch, without the option max_rows

Offset = dict[str, Any]


class LedgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the ledger as a stream. Its state only avoids a second read of split points: a restart loses nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._is_available_now = False
        self._last_row: int | None = None  # number of rows at which an AvailableNow query ends
        self._planned: tuple[Offset, list[ledger_table.SplitPoint]] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a new query begins. A restarted query continues from its checkpoint instead."""
        store, start = self._store(), self._options.start
        if start == "latest":
            return {"cursor": store.do(LedgerEnd()), "rows": 0}
        if start != "oldest":
            store.ledger(start, 1)  # raises for a cursor that the store never returned, or that was trimmed
            return {"cursor": start, "rows": 0}
        oldest = ledger_table.ledger_start(store)
        if oldest.after is None:
            return {"cursor": "", "first": oldest.first, "rows": 0}
        return {"cursor": oldest.after, "rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return the maximal number of rows in a micro-batch."""
        return ReadMaxRows(self._options.max_rows or MAX_BATCH_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """End at the rows that exist now. ``latestOffset`` counts them, because only it knows the start."""
        self._is_available_now = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch; ``start`` if there are no new rows."""
        store, after = self._store(), _range_from(start).after
        if self._is_available_now and self._last_row is None:
            self._last_row = start["rows"] + sum(point.rows for point in ledger_table.split_points(store, after))
        most = ledger_table.UNLIMITED if isinstance(limit, ReadAllAvailable) else _max_rows(limit)
        if self._last_row is not None:
            most = min(most, self._last_row - start["rows"])
        points = ledger_table.split_points(store, after, most=most) if most > 0 else []
        if not points:
            return start
        self._planned = (start, points)
        return {"cursor": points[-1].cursor, "rows": start["rows"] + sum(point.rows for point in points)}

    def partitions(self, start: Offset, end: Offset) -> list[LedgerPartition]:
        """Return the ranges of a micro-batch: the same rows in the same order, also when it is planned again."""
        count = end["rows"] - start["rows"]
        if not count:
            return []
        whole = _range_from(start)
        if self._planned is not None and self._planned[0] == start:
            points = self._planned[1]
        else:
            points = ledger_table.split_points(self._store(), whole.after, most=count)
        if sum(point.rows for point in points) != count:
            raise InvalidInput("checkpoint", wanted=f"{count} more rows of the ledger it belongs to", got="fewer")
        return [LedgerPartition(each) for each in ledger_table.split_ledger(whole, points, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one range, in order."""
        assert isinstance(partition, LedgerPartition)
        return ledger_table.read(self._store(), partition.ledger_range)

    def _store(self) -> Store:
        return open_store(self._options.store.url, self._options.store.space)


def _range_from(offset: Offset) -> ledger_table.LedgerRange:
    return ledger_table.LedgerRange(after=offset["cursor"] or None, first=offset.get("first", ""))


def _max_rows(limit: ReadLimit) -> int:
    assert isinstance(limit, ReadMaxRows), limit
    return limit.max_rows
