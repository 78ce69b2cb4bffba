"""Numbered migrations: each file under ``schema/`` once, in order, with its checksum kept in the store.

A migration only adds, or gives a function a better body of the same meaning. It says in its first line which code may
still use the tables after it (``-- oldest: 3``, the number of that code's newest migration; 1 if it says nothing), and
functions bear the number of their shape: so an older Holdfast goes on working on newer tables until a migration says
that it cannot.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg

from holdfast.drivers.postgres.connections import Connection
from holdfast.drivers.postgres.failures import translated
from holdfast.errors import SchemaMismatch

LOCK = 1212106566  # of the transaction that makes or upgrades tables: of two starting processes, one waits
_OLDEST = re.compile(r"-- oldest: (\d+)\n")


class Migration(NamedTuple):
    """One file, and what proves that it is the one that was applied."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """Of the text with its line ends made equal: a checkout on another system changes those."""
        return hashlib.sha256("\n".join(self.script.splitlines()).encode()).hexdigest()

    @property
    def oldest(self) -> int:
        """The newest migration of the oldest code that may use the tables after this one."""
        found = _OLDEST.match(self.script)
        return int(found.group(1)) if found else 1


@cache
def migrations() -> tuple[Migration, ...]:
    """Every migration this version knows, in order."""
    files = (file for file in (resources.files(__package__) / "schema").iterdir() if file.name.endswith(".sql"))
    return tuple(
        sorted(Migration(int(file.name[:3]), file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files)
    )


class Applied(NamedTuple):
    """What a store says of its tables."""

    checksums: dict[int, str]
    oldest: int  # code that knows no migration as new as this one must not touch it

    @property
    def version(self) -> int:
        """The newest migration that was applied; 0 if there are no tables."""
        return max(self.checksums, default=0)


def applied(connection: Connection, schema: str) -> Applied:
    """Read it, and nothing else. Raises ``SchemaMismatch`` for tables that this version must not use."""
    known = migrations()
    [made] = _one(connection, "SELECT to_regclass(%s) IS NOT NULL", [f'"{schema}".migrations'])
    if not made:
        return Applied({}, 0)
    rows = connection.execute(
        f'SELECT version, checksum, oldest FROM "{schema}".migrations'  # noqa: S608 - the name was checked
    ).fetchall()
    found = Applied({version: checksum for version, checksum, _ in rows}, max((row[2] for row in rows), default=0))
    newest = known[-1].version
    if found.oldest > newest:
        raise SchemaMismatch(
            f"wanted a schema that code of version {newest} may use, got version {found.version}, which needs "
            f"{found.oldest}: a newer Holdfast made it; upgrade this one"
        )
    for migration in known:
        if found.checksums.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"wanted migration {migration.name} as this version has it, got one with another checksum: "
                "the store was made by a different build; restore the file or use the build that made it"
            )
    return found


def migrate(connection: Connection, schema: str) -> None:
    """Bring the tables up to date, in one transaction; a start that finds nothing to do only reads."""
    known = migrations()
    if applied(connection, schema).version >= known[-1].version:
        return
    with connection.transaction():
        connection.execute("SET LOCAL client_min_messages = warning")
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LOCK, -1])
        if not _one(connection, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s)", [schema])[0]:
            connection.execute(f'CREATE SCHEMA "{schema}"')
        connection.execute(f'SET LOCAL search_path TO "{schema}", pg_temp')
        connection.execute(
            "CREATE TABLE IF NOT EXISTS migrations (version integer PRIMARY KEY, name text NOT NULL, "
            "checksum text NOT NULL, oldest integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        done = applied(connection, schema).checksums
        for migration in known:
            if migration.version not in done:
                connection.execute(migration.script.encode())
                connection.execute(
                    "INSERT INTO migrations (version, name, checksum, oldest) VALUES (%s, %s, %s, %s)",
                    [migration.version, migration.name, migration.checksum, migration.oldest],
                )


def schema_version(url: str) -> tuple[int, int]:
    """The version of the tables in a store, 0 if there are none, and the newest one known; changes nothing."""
    from holdfast.drivers.postgres.url import read  # noqa: PLC0415 - the URL's reader knows this module's caller

    options = read(urlsplit(url))
    try:
        with psycopg.connect(options.conninfo, autocommit=True, prepare_threshold=None) as connection:
            return applied(connection, options.schema).version, migrations()[-1].version
    except psycopg.Error as error:
        raise translated(error) from error


def schema_sql() -> str:
    """Every migration this version knows, as one script for people to read."""
    return "\n".join(f"-- {migration.name}\n\n{migration.script.strip()}\n" for migration in migrations())


def _one(connection: Connection, query: str, parameters: list[object]) -> tuple[object, ...]:
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row
