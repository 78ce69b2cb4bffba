"""The functions of ``functions/``: their text, the settings they run with, and how a store gets them.

The files show the functions as they are now; there is no chain of changes. When a process connects, it compares the
checksum of each function with the one in the store and replaces the functions that differ, in the transaction that
also applies migrations (see ``migrations``).

``REVISION`` numbers the set. Functions with a higher revision were written by newer code, and older code never
overwrites them. It uses them as they are, or refuses the store if their ``OLDEST_REVISION`` is above its own revision.
Of two builds with the same revision and different functions, the one that connects last replaces the functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

import psycopg

from holdfast.drivers.migrations import SqlFile
from holdfast.drivers.postgres.columns import LISTS
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.statements import fill_lists, read_sql_files, strip_comments
from holdfast.errors import SchemaMismatch

REVISION = 19  # raise it with every change of a function; tests/postgres/test_functions.py reminds you
OLDEST_REVISION = 18  # code of an older revision must not call these functions: raise it when a signature changes

_INTERNAL = "internal/"  # the folder of internal functions

SETTINGS = (
    # Names are looked up in the schema of the store. No session setting is involved: a pooling proxy may run the next
    # transaction in another session.
    "search_path FROM CURRENT",
    # Every statement is a few index probes per item of its batch. Without statistics, or with old ones, the planner
    # may prefer to read a whole table; with these plan types off, an index is the only way.
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
    # One plan for all arguments: planning takes longer than most of the statements, and the plan tests hold for every
    # batch.
    "plan_cache_mode = force_generic_plan",
    # Compiling takes longer than the statement.
    "jit = off",
    # No wait for a lock is endless: the driver raises StoreBusy.
    "lock_timeout = '30s'",
)
"""The settings of every verb, with the reason of each. Each verb sets them for the duration of its call."""


@dataclass(frozen=True, slots=True)
class Function(SqlFile):
    """One function; ``text`` creates or replaces it and applies its settings."""

    is_internal: bool = False  # called by the verbs and the queries, with the settings of its caller

    @property
    def checksum(self) -> str:
        """The checksum of the statements: a reworded comment line does not replace a function."""
        return SqlFile(self.name, strip_comments(self.text)).checksum


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The functions that a store has: their checksums by name, and who wrote them."""

    checksums: Mapping[str, str] = field(default_factory=dict)
    revision: int = 0
    oldest_revision: int = 0

    @property
    def is_current(self) -> bool:
        """Whether this code has nothing to replace: the functions are its own, or newer."""
        known = {function.name: function.checksum for function in load_functions()}
        return self.revision > REVISION or (self.revision == REVISION and self.checksums == known)


@cache
def load_functions() -> tuple[Function, ...]:
    """Return every function of this version. Internal ones come first: PostgreSQL checks what SQL bodies refer to."""
    functions = [_read_function(path, text) for path, text in read_sql_files(__package__, "functions").items()]
    return tuple(sorted(functions, key=lambda function: (not function.is_internal, function.name)))


def _read_function(path: str, unfilled: str) -> Function:
    name, text = path.rpartition("/")[2], fill_lists(unfilled, LISTS)
    if path.startswith(_INTERNAL):
        return Function(name, text, is_internal=True)
    return Function(name, _with_settings(name, text))


def _with_settings(name: str, text: str) -> str:
    settings = "\n".join(f"  SET {setting}" for setting in SETTINGS)
    return f"{text.rstrip()}\n\nALTER FUNCTION {name}\n{settings};\n"


def read_function_set(connection: Connection, schema: str) -> FunctionSet:
    """Return what the store has; an empty set if it has no functions. Changes nothing."""
    [(exists,)] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{schema}".functions']).fetchall()
    if not exists:
        return FunctionSet()
    rows = connection.execute(
        f'SELECT name, checksum, revision, oldest FROM "{schema}".functions'.encode()  # noqa: S608 - a validated name
    ).fetchall()
    return FunctionSet(
        checksums={name: checksum for name, checksum, _, _ in rows},
        revision=max((row[2] for row in rows), default=0),
        oldest_revision=max((row[3] for row in rows), default=0),
    )


def check_revision(installed: FunctionSet) -> None:
    """Raise ``SchemaMismatch`` if the functions of the store are too new for this code."""
    if installed.oldest_revision > REVISION:
        raise SchemaMismatch(
            f"wanted functions that code of revision {REVISION} may call, got revision {installed.revision}, which "
            f"needs code of revision {installed.oldest_revision}: a newer Holdfast wrote them; upgrade this one"
        )


def install_functions(connection: Connection, installed: FunctionSet) -> None:
    """Replace the functions that differ, drop those that are no longer known, and record the revision.

    The caller holds the installation lock and has set the search path to the schema.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS functions (name text PRIMARY KEY, checksum text NOT NULL, "
        "revision integer NOT NULL, oldest integer NOT NULL)"
    )
    functions = load_functions()
    for function in functions:
        if installed.checksums.get(function.name) != function.checksum:
            _replace(connection, function)
    for name in installed.checksums.keys() - {function.name for function in functions}:
        _drop(connection, _signatures(connection, name))
    connection.execute("DELETE FROM functions")
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO functions (name, checksum, revision, oldest) VALUES (%s, %s, %s, %s)",
            [(function.name, function.checksum, REVISION, OLDEST_REVISION) for function in functions],
        )


def _replace(connection: Connection, function: Function) -> None:
    """Replace one function in place; if its signature differs, create a new one and drop the old one.

    In place is better: calls that run at the same time never see a function disappear.
    """
    before = _signatures(connection, function.name)
    try:
        with connection.transaction():
            connection.execute(function.text.encode())
    except (psycopg.errors.InvalidFunctionDefinition, psycopg.errors.AmbiguousFunction):
        # Another result, or other parameter names; or other parameter types: then ALTER FUNCTION finds two functions.
        _drop(connection, before)
        connection.execute(function.text.encode())
    else:
        if len(_signatures(connection, function.name)) > 1:
            _drop(connection, before)


def _signatures(connection: Connection, function: str) -> list[str]:
    rows = connection.execute(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace "
        "AND proname = %s",
        [function],
    ).fetchall()
    return [signature for (signature,) in rows]


def _drop(connection: Connection, signatures: Iterable[str]) -> None:
    for signature in signatures:
        connection.execute(f"DROP FUNCTION {signature}".encode())
