"""Applying the migrations in ``schema/`` to a SQLite file, inside one write transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import unquote, urlsplit

from holdfast.drivers.migrations import (
    Migration,
    check_checksums,
    check_not_newer,
    join_scripts,
    load_migrations,
    newest_version,
)
from holdfast.drivers.sqlite.opening import opening_error
from holdfast.errors import ConnectError


def load() -> tuple[Migration, ...]:
    """Return every migration that this version has, in order."""
    return load_migrations(__package__)


def migrate(connection: sqlite3.Connection, known: Sequence[Migration], now: int) -> None:
    """Apply the migrations that are missing. The caller holds the write lock, so a second process waits.

    Raises ``SchemaMismatch`` if a newer version, or another build, made the store.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS holdfast_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    applied = _read_applied(connection, known)
    for migration in known:
        if migration.version not in applied:
            for statement in _split(migration.text):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO holdfast_migrations VALUES (?, ?, ?, ?)",
                (migration.version, migration.name, migration.checksum, now),
            )


def is_current(connection: sqlite3.Connection, known: Sequence[Migration]) -> bool:
    """Whether every migration is applied. Only reads, so that the usual start takes no lock."""
    return len(_read_applied(connection, known)) == len(known)


def schema_version(url: str) -> tuple[int, int, bool]:
    """Return the version of the tables in a store (0: none), the newest known one, and whether the store is current.

    Changes nothing. Raises ``SchemaMismatch`` as ``migrate`` does, and ``ConnectError`` for a URL without a path.
    """
    known = load()
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) <= 1:
        raise ConnectError("wanted sqlite:///relative.db or sqlite:////absolute.db, got a host or no path")
    path = Path(unquote(parts.path[1:])).absolute()
    if not path.is_file():
        return 0, newest_version(known), False
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            applied = _read_applied(connection, known)
    except sqlite3.Error as error:
        raise opening_error(path, error) from error
    return max(applied, default=0), newest_version(known), len(applied) == len(known)


def schema_sql() -> str:
    """Return every migration as one script for people to read."""
    return join_scripts(load())


def _read_applied(connection: sqlite3.Connection, known: Sequence[Migration]) -> dict[int, str]:
    """Return the checksums of the applied migrations by number; nothing for an empty database."""
    [tables] = connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'holdfast_migrations'").fetchone()
    applied = dict(connection.execute("SELECT version, checksum FROM holdfast_migrations")) if tables else {}
    check_not_newer(applied, known)
    check_checksums(applied, known)
    return applied


def _split(script: str) -> Iterator[str]:
    """Return the statements one by one: ``executescript`` would first commit the transaction of the caller."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
