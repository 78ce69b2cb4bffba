"""Enqueue in the caller's own PostgreSQL transaction: the job exists if, and only if, the caller commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.drivers.contract import Capabilities
from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.errors import translate_error
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued


class EnqueueOn(Protocol):
    """``PostgresDriver.enqueue_on``: enqueue inside the transaction of a connection."""

    def __call__(self, connection: Connection, jobs: Sequence[JobRecord], *, now: int | None) -> list[Enqueued]:
        """See ``PostgresDriver.enqueue_on``."""


class JoinedPostgres(EnqueueOnly):
    """Enqueues on the caller's connection to the same database; never commits.

    psycopg begins a transaction itself, except in autocommit mode. There the caller must have begun one, or the job
    would be committed at once.
    """

    def __init__(self, enqueue_on: EnqueueOn, capabilities: Capabilities, connection: object) -> None:
        super().__init__(capabilities)
        if not isinstance(connection, psycopg.Connection):
            raise InvalidInput(
                "connection", wanted="an open psycopg.Connection to the same database", got=type(connection).__name__
            )
        self._enqueue_on = enqueue_on
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
            return self._enqueue_on(self._connection, jobs, now=now)
        except psycopg.Error as error:
            raise translate_error(error) from error
