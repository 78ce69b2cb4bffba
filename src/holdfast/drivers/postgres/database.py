"""One space of one database: calls of functions and queries, with the retries of the connection pool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar, cast

import psycopg
from psycopg.rows import tuple_row

from holdfast.drivers.packing import Row
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.connections import Connection, ConnectionPool, OwnConnection
from holdfast.drivers.postgres.statements import Statements
from holdfast.drivers.postgres.timing import PostgresTiming

T = TypeVar("T")
Execute = Callable[[str, Mapping[str, object]], list[Row]]  # runs a statement with its named parameters

_ONE_SNAPSHOT = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
INDEX_ORDER = """
SELECT set_config(name, 'off', true) FROM unnest(ARRAY['enable_seqscan', 'enable_bitmapscan', 'enable_sort']) AS name
"""  # until the end of the transaction


class Database:
    """A database as one space sees it. ``channel`` is where listeners are notified; None if there are none."""

    def __init__(
        self, pool: ConnectionPool, statements: Statements, *, space: str, channel: str | None, timing: PostgresTiming
    ) -> None:
        self.pool = pool
        self.statements = statements
        self.space = space
        self.channel = channel
        self.timing = timing

    def with_space(self, space: str) -> Database:
        """Return the same database as another space sees it."""
        return Database(self.pool, self.statements, space=space, channel=self.channel, timing=self.timing)

    def now(self) -> int:
        """Return the clock of the server: a round trip."""
        [(now,)] = self.run(lambda connection: self._call_on(connection, "effective_now", None), is_repeatable=True)
        return int(now)

    def call(self, function: str, *arguments: object, is_repeatable: bool = True, with_xid: bool = False) -> list[Row]:
        """Call a function of ``functions/`` for this space, in its own transaction.

        ``is_repeatable``: the call may be carried out twice, so it is repeated when its reply is lost. ``with_xid``:
        every row has the number of the transaction as its last column, None if the call wrote nothing.
        """
        return self.run(
            lambda connection: self.call_once(connection, function, *arguments, with_xid=with_xid),
            is_repeatable=is_repeatable,
        )

    def call_store(self, function: str, *arguments: object) -> list[Row]:
        """Call a function that reads all spaces."""
        return self.run(lambda connection: self._call_on(connection, function, *arguments), is_repeatable=True)

    def call_once(self, connection: Connection, function: str, *arguments: object, with_xid: bool = False) -> list[Row]:
        """Call a function on a connection of the pool, which is not inside a transaction.

        A job that stands in ``jobs`` and in ``ended`` must not fail the batch that ends it (L5).
        Handled here and not by ``ON CONFLICT``, which makes every ack slower by an eighth.

        Nor must a job whose offset another transaction has stored meanwhile fail the batch that requeues it: the second
        call sees the offset.
        """
        try:
            return self.call_on(connection, function, *arguments, with_xid=with_xid)
        except psycopg.errors.UniqueViolation as error:
            if error.diag.table_name not in {"ended", "jobs"}:
                raise
            has_repeated_endings = error.diag.table_name == "ended"
        if has_repeated_endings:
            self.call_on(connection, "remove_repeated_endings")
        return self.call_on(connection, function, *arguments, with_xid=with_xid)

    def call_on(self, connection: Connection, function: str, *arguments: object, with_xid: bool = False) -> list[Row]:
        """Call a function for this space on a given connection, inside its transaction if there is one."""
        return self._call_on(connection, function, self.space, *arguments, with_xid=with_xid)

    def call_value_on(self, connection: Connection, function: str, *arguments: object) -> Row:
        """Call a function that returns one small record, like ``call_on``.

        The statement is prepared where that is safe: it saves a twelfth of the time of a small call. A call with a
        batch would not notice.
        """
        statement = self.statements.call_value(function, len(arguments) + 1)
        if isinstance(connection, OwnConnection):
            cursor, prepare = connection.value_cursor, connection.has_own_session
        else:
            cursor, prepare = psycopg.RawCursor(connection, row_factory=tuple_row), False
        cursor.execute(statement, (self.space, *arguments), prepare=prepare, binary=True)
        [(value,)] = cursor.fetchall()
        return cast("Row", value)

    def _call_on(self, connection: Connection, function: str, *arguments: object, with_xid: bool = False) -> list[Row]:
        build = self.statements.call_with_xid if with_xid else self.statements.call
        with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
            if not isinstance(connection, OwnConnection):  # the caller's connection stays as it is
                arrays.register(cursor.adapters)
            cursor.execute(build(function, len(arguments)), arguments, prepare=False, binary=True)
            return cursor.fetchall()

    def query(self, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a statement of ``queries/``, which must be repeatable. It gets the space as a parameter."""
        statement = self.statements.query(name)
        return self.run(lambda connection: self._execute(connection, statement, parameters), is_repeatable=True)

    def query_on(self, connection: Connection, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a statement of ``queries/`` on a given connection, inside its transaction."""
        return self._execute(connection, self.statements.query(name), parameters)

    def query_page(self, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a query that reads a page in the order of an index; see ``run_page``."""
        return self.run_page(self.statements.query(name), parameters)

    def run_page(self, statement: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a statement that reads a page in the order of an index, and make the planner use that index.

        Without statistics the planner expects few matching rows and sorts them: for every page it would read and sort
        all rows after the page.
        """
        return self.run_in_index_order(lambda execute: execute(statement, parameters))

    def run_in_index_order(self, work: Callable[[Execute], T]) -> T:
        """Run statements that only read, with the settings of ``run_page`` and all on one snapshot."""

        def run(execute: Execute) -> T:
            execute(INDEX_ORDER, {})
            return work(execute)

        return self.run_in_snapshot(run)

    def run_in_snapshot(self, work: Callable[[Execute], T]) -> T:
        """Run statements that only read; all of them see the same rows."""

        def run(connection: Connection) -> T:
            with connection.transaction():
                connection.execute(_ONE_SNAPSHOT)
                return work(lambda statement, parameters: self._execute(connection, statement, parameters))

        return self.run(run, is_repeatable=True)

    def _execute(self, connection: Connection, statement: str, parameters: Mapping[str, object]) -> list[Row]:
        cursor = connection.execute(statement.encode(), {"space": self.space, **parameters}, prepare=False, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    def run(self, work: Callable[[Connection], T], *, is_repeatable: bool) -> T:
        """Run ``work`` on a connection of the pool; see ``ConnectionPool.run``."""
        return self.pool.run(work, is_repeatable=is_repeatable)
