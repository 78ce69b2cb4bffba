"""Loading SQL: a file holds the statements of a topic, read once, with lists of columns filled in.

A line ``-- name: insert`` begins a statement. Its name is the path of the file without the suffix and that word: the
statement ``insert`` of ``queries/enqueue.sql`` is ``enqueue/insert``. A file without such a line is one statement with
the name of the file. Comment lines stay in the file and are not sent to the database.

The name of a list of columns is written in braces, so that no file repeats the columns of a job:

    SELECT {job_columns} FROM holdfast_ended          becomes  SELECT "id", "type", ... FROM holdfast_ended
    SELECT {e.job_columns} FROM holdfast_ended AS e   becomes  SELECT e."id", e."type", ... FROM holdfast_ended AS e

The driver passes the lists to ``load_statements``. Each item is a column name, or any other SQL expression written as
``Expression("NULL")``: expressions are neither quoted nor prefixed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable

from holdfast.model.columns import FIXED_JOB_COLUMNS, JOB_COLUMNS, LEDGER_COLUMNS, names_of

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT_LINES = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)
_LIST = re.compile(r"\{(?:(\w+)\.)?(\w+)\}")


class Expression(str):
    """An SQL expression in a list of columns, such as ``NULL`` or ``?``."""

    __slots__ = ()


NULL = Expression("NULL")
ENDED_ONLY = frozenset({"dead_reason", "dead_at", "result"})  # only jobs that have ended have values in these

COLUMN_LISTS: Mapping[str, Sequence[str]] = {
    "job_columns": names_of(JOB_COLUMNS),
    "live_job_columns": tuple(NULL if name in ENDED_ONLY else name for name in names_of(JOB_COLUMNS)),
    "fixed_columns": names_of(FIXED_JOB_COLUMNS),
    "ledger_columns": names_of(LEDGER_COLUMNS),
}
"""The lists that every SQL driver has.

``job_columns`` are the fields of ``JobRecord``, ``ledger_columns`` those of ``LedgerRow``, both in their order.
``live_job_columns`` are the same fields of a job that has not ended: the table of these jobs has no ``ENDED_ONLY``
columns. ``fixed_columns`` are the fields of a job that never change once it is enqueued.
"""

OLDEST_FIRST: Mapping[str, Sequence[str]] = {
    "beyond": (Expression(">"),),
    "up_to": (Expression("<="),),
    "nearest": (Expression("min"),),
    "direction": (Expression("ASC"),),
}
NEWEST_FIRST: Mapping[str, Sequence[str]] = {
    "beyond": (Expression("<"),),
    "up_to": (Expression(">="),),
    "nearest": (Expression("max"),),
    "direction": (Expression("DESC"),),
}
"""The parts of a list of jobs that depend on its order. The statements of ``find`` are loaded once for each order."""

NEWEST = ", newest first"  # ends the names of statements that are loaded with ``NEWEST_FIRST``


def read_sql_files(package: str, folder: str) -> dict[str, str]:
    """Return the statements of every ``.sql`` file below ``folder`` of a package, by name."""
    return dict(sorted(_read_folder(resources.files(package) / folder, "")))


def _read_folder(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _read_folder(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".sql"):
            yield from _split(prefix + item.name.removesuffix(".sql"), item.read_text("utf-8"))


def _split(topic: str, text: str) -> Iterator[tuple[str, str]]:
    _, *named = _NAME.split(text)
    if not named:
        yield topic, text
    for name, statement in zip(named[::2], named[1::2], strict=True):
        yield f"{topic}/{name}", f"{statement.rstrip()}\n"


def load_statements(package: str, *, lists: Mapping[str, Sequence[str]] = COLUMN_LISTS) -> dict[str, str]:
    """Return every statement of ``queries/`` in a package by name, without comment lines and with its lists filled in.

    Raises ``KeyError`` for braces that name no list.
    """
    return {name: fill_lists(strip_comments(text), lists) for name, text in read_sql_files(package, "queries").items()}


def strip_comments(text: str) -> str:
    """Remove the lines that are only a comment."""
    return _COMMENT_LINES.sub("", text)


def fill_lists(text: str, lists: Mapping[str, Sequence[str]] = COLUMN_LISTS) -> str:
    """Replace each ``{list}`` and ``{alias.list}``."""
    return _LIST.sub(lambda match: join_columns(lists[match[2]], match[1]), text)


def join_columns(columns: Sequence[str], alias: str | None = None) -> str:
    """Return a list of columns as SQL, quoted, each with the alias of its table if there is one."""
    prefix = f"{alias}." if alias else ""
    return ", ".join(column if isinstance(column, Expression) else f'{prefix}"{column}"' for column in columns)
