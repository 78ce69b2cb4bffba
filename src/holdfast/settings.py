"""What an installation says once, for every command: ``holdfast.toml``, then ``HOLDFAST_*``, then arguments.

Read once at the door. Every value remembers where it came from; an unknown key or a wrong type is an error that says
what was wanted, what was got, and where.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.request import DEFAULT_QUEUE

FILE = "holdfast.toml"
PREFIX = "HOLDFAST_"
CONFIG = f"{PREFIX}CONFIG"  # names the file, instead of the one found upwards
DEFAULT = "default"

HIDDEN = "***"
_SECRET = re.compile(r"(?i)(^|&)([^=&]*(?:pass|pwd|secret|token|key|sig|credential)[^=&]*)=[^&]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The effective values. ``origin`` says where each came from."""

    url: str | None = None  # the store
    space: str = "main"
    queue: str = DEFAULT_QUEUE  # of jobs that name none
    max_attempts: int = DEFAULT_MAX_ATTEMPTS  # of jobs that say nothing else
    timeout: timedelta | None = None  # of one attempt, for jobs that say nothing else
    keep_ended: timedelta = timedelta(days=7)  # done and cancelled jobs, before `trim` forgets them
    keep_ledger: timedelta = timedelta(days=30)
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Where a value came from: a file, a variable, an argument, or ``default``."""
        return self.origins.get(name, DEFAULT)


class _Kind(NamedTuple):
    """How one setting is read: from TOML by type, from the environment as text."""

    toml: type
    check: Callable[[str, Any], object]
    text: Callable[[str], object] = str


def _whole(text: str) -> object:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def _url(name: str, value: str) -> str:
    if not value.strip():
        raise InvalidInput(name, wanted="a store URL such as sqlite:///jobs.db", got=value)
    return value


def _at_least(least: int) -> Callable[[str, str], timedelta]:
    def check(name: str, value: str) -> timedelta:
        length = duration.parse(name, value)
        if length < to_timedelta(least):
            raise InvalidInput(name, wanted=f"at least {duration.format_rounded(least)}", got=value)
        return length

    return check


_KINDS: dict[str, _Kind] = {
    "url": _Kind(str, _url),
    "space": _Kind(str, bounds.check_name),
    "queue": _Kind(str, bounds.check_name),
    "max_attempts": _Kind(int, lambda name, value: bounds.check_integer(name, value, least=1), _whole),
    "timeout": _Kind(str, _at_least(1)),
    "keep_ended": _Kind(str, _at_least(DAY)),  # a repeated settlement is answered for a day
    "keep_ledger": _Kind(str, _at_least(1)),
}
NAMES = tuple(_KINDS)

_WORDS = {str: "text", int: "a whole number"}


def read(
    given: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """The settings in force; ``given`` are arguments, the last word.

    The file is ``file``, else the one ``HOLDFAST_CONFIG`` names, else the first ``holdfast.toml`` from ``folder`` (the
    working directory) upwards; a file that was named must be there.
    """
    environ = os.environ if environ is None else environ
    named = file or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    found = named or _upwards(folder or Path.cwd())
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if found is not None:
        for name, value in _from_file(found).items():
            values[name], origins[name] = value, str(found)
    for name, kind in _KINDS.items():
        variable = PREFIX + name.upper()
        if environ.get(variable):  # an empty one is how shells take a value back
            values[name], origins[name] = kind.check(variable, kind.text(environ[variable])), variable
    for name, text in (given or {}).items():
        argument = f"--{name.replace('_', '-')}"
        values[name], origins[name] = _KINDS[name].check(argument, _KINDS[name].text(text)), argument
    return Settings(**values, origins=origins)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """``HOLDFAST_*`` variables that are no setting. The environment is shared: they are worth a word, not an error."""
    known = {CONFIG, *(PREFIX + name.upper() for name in _KINDS)}
    return sorted(
        name for name in (os.environ if environ is None else environ) if name.startswith(PREFIX) and name not in known
    )


def masked(url: str) -> str:
    """A URL that may be shown: whatever could be a password or a key in it is ``***``."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc
    except ValueError:
        return HIDDEN
    if "@" in netloc:
        user, _, host = netloc.rpartition("@")
        name, colon, _ = user.partition(":")
        netloc = f"{name}:{HIDDEN}@{host}" if colon else f"{user}@{host}"
    query = _SECRET.sub(rf"\1\2={HIDDEN}", parts.query)
    if (netloc, query) == (parts.netloc, parts.query):
        return url  # as it was given: putting it together again would change the slashes of some
    return urlunsplit((parts.scheme, netloc, parts.path, query, parts.fragment))


# The file ---------------------------------------------------------------------------------------------------


def _upwards(folder: Path) -> Path | None:
    candidates = (place / FILE for place in (folder, *folder.parents))
    return next((file for file in candidates if file.is_file()), None)


def _from_file(file: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(file), wanted="a settings file that can be read", got=error.strerror or error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(file), wanted="TOML in UTF-8", got=str(error)) from error
    values: dict[str, object] = {}
    for name, value in table.items():
        where = f"{name} in {file}"
        kind = _KINDS.get(name)
        if kind is None:
            raise InvalidInput(where, wanted=f"one of the settings {', '.join(_KINDS)}", got=f"the unknown {name!r}")
        if type(value) is not kind.toml:
            raise InvalidInput(where, wanted=_WORDS[kind.toml], got=f"{value!r} ({type(value).__name__})")
        values[name] = kind.check(where, value)
    if isinstance(values.get("url"), str):
        values["url"] = _anchored(str(values["url"]), file.absolute().parent)
    return values


def _anchored(url: str, folder: Path) -> str:
    """A relative SQLite path in a file is relative to that file: the same store from every folder below it."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path[1:]))
    if parts.scheme != "sqlite" or parts.netloc or not parts.path[1:] or path.is_absolute():
        return url
    return f"sqlite:///{quote((folder / path).as_posix())}" + (f"?{parts.query}" if parts.query else "")
