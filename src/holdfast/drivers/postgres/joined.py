"""Enqueue in the caller's own PostgreSQL transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

from typing import NamedTuple

import psycopg

from holdfast.drivers.caller_connection import Kind, begin, begin_async, kind_of, require_sync
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.postgres.caller_connection import CallerConnection, PsycopgConnection, adapt
from holdfast.drivers.postgres.database import Database
from holdfast.drivers.postgres.enqueue import enqueue_on, enqueue_with
from holdfast.drivers.postgres.errors import translate_error
from holdfast.drivers.requests import Enqueue
from holdfast.errors import InvalidInput
from holdfast.model.lease import Enqueued

# A transaction with one snapshot does not see what was committed after it began: it would store an id or a key again.
SUPPORTED_ISOLATION = ("read committed", "read uncommitted")

# pg_control_system is executable by every role, unless an administrator has revoked that.
_READ_TRANSACTION = """
SELECT current_setting('transaction_isolation'), s.system_identifier, d.oid::bigint, d.datname::text
  FROM pg_control_system() AS s CROSS JOIN pg_database AS d WHERE d.datname = current_database()
"""


class DatabaseIdentity(NamedTuple):
    """Tells databases apart: the number that a server got when it was made, and the database on it.

    The name says which database it is in an error. Physical copies of a server (replicas, restored base backups) have
    the same identity.
    """

    system_identifier: int
    database_oid: int
    name: str


def read_transaction(connection: CallerConnection) -> tuple[str, DatabaseIdentity]:
    """Return the isolation level of the transaction and the database of the connection: a round trip."""
    [(isolation, *identity)] = connection.fetch(_READ_TRANSACTION)
    return isolation, DatabaseIdentity(*identity)


_BEGINNINGS = {
    Kind.ASYNC_PSYCOPG: "async with connection.transaction():",
    Kind.ASYNCPG: "async with connection.transaction():",
    Kind.DJANGO: "with transaction.atomic():",
}


class JoinedTransactions:
    """Enqueues on connections of callers to the same database; never commits.

    psycopg, SQLAlchemy and SQLModel begin a transaction themselves, except in autocommit mode. There, with asyncpg and
    with Django the caller must have begun one, or the job would be committed at once. Each enqueue first reads the
    isolation level and the database of the transaction.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._identity: DatabaseIdentity | None = None

    def enqueue(self, request: Enqueue) -> list[Enqueued]:
        """Store the jobs in the transaction of the caller; durable when the caller commits."""
        on_loop = request.connection if isinstance(request.connection, OnLoop) else None
        given = request.connection if on_loop is None else on_loop.connection
        if on_loop is None:
            require_sync(given)
        if kind_of(given) is None:
            _adapt(given, on_loop)
        own = begin(given) if on_loop is None else on_loop.run(begin_async(given))
        connection = _adapt(own, on_loop)
        try:
            self._check_transaction(connection, kind_of(given))
            if isinstance(connection, PsycopgConnection):
                own_connection = connection.connection
                jobs, writes = request.jobs, request.writes
                return enqueue_on(self._database, own_connection, jobs, writes, request.now, owns_transaction=False)
            return enqueue_with(self._database, connection, request.jobs, request.writes, request.now)
        except psycopg.Error as error:
            raise translate_error(error) from error

    def _check_transaction(self, connection: CallerConnection, kind: Kind | None) -> None:
        """Raise ``InvalidInput`` if a job must not be stored in this transaction. The transaction stays usable."""
        isolation, identity = read_transaction(connection)
        if not connection.is_in_transaction:
            how = "with connection.transaction():" if kind is None else _BEGINNINGS.get(kind, "not AUTOCOMMIT")
            raise InvalidInput(
                "connection",
                wanted=f"one inside a transaction (`{how}`)",
                got="one in autocommit mode outside of any",
            )
        if isolation not in SUPPORTED_ISOLATION:
            raise InvalidInput("connection", wanted="a transaction with READ COMMITTED", got=isolation)
        if identity == self._identity:
            return
        own = self._identity = self._read_identity()  # the store may have moved to another server
        if identity != own:
            raise InvalidInput(
                "connection", wanted=f"one to the same database as the store, {own.name}", got=_describe(identity, own)
            )

    def _read_identity(self) -> DatabaseIdentity:
        """Return which database the store is in."""
        _, identity = self._database.run(
            lambda connection: read_transaction(PsycopgConnection(connection)), is_repeatable=True
        )
        return identity


def _adapt(connection: object, on_loop: OnLoop | None) -> CallerConnection:
    adapted = adapt(connection, on_loop)
    if adapted is None:
        got = type(connection)
        raise InvalidInput(
            "connection",
            wanted="an open psycopg.Connection to the same database, or one of SQLAlchemy, SQLModel or Django on "
            "psycopg; in async code also asyncpg",
            got=got.__name__ if got.__module__ == "builtins" else f"{got.__module__}.{got.__name__}",
        )
    return adapted


def _describe(identity: DatabaseIdentity, own: DatabaseIdentity) -> str:
    is_same_server = identity.system_identifier == own.system_identifier
    return f"{identity.name} on {'the same' if is_same_server else 'another'} server"
