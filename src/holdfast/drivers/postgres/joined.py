"""Enqueue in the caller's own PostgreSQL transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from holdfast.drivers.contract import Capabilities
from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.errors import translate_error
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
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


def read_transaction(connection: Connection) -> tuple[str, DatabaseIdentity]:
    """Return the isolation level of the transaction and the database of the connection: a round trip."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        [(isolation, *identity)] = cursor.execute(_READ_TRANSACTION, prepare=False).fetchall()
    return isolation, DatabaseIdentity(*identity)


class EnqueueOn(Protocol):
    """``PostgresDriver.enqueue_on``: enqueue inside the transaction of a connection."""

    def __call__(self, connection: Connection, jobs: Sequence[JobRecord], *, now: int | None) -> list[Enqueued]:
        """See ``PostgresDriver.enqueue_on``."""


class ReadIdentity(Protocol):
    """``PostgresDriver.read_identity``: return the database of the store, as remembered or as it is now."""

    def __call__(self, *, refresh: bool = False) -> DatabaseIdentity:
        """See ``PostgresDriver.read_identity``."""


class JoinedPostgres(EnqueueOnly):
    """Enqueues on the caller's connection to the same database; never commits.

    psycopg begins a transaction itself, except in autocommit mode. There the caller must have begun one, or the job
    would be committed at once. Each enqueue first reads the isolation level and the database of the transaction.
    """

    def __init__(
        self,
        enqueue_on: EnqueueOn,
        read_identity: ReadIdentity,
        capabilities: Capabilities,
        connection: object,
    ) -> None:
        super().__init__(capabilities)
        if not isinstance(connection, psycopg.Connection):
            raise InvalidInput(
                "connection", wanted="an open psycopg.Connection to the same database", got=type(connection).__name__
            )
        self._enqueue_on = enqueue_on
        self._read_identity = read_identity
        self._connection = connection

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``; durable when the caller commits."""
        if self._connection.autocommit and self._connection.info.transaction_status == TransactionStatus.IDLE:
            raise InvalidInput(
                "connection",
                wanted="one inside a transaction (`with connection.transaction():`)",
                got="one in autocommit mode outside of any",
            )
        try:
            self._check_transaction()
            return self._enqueue_on(self._connection, jobs, now=now)
        except psycopg.Error as error:
            raise translate_error(error) from error

    def _check_transaction(self) -> None:
        """Raise ``InvalidInput`` if a job must not be stored in this transaction. The transaction stays usable."""
        isolation, identity = read_transaction(self._connection)
        if isolation not in SUPPORTED_ISOLATION:
            raise InvalidInput("connection", wanted="a transaction with READ COMMITTED", got=isolation)
        if identity == self._read_identity():
            return
        own = self._read_identity(refresh=True)  # the store may have moved to another server
        if identity != own:
            raise InvalidInput(
                "connection", wanted=f"one to the same database as the store, {own.name}", got=_describe(identity, own)
            )


def _describe(identity: DatabaseIdentity, own: DatabaseIdentity) -> str:
    is_same_server = identity.system_identifier == own.system_identifier
    return f"{identity.name} on {'the same' if is_same_server else 'another'} server"
