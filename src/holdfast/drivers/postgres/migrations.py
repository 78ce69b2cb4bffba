"""Installing a store: migrations of the tables, each once and in order, then the functions (see ``functions``).

A migration only adds to the tables. Its first line names the oldest code that can still use them: ``-- oldest: 3``
is the number of that code's newest migration, 1 if the line is missing. So an older Holdfast works on newer tables
until a migration says that it cannot.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from urllib.parse import urlsplit

import psycopg

from holdfast.drivers.migrations import Migration, check_checksums, join_scripts, load_migrations, newest_version
from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.errors import translate_error
from holdfast.drivers.postgres.functions import (
    FunctionSet,
    check_revision,
    install_functions,
    load_functions,
    read_function_set,
)
from holdfast.drivers.postgres.origin import begin_epoch, is_origin
from holdfast.drivers.postgres.url import read_url
from holdfast.errors import InvalidInput, SchemaMismatch

ORIGIN_MIGRATION = 2  # the one that makes the table of ``origin``
INSTALLATION_LOCK = (1212106566, -1)  # an advisory lock: of two starting processes, one waits for the other
MAX_ROLE_BYTES = 63  # PostgreSQL cuts a longer name, and so would grant the rights to another role
_OLDEST = re.compile(r"-- oldest: (\d+)\n")


@cache
def migrations() -> tuple[Migration, ...]:
    """Return every migration of this version, in order."""
    return load_migrations(__package__)


def oldest_of(migration: Migration) -> int:
    """Return the newest migration of the oldest code that may use the tables after this one."""
    found = _OLDEST.match(migration.text)
    return int(found.group(1)) if found else 1


@dataclass(frozen=True, slots=True)
class Installation:
    """The tables and functions that a store has."""

    checksums: dict[int, str]  # of the applied migrations, by number
    oldest: int  # code whose newest migration is older must not use the tables
    functions: FunctionSet
    is_restored: bool = False  # into another server or database; see ``origin``

    @property
    def version(self) -> int:
        """The newest migration that was applied; 0 if there are no tables."""
        return max(self.checksums, default=0)

    @property
    def is_current(self) -> bool:
        """Whether this code has nothing to apply."""
        return self.version >= newest_version(migrations()) and self.functions.is_current and not self.is_restored


def read_installation(connection: Connection, schema: str) -> Installation:
    """Return what the store has, without changing it. Raises ``SchemaMismatch`` if this version must not use it."""
    [(exists,)] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [f'"{schema}".migrations']).fetchall()
    if not exists:
        return Installation({}, 0, FunctionSet())
    rows = connection.execute(
        f'SELECT version, checksum, oldest FROM "{schema}".migrations'.encode()  # noqa: S608 - a validated name
    ).fetchall()
    checksums = {version: checksum for version, checksum, _ in rows}
    found = Installation(
        checksums=checksums,
        oldest=max((row[2] for row in rows), default=0),
        functions=read_function_set(connection, schema),
        is_restored=ORIGIN_MIGRATION in checksums and not is_origin(connection, schema),
    )
    newest = newest_version(migrations())
    if found.oldest > newest:
        raise SchemaMismatch(
            f"wanted a schema that code of version {newest} may use, got version {found.version}, which needs "
            f"{found.oldest}: a newer Holdfast created it; upgrade this one"
        )
    check_checksums(checksums, migrations())
    check_revision(found.functions)
    return found


def install(connection: Connection, schema: str) -> None:
    """Bring the tables and functions up to date in one transaction. A store that is current is only read.

    Raises ``SchemaMismatch`` if something must change and the role may not.
    """
    found = read_installation(connection, schema)
    if found.is_current:
        return
    try:
        _upgrade(connection, schema)
    except psycopg.errors.InsufficientPrivilege as error:
        what = "was restored from a backup" if found.is_restored else "needs other tables or functions"
        raise SchemaMismatch(
            f"the store in schema {schema} {what}, and this role may not change it: run `holdfast schema install` "
            f"once, as the role that owns the schema ({' '.join(str(error).split())})"
        ) from error


def _upgrade(connection: Connection, schema: str) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL client_min_messages = warning")
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", INSTALLATION_LOCK)
        [(exists,)] = connection.execute(
            "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", [schema]
        ).fetchall()
        if not exists:
            connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        connection.execute(f'SET LOCAL search_path TO "{schema}", pg_temp'.encode())
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, name text NOT NULL, "
            "checksum text NOT NULL, oldest integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        found = read_installation(connection, schema)  # again: another process may have finished meanwhile
        for migration in migrations():
            if migration.version not in found.checksums:
                connection.execute(migration.text.encode())
                connection.execute(
                    "INSERT INTO migrations (version, name, checksum, oldest) VALUES (%s, %s, %s, %s)",
                    [migration.version, migration.name, migration.checksum, oldest_of(migration)],
                )
        if not found.functions.is_current:
            install_functions(connection, found.functions)
        if found.is_restored:
            begin_epoch(connection)


def schema_version(url: str) -> tuple[int, int, bool]:
    """Return the version of the tables in a store (0: none), the newest known one, and whether the store is current.

    Changes nothing. Raises ``SchemaMismatch`` if this version must not use the store.
    """
    options = read_url(urlsplit(url))
    try:
        with psycopg.connect(options.conninfo, autocommit=True, prepare_threshold=None) as connection:
            found = read_installation(connection, options.schema)
    except psycopg.Error as error:
        raise translate_error(error) from error
    return found.version, newest_version(migrations()), found.is_current


def schema_sql() -> str:
    """Return every migration and every function as one script for people to read."""
    return join_scripts((*migrations(), *load_functions()))


def grants_sql(url: str, role: str) -> str:
    """Return the statements that give ``role`` the rights of clients and workers, for the schema of the URL."""
    if not role or not role.isprintable() or len(role.encode(errors="replace")) > MAX_ROLE_BYTES:
        raise InvalidInput("role", wanted=f"the name of a role, 1 to {MAX_ROLE_BYTES} printable bytes", got=repr(role))
    quoted = {"schema": f'"{read_url(urlsplit(url)).schema}"', "role": '"' + role.replace('"', '""') + '"'}
    script = (resources.files(__package__) / "grants.sql").read_text(encoding="utf-8")
    return re.sub(r"\{(\w+)\}", lambda found: quoted[found[1]], script)
