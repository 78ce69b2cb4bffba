"""One verb inside a transaction: the connection, the space, its counters, and the now that judges it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.drivers.sqlite.statements import sql

Parameters = Mapping[str, object] | tuple[object, ...]


class Call:
    """Made by the driver for every verb that writes; ``finish`` keeps what it counted."""

    __slots__ = ("_connection", "_counted", "clock", "counter", "ledger_trimmed", "now", "space")

    def __init__(self, connection: sqlite3.Connection, space: str) -> None:
        self._connection = connection
        self.space = space
        row: tuple[int, int, int] | None = connection.execute(sql("space_read"), (space,)).fetchone()
        self.counter, self.clock, self.ledger_trimmed = row or (0, 0, 0)
        self.now = 0
        self._counted = False

    def judge(self, host_now: int, given: int | None) -> None:
        """A caller's now is taken as it is; the host's is held at the latest instant any process has leased by (L1)."""
        self.now = max(host_now, self.clock) if given is None else given
        if given is None:
            self.clock = self.now

    def numbers(self, count: int) -> int:
        """Take ``count`` numbers from the space's one counter; gives the first."""
        first = self.counter + 1
        self.counter += count
        self._counted = True
        return first

    def ledger_end(self) -> int:
        """The number of the last row that the ledger has, or had."""
        [last] = self.run("ledger_end", (self.space,)).fetchone()
        return max(self.ledger_trimmed, last or 0)

    def finish(self) -> None:
        """Write the counter back, if it was used, with the instant it was used at."""
        if self._counted:
            self.run("space_write", (self.space, self.counter, self.clock))

    def run(self, name: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        """Execute the statement in ``queries/<name>.sql``."""
        return self._connection.execute(sql(name), parameters)

    def run_many(self, name: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Execute it for every row; gives how many rows were changed."""
        return self._connection.executemany(sql(name), rows).rowcount
