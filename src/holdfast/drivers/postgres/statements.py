"""The SQL of this driver: one statement, one file under ``queries/``; the verbs are functions under ``schema/``.

Every table and function is named with its schema: behind a pooling proxy there is no session in which a search path
could be kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

_COMMENTS = re.compile(r"^--.*\n", re.MULTILINE)
_SCHEMA = re.compile(r"\bholdfast\.")
SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@cache
def _written() -> dict[str, str]:
    folder = resources.files(__package__) / "queries"
    files = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): _COMMENTS.sub("", file.read_text("utf-8")) for file in files}


class Statements:
    """The statements for one schema; its name was checked, and is quoted."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._prefix = f'"{schema}".'
        self._queries = {name: _SCHEMA.sub(self._prefix, text) for name, text in _written().items()}

    def query(self, name: str) -> str:
        """The statement in ``queries/<name>.sql``; its parameters are named."""
        return self._queries[name]

    def columns(self, name: str, has: Sequence[str], wanted: Sequence[str]) -> str:
        """Only some of the columns of a statement, which has these and is in the order of the first."""
        some = ", ".join(f'found."{column}"' for column in wanted)
        named = ", ".join(f'"{column}"' for column in has)
        return f'SELECT {some} FROM ({self.query(name)}) AS found ({named}) ORDER BY found."{has[0]}"'  # noqa: S608

    def call(self, function: str, arguments: int) -> str:
        """A call of one of the functions in ``schema/``; its parameters are numbered."""
        places = ", ".join(f"${place}" for place in range(1, arguments + 1))
        return f"SELECT * FROM {self._prefix}{function}({places})"  # noqa: S608 - names of ours, numbered parameters

    def copy(self, table: str, columns: Sequence[str]) -> str:
        """COPY into these columns of a table, in its binary form."""
        named = ", ".join(f'"{column}"' for column in columns)
        return f"COPY {self._prefix}{table} ({named}) FROM STDIN (FORMAT BINARY)"
