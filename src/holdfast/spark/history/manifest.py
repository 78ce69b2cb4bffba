"""What a history holds: one small file that is the whole truth, replaced by the next one in a single step.

``_commits/<number>.json`` names every part of every table and the cursor that the ledger was read up to. Parts are
written first, under names that nothing else uses; then the next number is taken by renaming a finished file to it,
which fails if the number is taken. So whatever dies before that has changed nothing, and nothing is ever seen by half:
who reads, reads the newest number and the parts that it names. What no commit names is waste, for ``holdfast history
compact`` to remove.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pyspark.sql import SparkSession
from uuid_utils import uuid7

from holdfast.errors import HistoryConflict, InvalidInput, Unsupported

FORMAT = 1  # of commits; a reader refuses a newer one, because it cannot know what it would overlook
COMMITS = "_commits"
KEPT = 20  # commits behind the newest that stay, for readers that have just begun


class Part(msgspec.Struct, frozen=True):
    """Some rows of one day of a table, in a folder of their own."""

    table: str
    path: str  # beneath the history's folder
    day: str
    rows: int


class Commit(msgspec.Struct, frozen=True, kw_only=True):
    """A history as of one commit."""

    format: int = FORMAT
    number: int = 0  # 0: nothing was ever committed
    space: str = ""
    cursor: str | None = None
    position: int = 0  # ledger rows that were ever read into it
    snapshot: int | None = None  # how many had been when the waiting jobs were looked at
    read_until: int | None = None  # what ended before this instant has been read
    complete_from: str = ""  # of days before this one, only summaries are left
    summarised: int = 0  # the number of the commit with the newest summaries
    parts: tuple[Part, ...] = ()

    def of(self, table: str) -> list[Part]:
        """The parts of a table."""
        return [part for part in self.parts if part.table == table]


class Folder:
    """A folder on any filesystem that Spark reaches, through Spark's own means."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = getattr(spark, "_jvm", None)
        if jvm is None:
            raise Unsupported("Spark Connect", "histories", "its clients have no filesystem; use a classic session")
        self._hadoop = jvm.org.apache.hadoop.fs
        self._text = jvm.org.apache.commons.io.IOUtils
        session: Any = spark
        conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001 - the only way to a filesystem
        path = self._hadoop.Path(root)
        self._files = path.getFileSystem(conf)
        path = self._files.makeQualified(path)
        self._context = self._hadoop.FileContext.getFileContext(path.toUri(), conf)
        self._no_options = session._sc._gateway.new_array(self._hadoop.Options.Rename, 0)  # noqa: SLF001
        self.root = str(path.toString()).rstrip("/")

    def at(self, path: str) -> str:
        """The full name of something in it."""
        return f"{self.root}/{path}"

    def names(self, path: str) -> list[str]:
        """What is in one of its folders, in order; nothing if there is no such folder."""
        found = self._hadoop.Path(self.at(path))
        return sorted(each.getPath().getName() for each in self._files.listStatus(found)) if self._has(found) else []

    def age(self, path: str, now: int) -> int:
        """For how many microseconds something has not been changed."""
        return now - int(self._files.getFileStatus(self._hadoop.Path(self.at(path))).getModificationTime()) * 1000

    def read(self, path: str) -> str:
        """The text of a file."""
        stream = self._files.open(self._hadoop.Path(self.at(path)))
        try:
            return str(self._text.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def create(self, path: str, text: str) -> bool:
        """A new file with this text, as a whole or not at all; False if there is one of that name."""
        wanted = self._hadoop.Path(self.at(path))
        if self._has(wanted):
            return False
        fresh = self._hadoop.Path(self.at(f"{COMMITS}/.{uuid7()}"))
        stream = self._files.create(fresh)
        try:
            self._text.write(text, stream, "UTF-8")
        finally:
            stream.close()
        try:
            self._context.rename(fresh, wanted, self._no_options)
        except Exception:
            self._files.delete(fresh, False)  # noqa: FBT003 - Java has no keywords
            if self._has(wanted):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it."""
        self._files.delete(self._hadoop.Path(self.at(path)), True)  # noqa: FBT003 - Java has no keywords

    def _has(self, path: Any) -> bool:
        return bool(self._files.exists(path))


def newest(folder: Folder) -> Commit:
    """The history as it is; an empty one if nothing was ever committed."""
    numbers = _numbers(folder)
    if not numbers:
        return Commit()
    commit = msgspec.json.decode(folder.read(_name(numbers[-1])), type=Commit)
    if commit.format > FORMAT:
        raise InvalidInput(
            "history", wanted=f"one of format {FORMAT} or older", got=f"format {commit.format}, of a newer Holdfast"
        )
    return commit


def commit(folder: Folder, next_one: Commit) -> None:
    """Make it the newest; raises ``HistoryConflict`` if somebody else has been faster."""
    if not folder.create(_name(next_one.number), msgspec.json.encode(next_one).decode()):
        raise HistoryConflict(next_one.number)
    for number in _numbers(folder):
        if number < next_one.number - KEPT:
            folder.remove(_name(number))


def _numbers(folder: Folder) -> list[int]:
    names = (name.removesuffix(".json") for name in folder.names(COMMITS) if name.endswith(".json"))
    return sorted(int(name) for name in names if name.isdigit())


def _name(number: int) -> str:
    return f"{COMMITS}/{number:012d}.json"
