"""The settings of an installation: ``holdfast.toml``, then ``HOLDFAST_*`` variables, then arguments.

They are read once, where a program starts. Every value keeps its origin. An unknown key or a wrong type is an error
that says what was wanted, what was got, and where.
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
from urllib.parse import quote, unquote, urlsplit

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.model.retention import Retention

FILE_NAME = "holdfast.toml"
PREFIX = "HOLDFAST_"
CONFIG = f"{PREFIX}CONFIG"  # names the settings file
DEFAULT_ORIGIN = "default"
DEFAULT_KEEP_ENDED = to_timedelta(Retention().ended_for)
DEFAULT_KEEP_LEDGER = to_timedelta(Retention().ledger_for)

MASK = "***"
_SECRET_NAME = re.compile(r"(?i)pass|pwd|secret|token|key|sig|credential")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*://")
_PLAIN = re.compile(r"[\w./ -]*")  # a path, or a name
_PLAIN_USER = re.compile(r"[\w.%+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. ``origin`` returns where a value came from."""

    url: str | None = None  # the store
    space: str = "main"
    queue: str = DEFAULT_QUEUE  # for jobs that name none
    max_attempts: int = DEFAULT_MAX_ATTEMPTS  # for jobs that set none
    timeout: timedelta | None = None  # of one attempt, for jobs that set none
    # How long done and cancelled jobs, and ledger rows, are kept: in a store that has no retention yet.
    keep_ended: timedelta = DEFAULT_KEEP_ENDED
    keep_ledger: timedelta = DEFAULT_KEEP_LEDGER
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Return where a value came from: a file, a variable, an argument, or ``default``."""
        return self.origins.get(name, DEFAULT_ORIGIN)

    @property
    def chosen_keep_ended(self) -> timedelta | None:
        """``keep_ended`` if someone chose it; None if it is the default."""
        return None if self.origin("keep_ended") == DEFAULT_ORIGIN else self.keep_ended

    @property
    def chosen_keep_ledger(self) -> timedelta | None:
        """``keep_ledger`` if someone chose it; None if it is the default."""
        return None if self.origin("keep_ledger") == DEFAULT_ORIGIN else self.keep_ledger


class _Setting(NamedTuple):
    """How one setting is read and checked."""

    toml_type: type
    check: Callable[[str, Any], object]
    from_text: Callable[[str], object] = str


def _integer_or_text(text: str) -> object:
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


_SETTINGS: dict[str, _Setting] = {
    "url": _Setting(str, _url),
    "space": _Setting(str, bounds.check_name),
    "queue": _Setting(str, bounds.check_name),
    "max_attempts": _Setting(int, lambda name, value: bounds.check_integer(name, value, least=1), _integer_or_text),
    "timeout": _Setting(str, _at_least(1)),
    "keep_ended": _Setting(str, _at_least(DAY)),  # law L6: a repeated settlement is answered for a day
    "keep_ledger": _Setting(str, _at_least(1)),
}
NAMES = tuple(_SETTINGS)

_TYPE_NAMES = {str: "text", int: "a whole number"}


def read(
    given: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings in force; ``given`` are arguments, which override the file and the environment.

    The file is ``file``, else the one that ``HOLDFAST_CONFIG`` names, else the first ``holdfast.toml`` in ``folder``
    (the working directory) or above it. A named file must exist.
    """
    environ = os.environ if environ is None else environ
    named = file or (Path(environ[CONFIG]) if environ.get(CONFIG) else None)
    path = named or _find_upwards(folder or Path.cwd())
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if path is not None:
        for name, value in _read_file(path).items():
            values[name], origins[name] = value, str(path)
    for name, setting in _SETTINGS.items():
        variable = PREFIX + name.upper()
        if environ.get(variable):  # an empty variable counts as unset
            values[name], origins[name] = setting.check(variable, setting.from_text(environ[variable])), variable
    for name, text in (given or {}).items():
        argument = f"--{name.replace('_', '-')}"
        values[name], origins[name] = _SETTINGS[name].check(argument, _SETTINGS[name].from_text(text)), argument
    return Settings(**values, origins=origins)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the ``HOLDFAST_*`` variables that name no setting: worth a warning, not an error."""
    known = {CONFIG, *(PREFIX + name.upper() for name in _SETTINGS)}
    return sorted(
        name for name in (os.environ if environ is None else environ) if name.startswith(PREFIX) and name not in known
    )


def mask_secrets(url: str) -> str:
    """Return the URL with ``***`` in place of everything that could be a password or a key.

    A URL in a settings file is often malformed: a password has a slash or a question mark that should be escaped. So
    everything before the last at sign counts as user and password, and a text that is no URL is shown only if it is
    plain.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url if _PLAIN.fullmatch(url) else MASK
    user, at, rest = url[scheme.end() :].rpartition("@")
    name, colon, _ = user.partition(":")
    shown_user = f"{name if _PLAIN_USER.fullmatch(name) else ''}:{MASK}" if colon else user
    if not colon and not _PLAIN_USER.fullmatch(user):
        shown_user = MASK
    place, mark, query = rest.partition("?")
    place, hash_sign, _ = place.partition("#")
    if any("=" in part and _SECRET_NAME.search(unquote(unquote(part))) for part in (user, place)):
        return MASK  # where the secret of an option begins and ends is unknown
    try:
        urlsplit(url)
    except ValueError:
        return MASK
    if hash_sign:
        return f"{scheme[0]}{shown_user}{at}{place}#{MASK}"
    query, hash_sign, _ = query.partition("#")
    items = "".join(map(_mask_item, re.split("([&;])", query)))
    return f"{scheme[0]}{shown_user}{at}{place}{mark}{items}" + (f"#{MASK}" if hash_sign else "")


def _mask_item(item: str) -> str:
    """Return an item of a query without its value if that may be secret: a password, or a URL with a password."""
    name, equals, value = item.partition("=")
    decoded = unquote(unquote(value))
    may_be_secret = _SECRET_NAME.search(unquote(unquote(name))) or _SECRET_NAME.search(decoded) or "@" in decoded
    return f"{name}={MASK}" if equals and may_be_secret else item


# The file ---------------------------------------------------------------------------------------------------


def _find_upwards(folder: Path) -> Path | None:
    candidates = (place / FILE_NAME for place in (folder, *folder.parents))
    return next((file for file in candidates if file.is_file()), None)


def _read_file(file: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(file), wanted="a settings file that can be read", got=error.strerror or error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(file), wanted="TOML in UTF-8", got=str(error)) from error
    values: dict[str, object] = {}
    for name, value in table.items():
        where = f"{name} in {file}"
        setting = _SETTINGS.get(name)
        if setting is None:
            raise InvalidInput(where, wanted=f"one of the settings {', '.join(_SETTINGS)}", got=f"the unknown {name!r}")
        if type(value) is not setting.toml_type:
            raise InvalidInput(where, wanted=_TYPE_NAMES[setting.toml_type], got=f"{value!r} ({type(value).__name__})")
        values[name] = setting.check(where, value)
    if isinstance(values.get("url"), str):
        values["url"] = _resolve_sqlite_path(str(values["url"]), file.absolute().parent)
    return values


def _resolve_sqlite_path(url: str, folder: Path) -> str:
    """Resolve a relative SQLite path against the folder of the settings file."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path[1:]))
    if parts.scheme != "sqlite" or parts.netloc or not parts.path[1:] or path.is_absolute():
        return url
    return f"sqlite:///{quote((folder / path).as_posix())}" + (f"?{parts.query}" if parts.query else "")
