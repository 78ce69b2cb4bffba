"""What every verb of the PostgreSQL driver stands on: one space of one database, one round trip per call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg.rows import tuple_row

from holdfast.drivers.contract import Capabilities
from holdfast.drivers.postgres import arrays
from holdfast.drivers.postgres.connections import Connection, Connections, OwnConnection
from holdfast.drivers.postgres.rows import Row
from holdfast.drivers.postgres.statements import Statements
from holdfast.drivers.validation import Validation


class PostgresStore:
    """A database seen by one space."""

    capabilities: Capabilities
    validation: Validation

    def __init__(
        self,
        connections: Connections,
        statements: Statements,
        channel: str | None,
        *,
        caller_clock: bool,
        space: str,
    ) -> None:
        self._connections = connections
        self._statements = statements
        self.space_name = space
        self.channel = channel  # to tell listeners on; None: there are none
        self.caller_clock = caller_clock

    def _read_clock(self) -> int:
        """A round trip: what a function can decide, it decides by itself."""
        [(now,)] = self._query("clock", {})
        return int(now)

    def _function(self, name: str, *arguments: object, again: bool = True) -> list[Row]:
        """Call a function of ``schema/``, which is one transaction. ``again``: it may be carried out twice."""
        return self._connections.call(lambda connection: self.function_on(connection, name, *arguments), again=again)

    def function_on(self, connection: Connection, name: str, *arguments: object) -> list[Row]:
        """The same on a given connection, inside whatever transaction it is in."""
        with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
            if not isinstance(connection, OwnConnection):  # a caller's: it stays as it is, this cursor learns
                arrays.register(cursor.adapters)
            cursor.execute(self._statements.call(name, len(arguments)), arguments, prepare=False, binary=True)
            return cursor.fetchall()

    def copy_statement(self, table: str, columns: Sequence[str]) -> bytes:
        """COPY into these columns of a table, in its binary form."""
        return self._statements.copy(table, columns).encode()

    def _query(self, name: str, parameters: Mapping[str, object]) -> list[Row]:
        """Run a statement of ``queries/``: one that reads, or that may be carried out twice."""
        return self._run(self._statements.query(name), parameters)

    def _run(self, statement: str, parameters: Mapping[str, object]) -> list[Row]:
        return self._connections.call(lambda connection: _rows_of(connection, statement, parameters), again=True)

    def _page(self, statement: str, parameters: Mapping[str, object]) -> list[Row]:
        """The same for a page that an index has in its order: it is read from there, whatever the planner thinks.

        Without statistics it thinks that few rows match, and sorts them: all that are behind the page, for each page.
        """

        def run(connection: Connection) -> list[Row]:
            with connection.transaction():
                connection.execute(_IN_ORDER)
                return _rows_of(connection, statement, parameters)

        return self._connections.call(run, again=True)


_IN_ORDER = b"SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off"


def _rows_of(connection: Connection, statement: str, parameters: Mapping[str, object]) -> list[Row]:
    cursor = connection.execute(statement.encode(), parameters, prepare=False, binary=True)
    return cursor.fetchall() if cursor.description is not None else []
