"""The ledger: a list of rows. A cursor is the number of rows before it, counted from the first row ever written."""

from __future__ import annotations

from collections.abc import Collection

from holdfast.drivers.answers import Page
from holdfast.drivers.cursors import ledger_position
from holdfast.errors import LedgerTrimmed
from holdfast.model.ledger import LedgerRow


class Ledger:
    """The ledger of one space."""

    def __init__(self) -> None:
        self.rows: list[LedgerRow] = []
        self.trimmed = 0  # rows that were removed from the front

    def append(self, row: LedgerRow) -> None:
        """Write a row."""
        self.rows.append(row)

    def end(self) -> int:
        """Return the number of rows ever written."""
        return self.trimmed + len(self.rows)

    def rows_after(self, position: int) -> list[LedgerRow]:
        """Return the rows after the first ``position`` rows ever written."""
        return self.rows[max(0, position - self.trimmed) :]

    def page(self, after: str | None, limit: int) -> Page[LedgerRow]:
        """Return a page of the ledger, in an order that is fixed and has no gaps (L13)."""
        position = self.trimmed if after is None else ledger_position(after, self.end())
        if position < self.trimmed:
            raise LedgerTrimmed(str(after))
        start = position - self.trimmed
        rows = self.rows[start : start + limit]
        return Page(rows, str(position + len(rows)), _cursors(position, len(rows)))

    def tail(self, before: str | None, limit: int) -> Page[LedgerRow]:
        """Return the last ``limit`` rows up to the cursor ``before``, in the order of the ledger; None is the end."""
        position = self.end() if before is None else ledger_position(before, self.end())
        rows = self.rows[: max(0, position - self.trimmed)][-limit:]
        cursor = str(position - limit) if len(rows) == limit else None
        return Page(rows, cursor, _cursors(max(self.trimmed, position) - len(rows), len(rows)))

    def unread(self, cursors: Collection[str | None]) -> list[LedgerRow]:
        """Return the rows that a reader at one of these cursors has not read; None has read no row."""
        positions = (self.trimmed if cursor is None else ledger_position(cursor, self.end()) for cursor in cursors)
        return self.rows[max(0, min(positions, default=self.end()) - self.trimmed) :]

    def trim(self, before: int, limit: int) -> int:
        """Remove the oldest rows up to the first one that is too new, so that no gap arises; return how many."""
        count = 0
        while count < min(limit, len(self.rows)) and self.rows[count].ended_at <= before:
            count += 1
        del self.rows[:count]
        self.trimmed += count
        return count

    def remove(self, limit: int) -> int:
        """Remove the oldest rows, whatever their age; return how many. The numbers of later rows continue."""
        count = min(limit, len(self.rows))
        del self.rows[:count]
        self.trimmed += count
        return count


def _cursors(position: int, rows: int) -> list[str]:
    """Return the cursors of rows that begin at a position."""
    return [str(number) for number in range(position + 1, position + rows + 1)]
