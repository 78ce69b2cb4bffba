"""Enqueue in the caller's own PostgreSQL transaction: the job exists if, and only if, the caller's rows do."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg.pq import TransactionStatus

from holdfast.drivers.enqueue_only import EnqueueOnly
from holdfast.drivers.postgres.enqueue import enqueue_on
from holdfast.drivers.postgres.failures import translated
from holdfast.drivers.postgres.store import PostgresStore
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued


class JoinedPostgres(EnqueueOnly):
    """Uses the caller's connection to the same database, and never commits.

    psycopg begins a transaction by itself, unless the connection is in autocommit mode: then the caller must have begun
    one, or the job would be committed at once.
    """

    def __init__(self, store: PostgresStore, connection: object) -> None:
        super().__init__(store.capabilities)
        if not isinstance(connection, psycopg.Connection):
            raise InvalidInput(
                "connection", wanted="an open psycopg.Connection to the same database", got=type(connection).__name__
            )
        self._store = store
        self._connection = connection

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``; durable when the caller commits."""
        self._store.validation.check_enqueue(jobs)
        given = self._store.validation.caller_now(now)
        if self._connection.autocommit and self._connection.info.transaction_status == TransactionStatus.IDLE:
            raise InvalidInput(
                "connection",
                wanted="one inside a transaction (`with connection.transaction():`)",
                got="one in autocommit mode outside of any",
            )
        if not jobs:
            return []
        try:
            return enqueue_on(self._store, self._connection, jobs, given, alone=False)
        except psycopg.Error as error:
            raise translated(error) from error
