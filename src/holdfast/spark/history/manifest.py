"""Commits of a history: each commit is one small file that names all parts of the history. Runs on the Spark driver.

``_commits/<number>.json`` names every part of every table, and the cursor up to which the ledger was read. A writer
first writes parts under unique names. Then it writes the commit to a temporary file and renames that file to the next
number; the rename fails if the number exists. So a writer that dies before the rename has changed nothing. A reader
reads the newest commit and the parts that it names, so it never sees half of a commit. ``holdfast history compact``
removes parts that no commit names.
"""

from __future__ import annotations

import msgspec

from holdfast.errors import HistoryConflict, InvalidInput
from holdfast.spark.history.folder import Folder

FORMAT = 1  # of commit files; a reader refuses a newer format, because it could miss something
COMMITS = "_commits"
MAX_OLD_COMMITS = 20  # that stay beside the newest one, for readers that have just begun


class Part(msgspec.Struct, frozen=True):
    """Some rows of one day of a table: one folder of Parquet files."""

    table: str
    path: str  # relative to the history's folder
    day: str
    rows: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a history as of one commit."""

    format: int = FORMAT
    number: int = 0  # 0: nothing was committed yet
    space: str = ""
    cursor: str | None = None
    position: int = 0  # ledger rows that were read in total
    snapshot: int | None = None  # ledger rows that had been read when the waiting jobs were read
    read_until: int | None = None  # instant: all rows that ended before it have been read
    complete_from: str = ""  # day: of earlier days only the summaries are left
    summarised: int = 0  # number of the commit with the newest summaries
    parts: tuple[Part, ...] = ()

    def parts_of(self, table: str) -> list[Part]:
        """Return the parts of a table."""
        return [part for part in self.parts if part.table == table]


def newest(folder: Folder) -> Commit:
    """Return the newest commit, an empty one before the first. Raises ``InvalidInput`` for a newer format."""
    numbers = _numbers(folder)
    if not numbers:
        return Commit()
    commit = msgspec.json.decode(folder.read(_path(numbers[-1])), type=Commit)
    if commit.format > FORMAT:
        raise InvalidInput(
            "history", wanted=f"one of format {FORMAT} or older", got=f"format {commit.format}, of a newer Holdfast"
        )
    return commit


def commit(folder: Folder, new: Commit) -> None:
    """Make ``new`` the newest commit. Raises ``HistoryConflict`` if another writer has taken its number."""
    if not folder.create(_path(new.number), msgspec.json.encode(new).decode()):
        raise HistoryConflict(new.number)
    for number in _numbers(folder):
        if number < new.number - MAX_OLD_COMMITS:
            folder.remove(_path(number))


def _numbers(folder: Folder) -> list[int]:
    names = (name.removesuffix(".json") for name in folder.names(COMMITS) if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())


def _path(number: int) -> str:
    return f"{COMMITS}/{number:012d}.json"
