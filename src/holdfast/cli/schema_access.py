"""The schema of a store, through the module ``migrations`` of its driver; a driver without tables has no such module.

The module is found by the driver's name, so that ``connect`` stays the only module that knows concrete drivers.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from holdfast.connect import package_of
from holdfast.errors import Unsupported


class SchemaVersion(NamedTuple):
    """The version that the store has (0: no tables yet), and the newest version that this Holdfast knows."""

    applied: int
    newest: int
    current: bool  # opening the store changes nothing; it may be newer than this Holdfast


def read_version(url: str) -> SchemaVersion | None:
    """Return the versions without changing the store; None if the driver has no tables."""
    module = _migrations_of(url)
    return None if module is None else SchemaVersion(*module.schema_version(url))


def schema_sql(url: str) -> str:
    """Return the statements that create the tables, for people who run them by hand."""
    module = _migrations_of(url)
    if module is None:
        raise no_schema(url)
    return cast("str", module.schema_sql())


def grants_sql(url: str, role: str) -> str:
    """Return the statements that give a role of the database the rights of clients and workers."""
    module = _migrations_of(url)
    if module is None or not hasattr(module, "grants_sql"):
        raise Unsupported(urlsplit(url).scheme, "schema grants", "its store has no roles")
    return cast("str", module.grants_sql(url, role))


def no_schema(url: str) -> Unsupported:
    """The error for a driver without tables."""
    return Unsupported(urlsplit(url).scheme, "schema commands", "it has no tables")


def _migrations_of(url: str) -> ModuleType | None:
    package = package_of(urlsplit(url).scheme)
    if package is None:
        return None
    try:
        return importlib.import_module(f"{package}.migrations")
    except ModuleNotFoundError:
        # No such driver, a driver without tables, or a missing package: connect() reports which one it is.
        return None
