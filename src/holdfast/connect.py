"""Open the store that a URL names: the only module that knows the concrete drivers. It imports the one it needs.

``import holdfast`` imports this module, so its own imports must be few.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from holdfast.errors import ConnectError

if TYPE_CHECKING:
    from holdfast.clock import Clock
    from holdfast.drivers.store import Store

STORE_SCHEME = "store"  # store:NAME is the store of that name in the settings
ENTRY_POINT_GROUP = "holdfast.drivers"  # of drivers in other packages: scheme = "package.module:open_url"

OpenUrl: TypeAlias = "Callable[..., Store]"  # open_url(url: SplitResult, *, space, caller_clock, clock) -> Store


class _BuiltIn(NamedTuple):
    module: str
    example: str
    extra: str | None = None  # pip install "holdfast[extra]" installs what the driver needs


_BUILT_IN = {
    "memory": _BuiltIn("holdfast.drivers.memory", "memory://"),
    "sqlite": _BuiltIn("holdfast.drivers.sqlite", "sqlite:///jobs.db"),
    "postgresql": _BuiltIn("holdfast.drivers.postgres", "postgresql://user@host/database", "postgres"),
    "postgres": _BuiltIn("holdfast.drivers.postgres", "postgresql://user@host/database", "postgres"),
    "https": _BuiltIn("holdfast.drivers.http", "https://host"),
    "http": _BuiltIn("holdfast.drivers.http", "https://host"),
}


def connect(url: str, *, space: str | None = None, caller_clock: bool = False, clock: Clock | None = None) -> Store:
    """Return the store: driver, admin and registry in one. Creates or upgrades its tables where that is safe.

    ``store:NAME`` opens the store of that name in the settings of this process, in the space that they give it. Without
    a space it is ``main``.
    With ``caller_clock``, every call may pass its own ``now``, for tests and simulations; otherwise ``now`` is refused.
    ``clock`` replaces the host's clock in stores that read it (memory and SQLite).
    Raises ``ConnectError`` with what to write or install, ``SchemaMismatch`` if this version cannot use the tables.
    """
    parts = urlsplit(check_text(url))
    if parts.scheme == STORE_SCHEME:
        from holdfast import settings  # noqa: PLC0415 - only named stores need it

        known = settings.read()
        space = known.space_of(url) if space is None else space
        url = known.resolve_url(url)
        parts = urlsplit(url)
    space = "main" if space is None else space  # an empty one, of a tenant without a name, is refused
    return _opener(url, parts.scheme)(parts, space=space, caller_clock=caller_clock, clock=clock)


def check_text(url: object) -> str:
    """Return a URL that is text. Raises ``ConnectError`` for other objects, such as a path, without their value."""
    if not isinstance(url, str):
        got = type(url).__name__
        raise ConnectError(f"wanted a store URL as text, such as sqlite:///jobs.db, got {got}")
    return url


def package_of(scheme: str) -> str | None:
    """Return the package of the built-in driver for a scheme, or None. Imports nothing."""
    built_in = _BUILT_IN.get(scheme)
    return None if built_in is None else built_in.module


def _opener(url: str, scheme: str) -> OpenUrl:
    built_in = _BUILT_IN.get(scheme)
    if built_in is not None:
        return _import(built_in)
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow to import, and built-in drivers do not need it

    for entry in entry_points(group=ENTRY_POINT_GROUP, name=scheme):
        try:
            return cast("OpenUrl", entry.load())
        except ImportError as error:
            raise ConnectError(f"the driver for {scheme}:// ({entry.value}) cannot be imported: {error}") from error
    known = ", ".join(dict.fromkeys(driver.example for driver in _BUILT_IN.values()))
    others = ", ".join(sorted({f"{entry.name}://" for entry in entry_points(group=ENTRY_POINT_GROUP)}))
    got = f"{scheme}://" if scheme else "no scheme"
    hint = ""
    if not scheme and url and "@" not in url:
        hint = f" (for a file: sqlite:///{url})"
    elif "+" in scheme and (plain := scheme.partition("+")[0]) in _BUILT_IN:  # as SQLAlchemy writes it
        hint = f" (without the driver: {plain}://)"
    raise ConnectError(f"wanted a store URL such as {known}{', ' + others if others else ''}; got {got}{hint}")


def _import(built_in: _BuiltIn) -> OpenUrl:
    try:
        return cast("OpenUrl", importlib.import_module(built_in.module).open_url)
    except ImportError as error:
        if built_in.extra is None or (error.name or "").startswith("holdfast."):  # a bug of ours, not a missing package
            raise
        raise ConnectError(
            f"{built_in.example} needs the package {error.name}: pip install 'holdfast[{built_in.extra}]'"
        ) from error
