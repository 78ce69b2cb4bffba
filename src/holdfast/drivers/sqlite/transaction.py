"""One verb inside a transaction: the connection, the space with its counters, and the instant that decides."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.clock import hold
from holdfast.drivers.sqlite.statements import sql

Parameters = Mapping[str, object] | tuple[object, ...]


class Transaction:
    """What the functions of the topic modules work with. ``finish`` stores the counter of the space."""

    __slots__ = ("_connection", "_counted", "clock", "counter", "expired", "ledger_trimmed", "now", "space")

    def __init__(
        self, connection: sqlite3.Connection, space: str, *, host_now: int, caller_now: int | None = None
    ) -> None:
        """Begin a verb. The connection is inside a transaction.

        ``now`` is the caller's instant if there is one. Otherwise it is the host's clock, held at the latest instant at
        which any process has granted a lease in this space (L1). See ``hold`` for a clock that is far behind it.
        """
        self._connection = connection
        self.space = space
        row = connection.execute(sql("space/read"), (space,)).fetchone()
        if row is None:
            row = connection.execute(sql("space/read_removed")).fetchone() or (0, 0, 0)
        numbers: tuple[int, int, int] = row
        self.counter, self.clock, self.ledger_trimmed = numbers
        self._counted = False
        self.expired: tuple[int, int] | None = None  # leases that ended as expired: the row before theirs, how many
        if caller_now is None:
            self.now = self.clock = hold(host_now, self.clock)
        else:
            self.now = caller_now

    def next_numbers(self, count: int) -> int:
        """Take ``count`` numbers from the counter of the space and return the first."""
        first = self.counter + 1
        self.counter += count
        self._counted = True
        return first

    def ledger_end(self) -> int:
        """Return the number of the last row that was ever written to the ledger."""
        [last] = self.run("ledger/end", (self.space,)).fetchone()
        return max(self.ledger_trimmed, last or 0)

    def finish(self) -> None:
        """Store the counter with the instant, if numbers were taken."""
        if self._counted:
            self.run("space/write", (self.space, self.counter, self.clock, self.ledger_trimmed))

    def run(self, name: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        """Execute a statement of ``queries/``."""
        return self._connection.execute(sql(name), parameters)

    def execute(self, statement: str, parameters: Parameters) -> sqlite3.Cursor:
        """Execute a statement that names tables of the schema."""
        return self._connection.execute(statement, parameters)

    def run_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Execute the statement once for each row and return how many rows it changed."""
        return self._connection.executemany(sql(name), rows).rowcount
