"""The tables of a store, asked of its driver: a driver that has some has a module ``migrations``, others have none.

It is found by the name of the driver, so that ``connect`` stays the only module that knows concrete drivers.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple, cast
from urllib.parse import urlsplit

from holdfast.connect import package_of
from holdfast.errors import Unsupported


class Schema(NamedTuple):
    """The version that the store has (0: no tables yet), and the newest that this Holdfast knows."""

    applied: int
    newest: int


def look(url: str) -> Schema | None:
    """Both versions, without making or changing anything; None if the driver has no tables."""
    module = _migrations_of(url)
    return None if module is None else Schema(*module.schema_version(url))


def script(url: str) -> str:
    """The statements that make the tables, for people who run them themselves."""
    module = _migrations_of(url)
    if module is None:
        raise none(url)
    return cast("str", module.schema_sql())


def none(url: str) -> Unsupported:
    """What a driver without tables answers."""
    return Unsupported(urlsplit(url).scheme, "schema commands", "it has no tables to make")


def _migrations_of(url: str) -> ModuleType | None:
    package = package_of(urlsplit(url).scheme)
    if package is None:
        return None
    try:
        return importlib.import_module(f"{package}.migrations")
    except ModuleNotFoundError:  # no such driver, no such module in it, or a package to install: connect() says which
        return None
