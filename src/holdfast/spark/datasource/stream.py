"""The ledger as a stream: each row once, in order, across restarts.

An offset is a cursor with the number of rows before it, ``{"cursor": ..., "rows": ...}``: the difference of two says
how many rows a micro-batch has, and so it has the same ones whenever it is read. One reader lives on the Spark driver
as long as the query; ``read`` runs in Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from holdfast.errors import InvalidInput
from holdfast.spark.datasource import ledger_table
from holdfast.spark.datasource.options import Source
from holdfast.spark.datasource.source import LedgerPartition
from holdfast.spark.execution.slot import store_of

MAX_ROWS = 1_000_000  # of a micro-batch, unless the option says otherwise

Offset = dict[str, Any]


class LedgerStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Knows no state that a restart could lose: what it remembers is only to walk no stretch twice."""

    def __init__(self, asked: Source) -> None:
        self._asked = asked
        self._until_now = False
        self._target: int | None = None  # rows, for AvailableNow
        self._walked: tuple[Offset, list[ledger_table.Mark]] | None = None

    def initialOffset(self) -> Offset:  # noqa: N802 - so Spark calls it
        """Where a new query begins; one that is restarted goes on from its checkpoint."""
        store, start = self._store(), self._asked.start
        if start == "latest":
            return {"cursor": store.ledger_end(), "rows": 0}
        if start != "oldest":
            store.ledger(start, 1)  # refuses a cursor that it never gave, or that was trimmed
            return {"cursor": start, "rows": 0}
        oldest = ledger_table.oldest(store)
        if oldest.after is None:
            return {"cursor": "", "first": oldest.first, "rows": 0}
        return {"cursor": oldest.after, "rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - so Spark calls it
        """So many rows in a micro-batch."""
        return ReadMaxRows(self._asked.max_rows or MAX_ROWS)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - so Spark calls it
        """Go on to what is there now. How far that is, is known once it is known from where."""
        self._until_now = True

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - so Spark calls it
        """Up to where the next micro-batch goes; ``start`` itself if there is nothing new."""
        store, stretch = self._store(), _stretch(start)
        if self._until_now and self._target is None:
            self._target = start["rows"] + sum(mark.rows for mark in ledger_table.marks(store, stretch.after))
        most = ledger_table.UNLIMITED if isinstance(limit, ReadAllAvailable) else _most(limit)
        if self._target is not None:
            most = min(most, self._target - start["rows"])
        found = ledger_table.marks(store, stretch.after, most=most) if most > 0 else []
        if not found:
            return start
        self._walked = (start, found)
        return {"cursor": found[-1].cursor, "rows": start["rows"] + sum(mark.rows for mark in found)}

    def partitions(self, start: Offset, end: Offset) -> list[LedgerPartition]:
        """The stretches of a micro-batch: the same rows in the same order, also when it is planned again."""
        count = end["rows"] - start["rows"]
        if not count:
            return []
        stretch = _stretch(start)
        if self._walked is not None and self._walked[0] == start:
            found = self._walked[1]
        else:
            found = ledger_table.marks(self._store(), stretch.after, most=count)
        if sum(mark.rows for mark in found) != count:
            raise InvalidInput("checkpoint", wanted=f"{count} more rows of the ledger it was made with", got="fewer")
        return [LedgerPartition(piece) for piece in ledger_table.stretches(stretch, found, self._asked.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one stretch, in order."""
        assert isinstance(partition, LedgerPartition)
        return ledger_table.read(self._store(), partition.stretch)

    def _store(self) -> Any:
        return store_of(self._asked.place.url, self._asked.place.space)


def _stretch(offset: Offset) -> ledger_table.Stretch:
    return ledger_table.Stretch(after=offset["cursor"] or None, first=offset.get("first", ""))


def _most(limit: ReadLimit) -> int:
    assert isinstance(limit, ReadMaxRows), limit
    return limit.max_rows
