"""Numbered migrations: each file under ``schema/`` once, in order, with its checksum kept in the store."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from holdfast.errors import ConnectError, SchemaMismatch, StoreUnavailable


class Migration(NamedTuple):
    """One file, and what proves that it is the one that was applied."""

    version: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """Of the text with its line ends made equal: a checkout on another system changes those."""
        return hashlib.sha256("\n".join(self.script.splitlines()).encode()).hexdigest()


def migrations() -> list[Migration]:
    """Every migration this version knows, in order."""
    files = (file for file in (resources.files(__package__) / "schema").iterdir() if file.name.endswith(".sql"))
    return sorted(
        Migration(int(file.name[:3]), file.name.removesuffix(".sql"), file.read_text("utf-8")) for file in files
    )


def migrate(connection: sqlite3.Connection, known: list[Migration], now: int) -> None:
    """Bring the tables up to date. The caller holds a write transaction: of two starting processes, one waits.

    Raises ``SchemaMismatch`` if the store was made by a newer version, or by another script under the same number.
    """
    connection.execute(
        "CREATE TABLE IF NOT EXISTS holdfast_migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, "
        "checksum TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT"
    )
    applied = dict(connection.execute("SELECT version, checksum FROM holdfast_migrations"))
    _check(applied, known)
    for migration in known:
        if migration.version not in applied:
            for statement in _statements(migration.script):
                connection.execute(statement)
            connection.execute(
                "INSERT INTO holdfast_migrations VALUES (?, ?, ?, ?)",
                (migration.version, migration.name, migration.checksum, now),
            )


def is_current(connection: sqlite3.Connection, known: list[Migration]) -> bool:
    """Whether nothing is left to apply; a read, so that the usual start takes no lock."""
    try:
        applied = dict(connection.execute("SELECT version, checksum FROM holdfast_migrations"))
    except sqlite3.OperationalError:  # no such table: an empty database
        return False
    _check(applied, known)
    return len(applied) == len(known)


def schema_version(url: str) -> tuple[int, int]:
    """The version of the tables in a store, 0 if there are none, and the newest one known; changes nothing.

    Raises ``SchemaMismatch`` as ``migrate`` does, ``ConnectError`` for a URL that cannot be a file's.
    """
    known = migrations()
    newest = max(migration.version for migration in known)
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) <= 1:
        raise ConnectError("wanted sqlite:///relative.db or sqlite:////absolute.db, got a host or no path")
    path = Path(unquote(parts.path[1:])).absolute()
    if not path.is_file():
        return 0, newest
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            [made] = connection.execute(
                "SELECT count(*) FROM sqlite_schema WHERE name = 'holdfast_migrations'"
            ).fetchone()
            applied = dict(connection.execute("SELECT version, checksum FROM holdfast_migrations")) if made else {}
    except sqlite3.Error as error:
        raise StoreUnavailable(f"wanted a SQLite file at {path}, got: {error}") from error
    _check(applied, known)
    return max(applied, default=0), newest


def schema_sql() -> str:
    """Every migration this version knows, as one script for people to read."""
    return "\n".join(f"-- {migration.name}\n\n{migration.script.strip()}\n" for migration in migrations())


def _check(applied: dict[int, str], known: list[Migration]) -> None:
    newest = max((migration.version for migration in known), default=0)
    ahead = max(applied, default=0)
    if ahead > newest:
        raise SchemaMismatch(
            f"wanted a schema of at most version {newest}, got version {ahead}: "
            "a newer Holdfast made it; upgrade this one"
        )
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"wanted migration {migration.name} as this version has it, got one with another checksum: "
                "the store was made by a different build; restore the file or use the build that made it"
            )


def _statements(script: str) -> Iterator[str]:
    """The script's statements one by one: ``executescript`` would commit the caller's transaction first."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
