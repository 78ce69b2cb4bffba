"""The statements of ``queries/`` and the calls of functions, for one schema.

Every table and function is named with its schema. A search path would be a setting of the session, and behind a pooling
proxy the next transaction may run in another session.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from holdfast.drivers.postgres.columns import LISTS
from holdfast.drivers.statements import (
    NEWEST,
    NEWEST_FIRST,
    OLDEST_FIRST,
    Expression,
    fill_lists,
    join_columns,
    read_sql_files,
    strip_comments,
)

_SCHEMA = re.compile(r"\bholdfast\.")
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
FIND = ("admin/find", "admin/find_end")  # exist in both orders
FRAGMENTS = "fragments/"  # parts of statements, which a statement names in braces


@cache
def _load_queries() -> dict[str, str]:
    texts = {name: strip_comments(text) for name, text in read_sql_files(__package__, "queries").items()}
    fragments = {
        name.removeprefix(FRAGMENTS): (Expression(text.strip()),)
        for name, text in texts.items()
        if name.startswith(FRAGMENTS)
    }
    statements = {name: text for name, text in texts.items() if not name.startswith(FRAGMENTS)}
    lists = {**LISTS, **fragments}
    queries = {name: fill_lists(text, {**lists, **OLDEST_FIRST}) for name, text in statements.items()}
    for name in FIND:
        queries[name + NEWEST] = fill_lists(statements[name], {**lists, **NEWEST_FIRST})
    return queries


class Statements:
    """The statements for one schema. Its name has been validated (``SCHEMA_NAME``), and is quoted."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._prefix = f'"{schema}".'
        self._queries = {name: _SCHEMA.sub(self._prefix, text) for name, text in _load_queries().items()}

    def query(self, name: str) -> str:
        """Return a statement of ``queries/``; its parameters are named. ``FIND`` may end in ``NEWEST``."""
        return self._queries[name]

    def select_from(self, name: str, columns: Sequence[str], wanted: Sequence[str]) -> str:
        """Return a statement that selects the ``wanted`` ones of the ``columns`` of a query, ordered by the first."""
        some = join_columns(wanted, "found")
        named = join_columns(columns)
        return f'SELECT {some} FROM ({self.query(name)}) AS found ({named}) ORDER BY found."{columns[0]}"'  # noqa: S608

    def select_bytes(self, name: str, columns: Sequence[str], *, newest: bool) -> str:
        """Return a statement that ends a query of jobs with the one whose payload and result reach %(most)s bytes.

        PostgreSQL knows the size of a large value without reading it.
        """
        size = "coalesce(octet_length(payload), 0) + coalesce(octet_length(result), 0)"
        order = f"ORDER BY id {'DESC' if newest else 'ASC'}"
        named = join_columns(columns)
        sized = (
            f"SELECT *, sum({size}) OVER ({order} ROWS UNBOUNDED PRECEDING) - ({size}) AS bytes_before "  # noqa: S608
            f"FROM ({self.query(name + (NEWEST if newest else ''))}) AS found ({named})"
        )
        return f"SELECT {named} FROM ({sized}) AS sized WHERE bytes_before < %(most)s {order}"  # noqa: S608

    def call(self, function: str, arguments: int) -> str:
        """Return the call of a function in ``functions/`` that returns rows; its parameters are numbered."""
        return f"SELECT * FROM {self._expression(function, arguments)}"  # noqa: S608 - our names, numbered parameters

    def call_with_xid(self, function: str, arguments: int) -> str:
        """Return the same call with one more column: the number of its transaction, NULL if it wrote nothing."""
        call = self._expression(function, arguments)
        return f"SELECT called.*, pg_current_xact_id_if_assigned()::text::bigint FROM {call} AS called"  # noqa: S608 - as above

    @cache  # noqa: B019 - a store has one of these objects, and calls few functions
    def call_value(self, function: str, arguments: int) -> str:
        """Return the call of a function that returns one value: without FROM, which costs as much as a probe."""
        return f"SELECT {self._expression(function, arguments)}"

    def _expression(self, function: str, arguments: int) -> str:
        return f"{self._prefix}{function}({', '.join(f'${number}' for number in range(1, arguments + 1))})"

    def copy(self, table: str, columns: Sequence[str]) -> str:
        """Return a binary COPY into these columns of a table."""
        return f"COPY {self._prefix}{table} ({join_columns(columns)}) FROM STDIN (FORMAT BINARY)"
