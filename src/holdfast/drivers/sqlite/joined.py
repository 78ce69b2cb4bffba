"""Enqueue in the caller's own SQLite transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.drivers.caller_connection import begin, is_async, kind_of
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.sqlite.database import translate_error
from holdfast.errors import InvalidInput, StoreMoved


@contextmanager
def caller_transaction(connection: object, path: Path) -> Iterator[sqlite3.Connection]:
    """Use the caller's connection to the same file, which may be one of a library.

    Outside of a transaction an enqueue begins one, as sqlite3 itself does before an INSERT. In autocommit mode the
    caller must have begun one: such a caller does not commit, and the job would be rolled back with the connection.
    """
    given = connection.connection if isinstance(connection, OnLoop) else connection
    if is_async(given):
        wanted = "a synchronous one: SQLite cannot join the transaction of an async one"
        raise InvalidInput("connection", wanted=wanted, got=str(kind_of(given)))
    if kind_of(given) is None:
        _check_same_file(given, path)
    own = _check_same_file(begin(given), path)
    if _is_autocommit(own) and not own.in_transaction:
        raise InvalidInput(
            "connection",
            wanted='one inside a transaction (`connection.execute("BEGIN")`)',
            got="one in autocommit mode outside of any",
        )
    with _without_factories(own) as joined:
        yield joined


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
