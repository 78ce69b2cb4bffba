"""The connection that a caller passes to ``joined``: of a database driver, or of a library that is built on one.

A library is recognised by the names of its classes, without an import of it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

from holdfast.errors import InvalidInput


class Kind(StrEnum):
    """What a connection is. Any other object is taken as the connection of a synchronous database driver."""

    SQLALCHEMY_SESSION = "a SQLAlchemy Session"
    SQLALCHEMY_CONNECTION = "a SQLAlchemy Connection"
    SQLALCHEMY_ASYNC_SESSION = "a SQLAlchemy AsyncSession"
    SQLALCHEMY_ASYNC_CONNECTION = "a SQLAlchemy AsyncConnection"
    DJANGO = "a connection of Django"
    ASYNC_PSYCOPG = "a psycopg.AsyncConnection"
    ASYNCPG = "an asyncpg connection"


_KINDS = {  # by package and class; SQLModel's sessions are subclasses of those of SQLAlchemy
    ("sqlalchemy", "Session"): Kind.SQLALCHEMY_SESSION,
    ("sqlalchemy", "scoped_session"): Kind.SQLALCHEMY_SESSION,
    ("sqlalchemy", "Connection"): Kind.SQLALCHEMY_CONNECTION,
    ("sqlalchemy", "AsyncSession"): Kind.SQLALCHEMY_ASYNC_SESSION,
    ("sqlalchemy", "async_scoped_session"): Kind.SQLALCHEMY_ASYNC_SESSION,
    ("sqlalchemy", "AsyncConnection"): Kind.SQLALCHEMY_ASYNC_CONNECTION,
    ("django", "BaseDatabaseWrapper"): Kind.DJANGO,
    ("django", "ConnectionProxy"): Kind.DJANGO,  # django.db.connection
    ("psycopg", "AsyncConnection"): Kind.ASYNC_PSYCOPG,
    ("asyncpg", "Connection"): Kind.ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): Kind.ASYNCPG,
}
_ASYNC_KINDS = {
    Kind.SQLALCHEMY_ASYNC_SESSION,
    Kind.SQLALCHEMY_ASYNC_CONNECTION,
    Kind.ASYNC_PSYCOPG,
    Kind.ASYNCPG,
}


def kind_of(connection: object) -> Kind | None:
    """Return what the connection is; None for any other object."""
    for each in type(connection).__mro__:
        kind = _KINDS.get((each.__module__.partition(".")[0], each.__name__))
        if kind is not None:
            return kind
    return None


def is_async(connection: object) -> bool:
    """Whether the connection must be used on its event loop."""
    return kind_of(connection) in _ASYNC_KINDS


def require_sync(connection: object) -> None:
    """Raise ``InvalidInput`` for an async connection."""
    if is_async(connection):
        wanted = "`await task.aenqueue(...)`, or `await AsyncClient.enqueue(...)`, for an async one"
        raise InvalidInput("connection", wanted=wanted, got=str(kind_of(connection)))


def begin(connection: object) -> object:
    """Return the database driver's own connection, inside the transaction that the library will commit.

    A connection of a database driver is returned as it is. Raises ``InvalidInput`` for one that is async.
    """
    require_sync(connection)
    given = cast("Any", connection)
    match kind_of(connection):
        case Kind.SQLALCHEMY_SESSION:
            return given.connection().connection.driver_connection
        case Kind.SQLALCHEMY_CONNECTION:
            if not given.in_transaction():
                given.begin()  # as its first statement would do: otherwise ``commit`` finds nothing to commit
            return given.connection.driver_connection
        case Kind.DJANGO:
            given.ensure_connection()
            return given.connection
        case _:
            return connection


async def begin_async(connection: object) -> object:
    """Return the same as ``begin`` for an async connection. Runs on its event loop."""
    given = cast("Any", connection)
    kind = kind_of(connection)
    if kind is Kind.SQLALCHEMY_ASYNC_SESSION:
        given = await given.connection()
    elif kind is not Kind.SQLALCHEMY_ASYNC_CONNECTION:
        return connection
    if not given.in_transaction():
        await given.begin()
    raw = (await given.get_raw_connection()).driver_connection
    is_in_transaction = getattr(raw, "is_in_transaction", None)
    if is_in_transaction is not None and not is_in_transaction():  # asyncpg: begun with the first statement
        await given.exec_driver_sql("SELECT 1")
    return raw
