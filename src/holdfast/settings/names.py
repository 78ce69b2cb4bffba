"""The names of the settings file, of its variables, and of the scheme of named stores."""

from __future__ import annotations

FILE_NAME = "holdfast.toml"
PREFIX = "HOLDFAST_"
CONFIG = f"{PREFIX}CONFIG"  # names the settings file
STORES_PREFIX = f"{PREFIX}STORES_"
OTHER_SIGNING_KEY = "JOBS_SIGNING_KEY"  # accepted for ``HOLDFAST_SIGNING_KEY``, which wins
STORE_SCHEME = "store"  # of the URL of a named store


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()
