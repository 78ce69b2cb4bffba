"""Enqueue in the caller's own SQLite transaction: the job exists if, and only if, the caller's rows do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.sqlite.database import translated
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
        with _plain(self._connection) as connection:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            return self._store.call_on(connection, lambda call: enqueue(call, jobs), now)


@contextmanager
def _plain(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The connection without the caller's factories, and with our errors, for as long as we use it."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield connection
    except sqlite3.Error as error:
        raise translated(error) from error
    finally:
        connection.row_factory, connection.text_factory = factories


def _same_file(connection: object, path: Path) -> sqlite3.Connection:
    wanted = f"an open sqlite3.Connection to {path}"
    if not isinstance(connection, sqlite3.Connection):
        raise InvalidInput("connection", wanted=wanted, got=type(connection).__name__)
    with _plain(connection):
        [main] = (file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
    if not main or not path.samefile(main):
        raise InvalidInput("connection", wanted=wanted, got=f"one to {main or 'a database in memory'}")
    return connection
