"""The ledger as Arrow: its columns, and the marks by which many readers share it.

A cursor is opaque: two of them cannot be compared. So a stretch of the ledger is a cursor and a number of rows: the
order is fixed and nothing is ever inserted, which makes that exact, today and when it is read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import pyarrow as pa

from holdfast.drivers.contract import LedgerScan, Store
from holdfast.errors import LedgerTrimmed
from holdfast.model import bounds
from holdfast.model.ledger import LedgerRow

PAGE = bounds.MAX_BATCH_ITEMS  # rows between two marks
ROWS = 4000  # in a batch: more are slower, and fewer cost more questions
UNLIMITED = 2**63 - 1

_INSTANT = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("job_id", pa.string()),
        ("type", pa.string()),
        ("queue", pa.string()),
        ("domain", pa.string()),
        ("offset", pa.int64()),
        ("attempt", pa.int32()),
        ("fence", pa.int64()),
        ("worker", pa.string()),
        ("enqueued_at", _INSTANT),
        ("available_at", _INSTANT),
        ("reserved_at", _INSTANT),
        ("started_at", _INSTANT),
        ("ended_at", _INSTANT),
        ("ending", pa.string()),
        ("state", pa.string()),
        ("detail", pa.string()),
        ("error", pa.string()),
    ]
)
assert SCHEMA.names == [field.name for field in fields(LedgerRow)]
_fields = attrgetter(*SCHEMA.names)
DDL = (
    "job_id string, type string, queue string, domain string, offset bigint, attempt int, fence bigint, worker string, "
    "enqueued_at timestamp, available_at timestamp, reserved_at timestamp, started_at timestamp, ended_at timestamp, "
    "ending string, state string, detail string, error string"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """``rows`` rows (None: all there are) behind a cursor; None begins with the oldest, which is ``first``."""

    after: str | None
    first: str = ""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the ledger: the cursor, and how many rows behind the mark before."""

    cursor: str
    rows: int


def read(store: Store, stretch: Stretch) -> Iterator[pa.RecordBatch]:
    """The rows of a stretch in order. Raises ``LedgerTrimmed`` if retention was there before."""
    cursor, left = stretch.after, UNLIMITED if stretch.rows is None else stretch.rows
    first = stretch.first
    while left:
        rows, cursor = _page(store, cursor, min(left, ROWS))
        if (first and (not rows or name_of(rows[0]) != first)) or (not rows and stretch.rows is not None):
            raise LedgerTrimmed(str(stretch.after))
        if not rows:
            return
        first = ""
        left -= len(rows)
        columns = zip(*rows, strict=True)  # one at a time: all together are too large for a processor's cache
        arrays = [pa.array(column, kind) for kind, column in zip(SCHEMA.types, columns, strict=False)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _page(store: Store, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
    if isinstance(store, LedgerScan):
        return store.ledger_tuples(after, limit)
    page = store.ledger(after, limit)
    assert page.cursor is not None
    return [_fields(row) for row in page.items], page.cursor


def name_of(row: Sequence[Any]) -> str:
    """What tells a row from any other that could stand in its place."""
    found = dict(zip(SCHEMA.names, row, strict=False))
    return f"{found['job_id']}/{found['attempt']}/{found['ended_at']}/{found['ending']}"


def oldest(store: Store) -> Stretch:
    """The beginning: a cursor if the ledger is empty, else the name of its first row, by which a trim is noticed."""
    end = store.ledger_end()  # first: a row that comes in between must not be skipped
    rows, _ = _page(store, None, 1)
    return Stretch(after=None, first=name_of(rows[0])) if rows else Stretch(after=end)


def marks(store: Store, after: str | None, *, most: int = UNLIMITED) -> list[Mark]:
    """Marks behind ``after``, a page apart, up to ``most`` rows on or to the end."""
    found: list[Mark] = []
    left = most
    if isinstance(store, LedgerScan):
        for cursor, rows in store.ledger_marks(after, every=PAGE, most=most):
            found.append(Mark(cursor, rows))
        return found
    while left:
        asked = min(left, PAGE)
        page = store.ledger(after, asked)
        if page.items:
            assert page.cursor is not None
            found.append(Mark(page.cursor, len(page.items)))
            after, left = page.cursor, left - len(page.items)
        if len(page.items) < asked:
            break
    return found


def stretches(start: Stretch, found: Sequence[Mark], pieces: int) -> list[Stretch]:
    """The marks as at most so many stretches, about equally long."""
    size = -(-len(found) // pieces) or 1
    made: list[Stretch] = []
    after, first = start.after, start.first
    for place in range(0, len(found), size):
        piece = found[place : place + size]
        made.append(Stretch(after=after, first=first, rows=sum(mark.rows for mark in piece)))
        after, first = piece[-1].cursor, ""
    return made
