"""Enqueue in the caller's own PostgreSQL transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import psycopg

from holdfast.drivers.caller_connection import Kind, begin, begin_async, kind_of, require_sync
from holdfast.drivers.capabilities import Capabilities
from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.on_loop import OnLoop
from holdfast.drivers.postgres.caller_connection import CallerConnection, PsycopgConnection, adapt
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.errors import translate_error
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change

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


class JoinTarget(Protocol):
    """The driver that is joined: ``PostgresDriver``."""

    capabilities: Capabilities

    def enqueue_on(
        self, connection: Connection, jobs: Sequence[JobRecord], writes: Sequence[Change], *, now: int | None
    ) -> list[Enqueued]:
        """Enqueue inside the transaction of a connection that the caller commits, or rolls back."""

    def enqueue_with(
        self, caller: CallerConnection, jobs: Sequence[JobRecord], writes: Sequence[Change], *, now: int | None
    ) -> list[Enqueued]:
        """Enqueue inside the transaction of a connection that is not one of psycopg, or is async."""

    def read_identity(self, *, refresh: bool = False) -> DatabaseIdentity:
        """Return which database this store is in; remembered, unless ``refresh``."""


class JoinedPostgres(EnqueueOnly):
    """Enqueues on the caller's connection to the same database; never commits.

    psycopg, SQLAlchemy and SQLModel begin a transaction themselves, except in autocommit mode. There, with asyncpg and
    with Django the caller must have begun one, or the job would be committed at once. Each enqueue first reads the
    isolation level and the database of the transaction.
    """

    def __init__(self, target: JoinTarget, connection: object) -> None:
        super().__init__(target.capabilities)
        self._target = target
        self._on_loop = connection if isinstance(connection, OnLoop) else None
        self._connection = connection.connection if isinstance(connection, OnLoop) else connection
        if self._on_loop is None:
            require_sync(self._connection)
        if kind_of(self._connection) is None:
            self._adapt(self._connection)

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
        if self._on_loop is None:
            connection = self._adapt(begin(self._connection))
        else:
            connection = self._adapt(self._on_loop.run(begin_async(self._connection)))
        try:
            self._check_transaction(connection)
            if isinstance(connection, PsycopgConnection):
                return self._target.enqueue_on(connection.connection, jobs, writes, now=now)
            return self._target.enqueue_with(connection, jobs, writes, now=now)
        except psycopg.Error as error:
            raise translate_error(error) from error

    def _adapt(self, connection: object) -> CallerConnection:
        adapted = adapt(connection, self._on_loop)
        if adapted is None:
            got = type(connection)
            raise InvalidInput(
                "connection",
                wanted="an open psycopg.Connection to the same database, or one of SQLAlchemy, SQLModel or Django on "
                "psycopg; in async code also asyncpg",
                got=got.__name__ if got.__module__ == "builtins" else f"{got.__module__}.{got.__name__}",
            )
        return adapted

    def _check_transaction(self, connection: CallerConnection) -> None:
        """Raise ``InvalidInput`` if a job must not be stored in this transaction. The transaction stays usable."""
        isolation, identity = read_transaction(connection)
        if not connection.is_in_transaction:
            kind = kind_of(self._connection)
            how = "with connection.transaction():" if kind is None else _BEGINNINGS.get(kind, "not AUTOCOMMIT")
            raise InvalidInput(
                "connection",
                wanted=f"one inside a transaction (`{how}`)",
                got="one in autocommit mode outside of any",
            )
        if isolation not in SUPPORTED_ISOLATION:
            raise InvalidInput("connection", wanted="a transaction with READ COMMITTED", got=isolation)
        if identity == self._target.read_identity():
            return
        own = self._target.read_identity(refresh=True)  # the store may have moved to another server
        if identity != own:
            raise InvalidInput(
                "connection", wanted=f"one to the same database as the store, {own.name}", got=_describe(identity, own)
            )


def _describe(identity: DatabaseIdentity, own: DatabaseIdentity) -> str:
    is_same_server = identity.system_identifier == own.system_identifier
    return f"{identity.name} on {'the same' if is_same_server else 'another'} server"
