"""Enqueue in the caller's own SQLite transaction: the job exists if, and only if, the caller's rows do."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from holdfast.drivers.joined import EnqueueOnly
from holdfast.drivers.sqlite.enqueue import enqueue
from holdfast.drivers.sqlite.store import SqliteStore
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued


class JoinedSqlite(EnqueueOnly):
    """Uses the caller's connection to the same file; begins a transaction if there is none, and never commits."""

    def __init__(self, store: SqliteStore, connection: object) -> None:
        super().__init__(store.capabilities)
        self._store = store
        self._connection = _same_file(connection, store.path)

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``; durable when the caller commits."""
        self._store.check_enqueue(jobs)
        self._store.check_room()
        self._store.now(now)
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        plain, self._connection.row_factory = self._connection.row_factory, None
        try:
            return self._store.call_on(self._connection, lambda call: enqueue(call, jobs), now)
        finally:
            self._connection.row_factory = plain


def _same_file(connection: object, path: Path) -> sqlite3.Connection:
    wanted = f"an open sqlite3.Connection to {path}"
    if not isinstance(connection, sqlite3.Connection):
        raise InvalidInput("connection", wanted=wanted, got=type(connection).__name__)
    [main] = (file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
    if not main or not path.samefile(main):
        raise InvalidInput("connection", wanted=wanted, got=f"one to {main or 'a database in memory'}")
    return connection
