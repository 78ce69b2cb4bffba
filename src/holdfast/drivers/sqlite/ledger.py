"""Reading and trimming the ledger. A cursor is the number of the last row that was read."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import Any

from holdfast.drivers.answers import Page
from holdfast.drivers.cursors import ledger_position
from holdfast.drivers.packing import read_ledger_row
from holdfast.drivers.sqlite.transaction import Transaction
from holdfast.errors import LedgerTrimmed
from holdfast.model.ledger import LedgerRow


def page(tx: Transaction, after: str | None, limit: int) -> Page[LedgerRow]:
    """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
    rows, cursor = tuples(tx, after, limit)
    return Page([read_ledger_row(row) for row in rows], cursor, [str(row[-1]) for row in rows])


def tuples(tx: Transaction, after: str | None, limit: int) -> tuple[Sequence[Sequence[Any]], str]:
    """Return a page of tuples and its cursor. The last column is the number of the row."""
    position = _position(tx, after)
    rows = tx.run("ledger/page", (tx.space, position, limit)).fetchall()
    return rows, str(rows[-1][-1] if rows else position)


def rows_of_expired(tx: Transaction) -> list[LedgerRow]:
    """Return the rows of the leases that this transaction has ended as expired."""
    if tx.expired is None:
        return []
    first, count = tx.expired
    return [read_ledger_row(row) for row in tx.run("ledger/page", (tx.space, first, count)).fetchall()]


def tail(tx: Transaction, before: str | None, limit: int) -> Page[LedgerRow]:
    """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
    end = tx.ledger_end()
    position = end if before is None else ledger_position(before, end)
    rows = tx.run("ledger/tail", (tx.space, position, limit)).fetchall()[::-1]
    cursor = str(rows[0][-1] - 1) if len(rows) == limit else None
    return Page([read_ledger_row(row) for row in rows], cursor, [str(row[-1]) for row in rows])


def marks(tx: Transaction, after: str | None, every: int, most: int) -> list[tuple[str, int]]:
    """Return cursors that split the next ``most`` rows into ranges of ``every`` rows."""
    position = _position(tx, after)
    found: list[tuple[str, int]] = []
    while most > 0:
        count = min(every, most)
        row = tx.run("ledger/mark", (tx.space, position, count - 1)).fetchone()
        if row is None:
            end, rest = tx.run("ledger/rest", (tx.space, position)).fetchone()
            return [*found, (str(end), rest)] if rest else found
        position = row[0]
        found.append((str(position), count))
        most -= count
    return found


def _position(tx: Transaction, after: str | None) -> int:
    if after is None:
        return tx.ledger_trimmed
    position = ledger_position(after, tx.ledger_end())
    if position < tx.ledger_trimmed:
        raise LedgerTrimmed(after)
    return position


def read_position(tx: Transaction, cursors: Collection[str | None]) -> int | None:
    """Return the number of the last row that all readers at these cursors have read; None without readers."""
    end = tx.ledger_end()
    positions = (0 if cursor is None else ledger_position(cursor, end) for cursor in cursors)
    return max(tx.ledger_trimmed, min(positions)) if cursors else None


def trim(tx: Transaction, before: int, limit: int, *, upto: int | None) -> int:
    """Delete the oldest rows up to the first one that is too new, so that no gap arises; return how many.

    Rows after the number ``upto`` stay.
    """
    parameters = {"space": tx.space, "trimmed": tx.ledger_trimmed, "upto": upto, "limit": limit}
    oldest = tx.run("trim/find_ledger", parameters).fetchall()
    old = [seq for seq, _ in takewhile(lambda row: row[1] <= before, oldest)]
    if old:
        removed = {"space": tx.space, "upto": old[-1]}
        tx.run("trim/delete_ledger", removed)
        tx.run("trim/set_ledger_trimmed", {**removed, "counter": tx.counter})
    return len(old)
