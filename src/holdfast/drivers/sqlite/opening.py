"""Why a SQLite file cannot be opened, in words that say what to do. SQLite itself only says that it is unable to."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from holdfast.errors import StoreUnavailable


def opening_error(path: Path, error: sqlite3.Error) -> StoreUnavailable:
    """Return the error for a file that SQLite could not open, or could not read as a database."""
    if path.is_dir():
        return StoreUnavailable(f"wanted a SQLite file at {path}, got a folder")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return StoreUnavailable(
            f"wanted a folder that this process may write, for {path.name}-wal and {path.name}-shm, "
            f"got {path.parent}: {error}"
        )
    return StoreUnavailable(f"wanted a SQLite file at {path}, got: {error}")
