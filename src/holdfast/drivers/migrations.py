"""Numbered schema files and their checksums. How they are run and locked is the driver's part.

Each file ``schema/<number>_<name>.sql`` is applied once, in order, and its checksum is stored with its number: a store
whose migrations have other checksums, or higher numbers, was created by a different build.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.drivers.statements import read_sql_files
from holdfast.errors import SchemaMismatch


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One SQL file of a driver; ``name`` is its path below the folder, without the suffix."""

    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text with its line ends normalised: a checkout on another system changes line ends."""
        return hashlib.sha256("\n".join(self.text.splitlines()).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migration(SqlFile):
    """A schema file whose name begins with its number, for example ``001_init``."""

    @property
    def version(self) -> int:
        """The number in the name."""
        return int(self.name.partition("_")[0])


def load_sql_files(package: str, folder: str) -> tuple[SqlFile, ...]:
    """Return the SQL files of a folder, ordered by name."""
    return tuple(SqlFile(name, text) for name, text in read_sql_files(package, folder).items())


def load_migrations(package: str, folder: str = "schema") -> tuple[Migration, ...]:
    """Return every migration that this version has, ordered by number."""
    migrations = (Migration(name, text) for name, text in read_sql_files(package, folder).items())
    return tuple(sorted(migrations, key=lambda migration: migration.version))


def newest_version(migrations: Iterable[Migration]) -> int:
    """Return the number of the newest migration; 0 if there is none."""
    return max((migration.version for migration in migrations), default=0)


def check_not_newer(applied: Mapping[int, str], known: Sequence[Migration]) -> None:
    """Raise ``SchemaMismatch`` if the store has migrations that this version does not know."""
    newest, got = newest_version(known), max(applied, default=0)
    if got > newest:
        raise SchemaMismatch(
            f"wanted a schema of at most version {newest}, got version {got}: "
            "a newer Holdfast created it; upgrade this one"
        )


def check_checksums(applied: Mapping[int, str], known: Iterable[Migration]) -> None:
    """Raise ``SchemaMismatch`` if a migration was applied from another text. ``applied`` has checksums by number."""
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaMismatch(
                f"wanted migration {migration.name} as this version has it, got one with another checksum: "
                "the store was made by a different build; use that build, or drop the store and make it again"
            )


def join_scripts(files: Iterable[SqlFile]) -> str:
    """Return the files as one script for people to read, each under its name."""
    return "\n".join(f"-- {file.name}\n\n{file.text.strip()}\n" for file in files)
