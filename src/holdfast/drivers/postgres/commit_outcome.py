"""Transactions that take effect once, although the answer to their commit may be lost.

Most verbs are repeated when their answer is lost. A call that expects versions must not be: the second time, its own
writes would refuse it. Here the number of the transaction is known before its commit, and the server says what became
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

import psycopg

from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.database import Database

T = TypeVar("T")


def run_once(database: Database, work: Callable[[Connection], T]) -> T:
    """Run ``work`` in a transaction, commit it, and return its answer: two round trips.

    A connection that is lost before the commit has changed nothing, and the call is repeated. After a loss during the
    commit, the server is asked about the transaction, and the call is repeated only if it was not committed. Raises
    ``StoreUnavailable`` if the server cannot say so within the patience of the pool.
    """
    unanswered: tuple[str, T] | None = None  # the transaction whose commit may have been sent, and its answer

    def run(connection: Connection) -> T:
        nonlocal unanswered
        if unanswered is not None and _is_committed(connection, unanswered[0]):
            return unanswered[1]
        unanswered = None
        with connection.pipeline() if psycopg.Pipeline.is_supported() else nullcontext():
            connection.execute("BEGIN")
            number = connection.execute("SELECT pg_current_xact_id()::text")
            answer = work(connection)
            [(transaction,)] = number.fetchall()
            unanswered = transaction, answer
            connection.execute("COMMIT")
        return answer

    return database.run(run, is_repeatable=True)


def _is_committed(connection: Connection, transaction: str) -> bool:
    """Return what became of a transaction. While that is not decided, raise an error that makes the pool try again."""
    [(status,)] = connection.execute("SELECT pg_xact_status(%s::xid8)", [transaction]).fetchall()
    if status not in {"committed", "aborted"}:
        raise psycopg.OperationalError(f"it does not say yet whether transaction {transaction} was committed")
    return bool(status == "committed")
