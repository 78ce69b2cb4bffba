"""Commits of a history: each commit is one small file that names all parts of the history. Runs on the Spark driver.

``_commits/<number>.json`` names every part of every table with its files and their checksums, and the cursor up to
which the ledger was read. A writer first writes parts under unique names. Then it writes the commit to a temporary file
and renames that file to the next number; the rename fails if the number exists. So a writer that dies before the rename
has changed nothing. A reader reads the newest commit and the parts that it names, so it never sees half of a commit.
``holdfast history compact`` removes parts that no commit names.

A commit also has the hash of every commit before it. So the number and the hash of one commit, kept outside of the
folder, prove later that the history still contains that commit.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import msgspec

from holdfast.errors import HistoryConflict, InvalidInput
from holdfast.spark.history.folder import Folder

FORMAT = 2  # of commit files; a reader refuses any other
COMMITS = "_commits"
MAX_OLD_COMMITS = 20  # that stay beside the newest one, for readers that have just begun
MAX_ANCESTORS = 100_000  # hashes in a commit, of the newest commits before it


class File(msgspec.Struct, frozen=True):
    """A file of a part, as it was written."""

    name: str
    size: int  # bytes
    checksum: str  # SHA-256, in hexadecimal


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of one day of a table: one folder of Parquet files."""

    table: str
    path: str  # relative to the history's folder
    day: str
    rows: int
    last_position: int | None = None  # of a ledger row in this part
    files: tuple[File, ...]


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a history as of one commit."""

    format: int = FORMAT
    number: int = 0  # 0: nothing was committed yet
    space: str = ""
    cursor: str | None = None
    position: int = 0  # ledger rows that were read in total
    snapshot: int | None = None  # ledger rows that had been read when the waiting jobs were read
    complete_from: str = ""  # day: of earlier days only the summaries are left
    first_position: int = 0  # from here on the history has every ledger row; of earlier ones some were forgotten
    since: int | None = None  # instant: rows that ended before it may be missing. None: the history has the first row
    serial_arrivals: bool = False  # whether the store enqueues one call at a time
    summarised: int = 0  # number of the commit with the newest summaries
    parts: tuple[Part, ...] = ()
    ancestors: tuple[str, ...] = ()  # hashes of the commits before this one, the newest last

    def parts_of(self, table: str) -> list[Part]:
        """Return the parts of a table."""
        return [part for part in self.parts if part.table == table]

    def rows_of(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(part.rows for part in self.parts_of(table))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The number of a commit and the hash of its file. Kept elsewhere, it proves that a history has this commit."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The newest commit of a history."""

    commit: Commit
    hash: str

    @property
    def mark(self) -> CommitMark:
        """The mark of the newest commit."""
        return CommitMark(number=self.commit.number, hash=self.hash)

    def hash_of(self, number: int) -> str | None:
        """Return the hash of a commit; None if this history has no such commit, or no longer knows its hash."""
        steps = self.commit.number - number  # back from the newest commit
        if steps == 0:
            return self.hash
        return self.commit.ancestors[-steps] if 0 < steps <= len(self.commit.ancestors) else None


def newest(folder: Folder) -> Head:
    """Return the newest commit, an empty one before the first. Raises ``InvalidInput`` for another format."""
    numbers = commit_numbers(folder)
    if not numbers:
        return Head(commit=Commit(), hash="")
    text = read_commit(folder, numbers[-1])
    found = msgspec.json.decode(text, type=_Format).format
    if found != FORMAT:
        age = "a newer" if found > FORMAT else "an older"
        raise InvalidInput("history", wanted=f"format {FORMAT}", got=f"format {found}, of {age} Holdfast")
    return Head(commit=msgspec.json.decode(text, type=Commit), hash=hash_commit(text))


class _Format(msgspec.Struct):
    format: int = 0


def commit(folder: Folder, before: Head, new: Commit) -> Head:
    """Make ``new`` the successor of ``before``. Raises ``HistoryConflict`` if another writer has taken its number."""
    number = before.commit.number + 1
    ancestors = (*before.commit.ancestors, before.hash)[-MAX_ANCESTORS:] if before.hash else ()
    new = msgspec.structs.replace(new, number=number, ancestors=ancestors)
    text = msgspec.json.encode(new).decode()
    if not folder.create(_path(number), text):
        raise HistoryConflict(number)
    for old in commit_numbers(folder):
        if old < number - MAX_OLD_COMMITS:
            folder.remove(_path(old))
    return Head(commit=new, hash=hash_commit(text))


def commit_numbers(folder: Folder) -> list[int]:
    """Return the numbers of the commits whose files are there, in order."""
    names = (name.removesuffix(".json") for name in folder.names(COMMITS) if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())


def read_commit(folder: Folder, number: int) -> str:
    """Return the text of a commit file."""
    return folder.read(_path(number))


def hash_commit(text: str) -> str:
    """Return the hash by which later commits name a commit."""
    return hashlib.sha256(text.encode()).hexdigest()


def _path(number: int) -> str:
    return f"{COMMITS}/{number:012d}.json"
