"""Enqueue in the caller's own SQLite transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.drivers.caller_connection import begin, is_async, kind_of
from holdfast.drivers.capabilities import Capabilities
from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.sqlite.database import translate_error
from holdfast.errors import InvalidInput, StoreMoved
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change

# The driver's method
EnqueueOn = Callable[[sqlite3.Connection, Sequence[JobRecord], Sequence[Change], int | None], list[Enqueued]]


class JoinedSqlite(EnqueueOnly):
    """Enqueues on the caller's connection to the same file; never commits.

    Outside of a transaction ``enqueue`` begins one, as sqlite3 itself does before an INSERT. In autocommit mode the
    caller must have begun one: such a caller does not commit, and the job would be rolled back with the connection.
    """

    def __init__(self, enqueue_on: EnqueueOn, capabilities: Capabilities, connection: object, *, path: Path) -> None:
        super().__init__(capabilities)
        self._enqueue_on = enqueue_on
        self._path = path
        self._connection = connection.connection if isinstance(connection, OnLoop) else connection
        if is_async(self._connection):
            raise InvalidInput(
                "connection",
                wanted="a synchronous one: SQLite cannot join the transaction of an async one",
                got=str(kind_of(self._connection)),
            )
        if kind_of(self._connection) is None:
            _check_same_file(self._connection, path)

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order; durable when the caller commits."""
        self._check_replace_dead(replace_dead_before)
        own = _check_same_file(begin(self._connection), self._path)
        if _is_autocommit(own) and not own.in_transaction:
            raise InvalidInput(
                "connection",
                wanted='one inside a transaction (`connection.execute("BEGIN")`)',
                got="one in autocommit mode outside of any",
            )
        with _without_factories(own) as connection:
            return self._enqueue_on(connection, jobs, writes, now)


def _is_autocommit(connection: sqlite3.Connection) -> bool:
    """Whether sqlite3 begins no transaction itself. Python 3.12 added ``autocommit`` beside ``isolation_level``."""
    if getattr(connection, "autocommit", None) in (True, False):
        return bool(connection.autocommit)  # type: ignore[attr-defined]
    return connection.isolation_level is None


@contextmanager
def _without_factories(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Set the caller's row and text factories aside while we use the connection, and translate SQLite's errors."""
    factories = connection.row_factory, connection.text_factory
    connection.row_factory, connection.text_factory = None, str
    try:
        yield connection
    except sqlite3.Error as error:
        raise translate_error(error) from error
    finally:
        connection.row_factory, connection.text_factory = factories


def _check_same_file(connection: object, path: Path) -> sqlite3.Connection:
    wanted = f"an open sqlite3.Connection to {path}, or one of SQLAlchemy, SQLModel or Django"
    if not isinstance(connection, sqlite3.Connection):
        raise InvalidInput("connection", wanted=wanted, got=type(connection).__name__)
    with _without_factories(connection):
        [main] = (file for _, name, file in connection.execute("PRAGMA database_list") if name == "main")
    try:
        is_same = bool(main) and path.samefile(main)
    except FileNotFoundError as error:
        raise StoreMoved(str(path)) from error
    if not is_same:
        raise InvalidInput("connection", wanted=wanted, got=f"one to {main or 'a database in memory'}")
    return connection
