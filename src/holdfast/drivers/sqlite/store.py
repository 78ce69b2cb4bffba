"""What every verb of the SQLite driver stands on: one space of one database, and calls inside its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.drivers.sqlite.call import Call
from holdfast.drivers.sqlite.database import Database
from holdfast.drivers.validation import Validation

T = TypeVar("T")


class SqliteStore(Validation):
    """A database seen by one space."""

    def __init__(self, database: Database, *, clock: Clock, caller_clock: bool, space: str) -> None:
        self._database = database
        self._clock = clock
        self._space = space
        self.caller_clock = caller_clock

    def _read_clock(self) -> int:
        return self._clock.now()

    @property
    def path(self) -> Path:
        """The database file."""
        return self._database.path

    def check_room(self) -> None:
        """See ``Database.check_room``."""
        self._database.check_room()

    def _write(self, work: Callable[[Call], T], now: int | None = None) -> T:
        """Run ``work`` as one call in a write transaction; durable when it returns."""
        self.now(now)  # refused here, before it could spoil a transaction that others share
        return self._database.write(lambda connection: self.call_on(connection, work, now))

    def _read(self, work: Callable[[Call], T], now: int | None = None) -> T:
        """Run ``work`` on a snapshot that no writer disturbs."""
        self.now(now)
        with self._database.reading() as connection:
            return self.call_on(connection, work, now)

    def call_on(self, connection: sqlite3.Connection, work: Callable[[Call], T], now: int | None) -> T:
        """Run ``work`` as one call on a connection that is inside a transaction."""
        call = Call(connection, self._space)
        call.judge(self._read_clock(), now)
        answer = work(call)
        call.finish()
        return answer
