"""The SQL of this driver: one statement, one file under ``queries/``, read once."""

from __future__ import annotations

import re
from importlib import resources

_COMMENTS = re.compile(r"^--.*\n", re.MULTILINE)


def _load() -> dict[str, str]:
    folder = resources.files(__package__) / "queries"
    files = (file for file in folder.iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): _COMMENTS.sub("", file.read_text("utf-8")) for file in files}


_STATEMENTS = _load()


def sql(name: str) -> str:
    """The statement in ``queries/<name>.sql``, without its comments."""
    return _STATEMENTS[name]
