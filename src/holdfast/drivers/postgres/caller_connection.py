"""The caller's connection, of any supported database driver, behind one interface: a statement and its rows."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.drivers.caller_connection import Kind, kind_of
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.packing import Row
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.arrays import Array
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.errors import translate_error


class CallerConnection(Protocol):
    """Runs statements with numbered parameters (``$1``) in the caller's transaction."""

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction is open, in which a statement has run."""

    def fetch(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run the statement, and return its rows."""


class PsycopgConnection:
    """A ``psycopg.Connection``; jobs are sent by ``enqueue_on``, which can also use COPY."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of the caller is open."""
        return _is_in_transaction(self.connection)

    def fetch(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run the statement in the caller's transaction, and return its rows."""
        with psycopg.RawCursor(self.connection, row_factory=tuple_row) as cursor:
            return cursor.execute(statement.encode(), parameters, prepare=False, binary=True).fetchall()


class AsyncPsycopgConnection:
    """A ``psycopg.AsyncConnection``. Its adapters and row factory stay as they are."""

    def __init__(self, connection: psycopg.AsyncConnection[Any], on_loop: OnLoop) -> None:
        self._connection = connection
        self._on_loop = on_loop

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of the caller is open."""
        return _is_in_transaction(self._connection)

    def fetch(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run the statement in the caller's transaction, and return its rows."""
        return self._on_loop.run(self._fetch(statement, parameters))

    async def _fetch(self, statement: str, parameters: Sequence[object]) -> list[Row]:
        async with psycopg.AsyncRawCursor(self._connection, row_factory=tuple_row) as cursor:
            arrays.register(cursor.adapters)
            await cursor.execute(statement.encode(), parameters, prepare=False, binary=True)
            return await cursor.fetchall()


class AsyncpgConnection:
    """A connection of asyncpg, which packs arrays itself, from lists."""

    def __init__(self, connection: Any, on_loop: OnLoop) -> None:
        self._connection = connection
        self._on_loop = on_loop

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of the caller is open."""
        return bool(self._connection.is_in_transaction())

    def fetch(self, statement: str, parameters: Sequence[object] = ()) -> list[Row]:
        """Run the statement in the caller's transaction, and return its rows."""
        return self._on_loop.run(self._fetch(statement, parameters))

    async def _fetch(self, statement: str, parameters: Sequence[object]) -> list[Row]:
        asyncpg: Any = sys.modules["asyncpg"]  # the connection comes from it
        unpacked = [arrays.unpack(one) if isinstance(one, Array) else one for one in parameters]
        try:
            rows = await self._connection.fetch(statement, *unpacked, record_class=asyncpg.Record)
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise translate_error(error) from error
        return [tuple(row) for row in rows]


def adapt(connection: object, on_loop: OnLoop | None) -> CallerConnection | None:
    """Return the interface to the connection of a database driver; None if the driver is not supported.

    ``on_loop`` is None for a synchronous caller, whom an async connection does not serve.
    """
    if isinstance(connection, psycopg.Connection):
        return PsycopgConnection(connection)
    if on_loop is None:
        return None
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopgConnection(connection, on_loop)
    return AsyncpgConnection(connection, on_loop) if kind_of(connection) is Kind.ASYNCPG else None


def _is_in_transaction(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status != TransactionStatus.IDLE
