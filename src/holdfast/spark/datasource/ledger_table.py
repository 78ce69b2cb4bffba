"""The ledger as Arrow batches, and its split into ranges for several readers.

A cursor is opaque: two cursors cannot be compared. So a range is a cursor and a number of rows. The order of the ledger
is fixed and no row is ever inserted, so a range has the same rows whenever it is read. Splitting runs on the Spark
driver, ``read`` on executors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pyarrow as pa

from holdfast.drivers.requests import LedgerEnd, LedgerMarks, ReadTuples
from holdfast.drivers.store import Store
from holdfast.errors import LedgerTrimmed
from holdfast.model import bounds
from holdfast.spark.column_schemas import ddl, ledger_fields

SPLIT_ROWS = bounds.MAX_BATCH_ITEMS  # between two split points
BATCH_ROWS = 4000  # larger batches are slower, smaller ones need more calls of the store
UNLIMITED = 2**63 - 1

SCHEMA = pa.schema(ledger_fields())
DDL = ddl(SCHEMA)
_columns_of = attrgetter(*SCHEMA.names)
_identity_columns = [SCHEMA.get_field_index(name) for name in ("job_id", "attempt", "ended_at", "ending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRange:
    """``rows`` rows after a cursor (None: all rows that exist when the range is read).

    A range whose cursor is None begins with the oldest row; ``first`` is the identity of that row, to detect a trim.
    """

    after: str | None
    first: str = ""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """A cursor, and the number of rows between the previous split point and this cursor."""

    cursor: str
    rows: int


def read(store: Store, ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Return the rows of a range in order. Raises ``LedgerTrimmed`` if the store has removed some of them."""
    cursor, left = ledger_range.after, UNLIMITED if ledger_range.rows is None else ledger_range.rows
    first = ledger_range.first
    while left:
        limit = min(left, BATCH_ROWS)
        rows, cursor = _read_page(store, cursor, limit)
        is_other_row = first and (not rows or row_identity(rows[0]) != first)
        if is_other_row or (not rows and ledger_range.rows is not None):
            raise LedgerTrimmed(str(ledger_range.after))
        if not rows:
            return
        first = ""
        left -= len(rows)
        columns = zip(*rows, strict=True)  # lazily: all columns together do not fit the processor's cache
        arrays = [pa.array(column, kind) for kind, column in zip(SCHEMA.types, columns, strict=False)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
        if ledger_range.rows is None and len(rows) < limit:
            return  # the end: without this, a range could grow for as long as jobs end


def _read_page(store: Store, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
    return store.do(ReadTuples(after=after, limit=limit))


def row_identity(row: Sequence[Any]) -> str:
    """Return a text that no other row of the ledger has."""
    return "/".join(str(row[column]) for column in _identity_columns)


def ledger_start(store: Store) -> LedgerRange:
    """Return the whole ledger as a range: from its first row, or from its end if it is empty."""
    end = store.do(LedgerEnd())  # before the read: a row that is written in between must not be skipped
    rows, _ = _read_page(store, None, 1)
    return LedgerRange(after=None, first=row_identity(rows[0])) if rows else LedgerRange(after=end)


def split_points(store: Store, after: str | None, *, most: int = UNLIMITED) -> list[SplitPoint]:
    """Return split points after the cursor, ``SPLIT_ROWS`` rows apart, for ``most`` rows or up to the end."""
    return [SplitPoint(*mark) for mark in store.do(LedgerMarks(after=after, every=SPLIT_ROWS, most=most))]


def split_ledger(start: LedgerRange, points: Sequence[SplitPoint], most: int) -> list[LedgerRange]:
    """Return at most ``most`` ranges of about equal length, from ``start`` to the last split point."""
    size = -(-len(points) // most) or 1
    ranges: list[LedgerRange] = []
    after, first = start.after, start.first
    for begin in range(0, len(points), size):
        part = points[begin : begin + size]
        ranges.append(LedgerRange(after=after, first=first, rows=sum(point.rows for point in part)))
        after, first = part[-1].cursor, ""
    return ranges
