"""The settings of an installation: ``holdfast.toml``, then ``HOLDFAST_*`` variables, then arguments.

They are read once, where a program starts. Every value keeps its origin. An unknown key or a wrong type is an error
that says what was wanted, what was got, and where.

A store can have a name, so that no URL has to be in code, in commands or in plans of Spark: ``store:prod`` is the URL
of the store that ``[stores.prod]`` of the file or ``HOLDFAST_STORES_PROD_URL`` describes. Each process resolves the
name with its own settings.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration, lease
from holdfast.model import retry as retry_policy
from holdfast.model.job import DEFAULT_MAX_ATTEMPTS
from holdfast.model.limit_proposal import LIMIT_FIELDS, LimitProposal, Origin, QueueLimits
from holdfast.model.queue_settings import DEFAULT_BREAKER_COOLDOWN
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.model.retention import Retention
from holdfast.model.retry import BuiltInPolicy
from holdfast.model.secret import MASK, Secret
from holdfast.net.addresses import parse_network
from holdfast.net.urls import parse_pattern, parse_url
from holdfast.serve_settings import ASYMMETRIC_ALGORITHMS, AuthMode, ServeSettings

FILE_NAME = "holdfast.toml"
PREFIX = "HOLDFAST_"
CONFIG = f"{PREFIX}CONFIG"  # names the settings file
STORES_PREFIX = f"{PREFIX}STORES_"
SERVE = "serve"  # the table of the HTTP service; its settings have this word and an underscore before their names
OTHER_SIGNING_KEY = "JOBS_SIGNING_KEY"  # accepted for ``HOLDFAST_SIGNING_KEY``, which wins
STORE_SCHEME = "store"  # of the URL of a named store
DEFAULT_ORIGIN = "default"
DEFAULT_KEEP_ENDED = to_timedelta(Retention().ended_for)
DEFAULT_KEEP_LEDGER = to_timedelta(Retention().ledger_for)
DEFAULT_LEASE = to_timedelta(lease.DEFAULT_LEASE)

_SECRET_NAME = re.compile(r"(?i)pass|pwd|secret|token|key|sig|credential")
_SCHEME = re.compile(r"(?i)[a-z][a-z0-9+.-]*://")
_PLAIN = re.compile(r"[\w./ -]*")  # a path, or a name
_PLAIN_USER = re.compile(r"[\w.%+-]*")
_OBJECT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_STORE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # in a variable it has capital letters
_STORE_VARIABLE = re.compile(rf"{STORES_PREFIX}([A-Z][A-Z0-9_]{{0,63}})_(URL|SPACE)")


class LogFormat(StrEnum):
    """How ``holdfast work`` writes its log."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level that ``holdfast work`` logs."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class SigningMode(StrEnum):
    """Whether jobs are signed and verified. The order is from lenient to strict."""

    OFF = "off"
    ACCEPT = "accept"  # sign, verify what is signed, and run what is not: while unsigned jobs are drained
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedStore:
    """A store that the settings describe."""

    url: str
    space: str | None = None  # None: the setting ``space``

    def __repr__(self) -> str:
        return f"NamedStore({mask_secrets(self.url)!r}, {self.space!r})"  # the URL may contain a password


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTable:
    """What ``[queues.NAME]`` says about a queue. The limits are proposals: see ``model.limit_proposal``."""

    limits: QueueLimits | None = None
    types: Mapping[str, QueueLimits] = field(default_factory=dict)  # limits of one type in the queue
    handlers: tuple[str, ...] | None = None  # the types that may run; None: all


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings in force. ``origin`` returns where a value came from."""

    url: str | None = None  # the store
    store: str | None = None  # the name of the store, if it is not given by ``url``
    space: str = "main"
    queue: str = DEFAULT_QUEUE  # for jobs that name none
    max_attempts: int = DEFAULT_MAX_ATTEMPTS  # for jobs that set none
    timeout: timedelta | None = None  # of one attempt, for jobs that set none
    retry: BuiltInPolicy = retry_policy.DEFAULT  # of a worker, for jobs and handlers that have none
    lease: timedelta = DEFAULT_LEASE  # of a worker
    # The circuit breaker of handlers that have none of their own; without a threshold they have no breaker.
    breaker_threshold: int | None = None
    breaker_cooldown: timedelta = DEFAULT_BREAKER_COOLDOWN
    app: str | None = None  # MODULE:APP, whose handlers say how ``holdfast enqueue`` stores their jobs
    metrics: str | None = None  # a collector, ``module:object``: see ``observability.metrics``
    # How long done and cancelled jobs, and ledger rows, are kept: in a store that has no retention yet.
    keep_ended: timedelta = DEFAULT_KEEP_ENDED
    keep_ledger: timedelta = DEFAULT_KEEP_LEDGER
    idempotent: bool = False  # skip jobs whose idempotency key is done, for handlers that do not say
    idempotency_ttl: timedelta = timedelta(hours=24)  # how long a key is done
    log: LogFormat = LogFormat.TEXT  # of ``holdfast work``
    log_level: LogLevel = LogLevel.INFO
    log_redact: tuple[str, ...] = ()  # parts of names whose values the log masks, besides the built-in ones
    # What the built-in handlers may do. Empty: nothing.
    allowed_shell_commands: tuple[str, ...] = ()  # absolute paths of programs
    allowed_urls: tuple[str, ...] = ()  # scheme://host[:port]/prefix
    allowed_networks: tuple[str, ...] = ()  # private networks that requests to allowed URLs may reach
    allowed_events: tuple[str, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    signing: SigningMode = SigningMode.OFF
    signing_key: Secret | None = None  # secrets with commas between them: the first one signs, all of them verify
    signing_key_file: str | None = None  # see ``key_file``
    serve: ServeSettings = field(default_factory=ServeSettings)  # of the HTTP service
    queues: Mapping[str, QueueTable] = field(default_factory=dict)  # by name
    stores: Mapping[str, NamedStore] = field(default_factory=dict)  # by name
    origins: Mapping[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """Return where a value came from: a file, a variable, an argument, or ``default``."""
        return self.origins.get(name, DEFAULT_ORIGIN)

    def value(self, name: str) -> object:
        """Return a setting by its name in ``NAMES``."""
        in_serve = name.removeprefix(f"{SERVE}_")
        return getattr(self, name) if in_serve == name else getattr(self.serve, in_serve)

    def is_chosen(self, name: str) -> bool:
        """Whether someone chose this value; False if it is the default."""
        return self.origin(name) != DEFAULT_ORIGIN

    @property
    def chosen_keep_ended(self) -> timedelta | None:
        """``keep_ended`` if someone chose it; None if it is the default."""
        return self.keep_ended if self.is_chosen("keep_ended") else None

    @property
    def chosen_keep_ledger(self) -> timedelta | None:
        """``keep_ledger`` if someone chose it; None if it is the default."""
        return self.keep_ledger if self.is_chosen("keep_ledger") else None

    @property
    def chosen_idempotency_ttl(self) -> timedelta | None:
        """``idempotency_ttl`` if someone chose it; None if it is the default."""
        return self.idempotency_ttl if self.is_chosen("idempotency_ttl") else None

    @property
    def chosen_lease(self) -> timedelta | None:
        """``lease`` if someone chose it; None if it is the default."""
        return self.lease if self.is_chosen("lease") else None

    @property
    def chosen_retry(self) -> BuiltInPolicy | None:
        """``retry`` if someone chose it; None if it is the default."""
        return self.retry if self.is_chosen("retry") else None

    @property
    def allowed_handlers(self) -> dict[str, tuple[str, ...]]:
        """The types that may run, by queue, of the queues that have ``handlers``."""
        return {name: table.handlers for name, table in self.queues.items() if table.handlers is not None}

    @property
    def queue_limits(self) -> tuple[LimitProposal, ...]:
        """The limits of ``[queues.NAME]`` and ``[queues.NAME.types.TYPE]``."""
        return tuple(
            LimitProposal(queue=queue, type=type_, limits=limits, origin=Origin.SETTINGS)
            for queue, table in self.queues.items()
            for type_, limits in ((None, table.limits), *table.types.items())
            if limits is not None
        )

    @property
    def store_url(self) -> str | None:
        """The URL of the store; ``store:NAME`` if it is given by its name."""
        return self.url if self.store is None else named_store_url(self.store)

    def resolve_url(self, url: str) -> str:
        """Return the URL that a driver opens: that of the named store for ``store:NAME``. Raises ``InvalidInput``."""
        return url if (name := store_name_of(url)) is None else self._find_store(name).url

    def space_of(self, url: str) -> str:
        """Return the space for a URL: that of an argument, else that of the named store, else the setting ``space``."""
        name = store_name_of(url)
        if name is None or self.origin("space").startswith("--"):
            return self.space
        return self._find_store(name).space or self.space

    def _find_store(self, name: str) -> NamedStore:
        found = self.stores.get(name)
        if found is None:
            ways = f"url in [stores.{name}] of {FILE_NAME}, or {STORES_PREFIX}{name.upper()}_URL, on this machine"
            got = f"none; known are {', '.join(self.stores)}" if self.stores else "none"
            raise InvalidInput(f"store {name}", wanted=ways, got=got)
        return found


def named_store_url(name: str) -> str:
    """Return the URL of a named store. The store need not be known here: another process may open it."""
    return f"{STORE_SCHEME}:{_check_store_name('store', name)}"


def store_name_of(url: str) -> str | None:
    """Return the name in ``store:NAME``; None for every other URL."""
    scheme, colon, name = url.partition(":")
    return _check_store_name("store", name) if colon and scheme == STORE_SCHEME else None


def _check_store_name(field_name: str, name: str) -> str:
    if not _STORE_NAME.fullmatch(name):
        raise InvalidInput(field_name, wanted="a name of small letters, digits and underscores", got=name)
    return name


def check_program(field_name: str, path: str) -> str:
    """Check the path of a program that jobs may run."""
    if not is_plain_path(path):
        raise InvalidInput(field_name, wanted="the absolute path of a program, such as /usr/bin/rsync", got=path)
    return path


def is_plain_path(path: str) -> bool:
    """Whether a path is absolute and written in the one way that has no ``..``, no ``.`` and no second slash."""
    return Path(path).is_absolute() and os.path.normpath(path) == path and "\0" not in path


class _Setting(NamedTuple):
    """How one setting is read and checked."""

    toml_type: type
    check: Callable[[str, Any], object]
    from_text: Callable[[str], object] = str


def _integer_or_text(text: str) -> object:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def _boolean_or_text(text: str) -> object:
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


def _boolean(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(name, wanted="true or false", got=value)
    return value


def _url(name: str, value: str) -> str:
    if not value.strip():
        raise InvalidInput(name, wanted="a store URL such as sqlite:///jobs.db", got=value)
    return value


def _object_path(name: str, value: str) -> str:
    if not _OBJECT_PATH.fullmatch(value):
        raise InvalidInput(name, wanted="module:object", got=value)
    return value


def _at_least(least: int) -> Callable[[str, str], timedelta]:
    def check(name: str, value: str) -> timedelta:
        length = duration.parse(name, value)
        if length < to_timedelta(least):
            raise InvalidInput(name, wanted=f"at least {duration.format_rounded(least)}", got=value)
        return length

    return check


def _retry(name: str, value: str) -> BuiltInPolicy:
    try:
        return retry_policy.parse(value)
    except InvalidInput as error:
        raise InvalidInput(name, wanted=error.wanted, got=value) from error


def _one_of(choices: type[StrEnum]) -> Callable[[str, str], StrEnum]:
    def check(name: str, value: str) -> StrEnum:
        try:
            return choices(value.lower())
        except ValueError:
            raise InvalidInput(name, wanted=f"one of {', '.join(choices)}", got=value) from None

    return check


def _names(name: str, value: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(bounds.check_name(name, each.strip()) for each in value.split(",") if each.strip())


def _list_of(check: Callable[[str, str], object]) -> _Setting:
    """Return a setting with several texts: an array in the file, with commas between them elsewhere."""

    def check_all(name: str, values: list[object]) -> tuple[str, ...]:
        for value in values:
            if not isinstance(value, str):
                raise InvalidInput(name, wanted="texts", got=value)
            check(name, value)
        return tuple(map(str, values))

    def split(text: str) -> list[str]:
        return [each.strip() for each in text.split(",") if each.strip()]

    return _Setting(list, check_all, split)


def _secret(name: str, value: str) -> Secret:
    if not value.strip():
        raise InvalidInput(name, wanted="a secret", got="none")
    return Secret(value)


def _path(name: str, value: str) -> str:
    if not value.strip() or "\0" in value:
        raise InvalidInput(name, wanted="the path of a file", got=value)
    return value


def _issuer_url(name: str, value: str) -> str:
    parse_url(value, field=name)
    parse_pattern(name, value)  # a request to it must match a pattern: no query
    return value


def _text(name: str, value: str) -> str:
    return bounds.check_text(name, value)


def _whole(least: int, most: int = bounds.MAX_COUNT) -> _Setting:
    return _Setting(
        int, lambda name, value: bounds.check_integer(name, value, least=least, most=most), _integer_or_text
    )


def _choices(known: tuple[str, ...], kind: Callable[[str], Any] = str) -> _Setting:
    """Return a setting with several texts of a closed set."""

    def check_one(name: str, value: str) -> None:
        if value not in known:
            raise InvalidInput(name, wanted=f"some of {', '.join(known)}", got=value)

    several = _list_of(check_one)

    def check_all(name: str, values: list[object]) -> tuple[Any, ...]:
        if not values:
            raise InvalidInput(name, wanted=f"some of {', '.join(known)}", got="none")
        return tuple(map(kind, several.check(name, values)))  # type: ignore[call-overload] # a tuple of texts

    return _Setting(list, check_all, several.from_text)


_SERVE_SETTINGS: dict[str, _Setting] = {
    "bind": _Setting(str, _text),
    "auth": _choices(tuple(AuthMode), AuthMode),
    "tokens_file": _Setting(str, _path),
    "jwks_url": _Setting(str, _issuer_url),
    "issuer": _Setting(str, _text),
    "audience": _Setting(str, _text),
    "algorithms": _choices(ASYMMETRIC_ALGORITHMS),
    "introspection_url": _Setting(str, _issuer_url),
    "client_id": _Setting(str, _text),
    "client_secret": _Setting(str, _secret),
    "space_claim": _Setting(str, _text),
    "scope_prefix": _Setting(str, _text),
    "lease": _Setting(str, _at_least(lease.MIN_LEASE)),
    "min_lease": _Setting(str, _at_least(lease.MIN_LEASE)),
    "max_lease": _Setting(str, _at_least(lease.MIN_LEASE)),
    "max_wait": _Setting(str, _at_least(0)),
    "max_body_bytes": _whole(1 << 10, bounds.MAX_STORED_PAYLOAD_BYTES),
    "max_requests": _whole(1),
    "rate": _Setting(str, duration.parse_rate),
    "threads": _whole(1, 256),
}

_SETTINGS: dict[str, _Setting] = {
    "url": _Setting(str, _url),
    "store": _Setting(str, _check_store_name),
    "space": _Setting(str, bounds.check_name),
    "queue": _Setting(str, bounds.check_name),
    "max_attempts": _Setting(int, lambda name, value: bounds.check_integer(name, value, least=1), _integer_or_text),
    "timeout": _Setting(str, _at_least(1)),
    "retry": _Setting(str, _retry),
    "lease": _Setting(str, _at_least(lease.MIN_LEASE)),
    "breaker_threshold": _Setting(
        int, lambda name, value: bounds.check_integer(name, value, least=1), _integer_or_text
    ),
    "breaker_cooldown": _Setting(str, _at_least(1)),
    "app": _Setting(str, _object_path),
    "metrics": _Setting(str, _object_path),
    "keep_ended": _Setting(str, _at_least(DAY)),  # law L6: a repeated settlement is answered for a day
    "keep_ledger": _Setting(str, _at_least(1)),
    "idempotent": _Setting(bool, _boolean, _boolean_or_text),
    "idempotency_ttl": _Setting(str, _at_least(1)),
    "log": _Setting(str, _one_of(LogFormat)),
    "log_level": _Setting(str, _one_of(LogLevel)),
    "log_redact": _Setting(str, _names),
    "allowed_shell_commands": _list_of(check_program),
    "allowed_urls": _list_of(parse_pattern),
    "allowed_networks": _list_of(parse_network),
    "allowed_events": _list_of(bounds.check_name),
    "allowed_commands": _list_of(bounds.check_name),
    "signing": _Setting(str, _one_of(SigningMode)),
    "signing_key": _Setting(str, _secret),
    "signing_key_file": _Setting(str, _path),
    **{f"{SERVE}_{name}": setting for name, setting in _SERVE_SETTINGS.items()},
}
_SECRETS = ("signing_key", f"{SERVE}_client_secret")
_PATHS = ("signing_key_file", f"{SERVE}_tokens_file")  # in a file: relative to its folder
NAMES = tuple(_SETTINGS)

_TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "an array of texts"}


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
    stores: dict[str, dict[str, str]] = {}
    queues: dict[str, QueueTable] = {}
    if path is not None:
        in_file = _read_file(path)
        queues = in_file.pop("queues", {})
        origins |= dict.fromkeys((f"queues.{name}" for name in queues), str(path))
        stores = in_file.pop("stores", {})
        origins |= {f"stores.{name}.{key}": str(path) for name, store in stores.items() for key in store}
        _override(values, origins, in_file, dict.fromkeys(in_file, str(path)))
    variables = {name: PREFIX + name.upper() for name in _SETTINGS if environ.get(PREFIX + name.upper())}
    if environ.get(OTHER_SIGNING_KEY):
        variables.setdefault("signing_key", OTHER_SIGNING_KEY)
    _override(values, origins, _parse_texts(variables, environ), variables)
    for (name, key), variable in _store_variables(environ).items():
        stores.setdefault(name, {})[key] = _check_store_value(variable, key, environ[variable])
        origins[f"stores.{name}.{key}"] = variable
    arguments = {name: f"--{name.removeprefix(f'{SERVE}_').replace('_', '-')}" for name in given or {}}
    texts = {arguments[name]: text for name, text in (given or {}).items()}
    _override(values, origins, _parse_texts(arguments, texts), arguments)
    serve = {name: values.pop(f"{SERVE}_{name}") for name in _SERVE_SETTINGS if f"{SERVE}_{name}" in values}
    return Settings(
        **values, serve=ServeSettings(**serve), queues=queues, stores=_named_stores(stores), origins=origins
    )


def _parse_texts(names: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of settings whose texts are known by another name: that of a variable or of an argument."""
    return {
        name: _SETTINGS[name].check(other, _SETTINGS[name].from_text(texts[other])) for name, other in names.items()
    }


def _override(
    values: dict[str, Any], origins: dict[str, str], later: Mapping[str, Any], later_origins: Mapping[str, str]
) -> None:
    """Add the values of a later source. ``url`` and ``store`` replace each other: both say which store is used."""
    if "url" in later and "store" in later:
        names = f"{later_origins['url']}, {later_origins['store']}"
        raise InvalidInput("store", wanted="either a url or a store", got=f"both, from {names}")
    if "url" in later or "store" in later:
        for name in ("url", "store"):
            values.pop(name, None)
            origins.pop(name, None)
    values.update(later)
    origins.update(later_origins)


def unknown_variables(environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the ``HOLDFAST_*`` variables that name no setting: worth a warning, not an error."""
    environ = os.environ if environ is None else environ
    known = {CONFIG, *(PREFIX + name.upper() for name in _SETTINGS), *_store_variables(environ, empty=True).values()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def mask_secrets(url: str) -> str:
    """Return the URL with ``***`` in place of everything that could be a password or a key.

    A URL in a settings file is often malformed: a password has a slash or a question mark that should be escaped. So
    everything before the last at sign counts as user and password, and a text that is no URL is shown only if it is
    plain.
    """
    scheme = _SCHEME.match(url)
    if scheme is None:
        return url if _PLAIN.fullmatch(url.removeprefix(f"{STORE_SCHEME}:")) else MASK
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


# Named stores -----------------------------------------------------------------------------------------------


def _store_variables(environ: Mapping[str, str], *, empty: bool = False) -> dict[tuple[str, str], str]:
    """Return the variables that describe stores, by the name of the store and the key; empty ones only if asked."""
    found = {}
    for variable, text in environ.items():
        parts = _STORE_VARIABLE.fullmatch(variable)
        if parts is not None and (text or empty):
            found[parts[1].lower(), parts[2].lower()] = variable
    return found


def _check_store_value(where: str, key: str, value: str) -> str:
    if key == "space":
        return bounds.check_name(where, value)
    if store_name_of(_url(where, value)) is not None:
        raise InvalidInput(where, wanted="a store URL such as sqlite:///jobs.db", got=f"the name of a store, {value}")
    return value


def _named_stores(stores: Mapping[str, Mapping[str, str]]) -> dict[str, NamedStore]:
    for name, store in stores.items():
        if "url" not in store:
            raise InvalidInput(f"stores.{name}", wanted=f"a url, or {STORES_PREFIX}{name.upper()}_URL", got="none")
    return {name: NamedStore(**store) for name, store in stores.items()}


# The file ---------------------------------------------------------------------------------------------------


def _find_upwards(folder: Path) -> Path | None:
    candidates = (place / FILE_NAME for place in (folder, *folder.parents))
    return next((file for file in candidates if file.is_file()), None)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(str(file), wanted="a settings file that can be read", got=error.strerror or error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(str(file), wanted="TOML in UTF-8", got=str(error)) from error
    values: dict[str, Any] = {}
    for name, value in _with_serve_table(table, file).items():
        where = f"{name} in {file}"
        if name == "stores":
            values[name] = _read_stores(value, file)
            continue
        if name == "queues":
            values[name] = _read_queues(value, file)
            continue
        setting = _SETTINGS.get(name)
        if setting is None:
            known = ", ".join((*_SETTINGS, "queues", "stores"))
            raise InvalidInput(where, wanted=f"one of the settings {known}", got=f"the unknown {name!r}")
        if type(value) is not setting.toml_type:
            shown = MASK if name in _SECRETS else repr(value)
            raise InvalidInput(where, wanted=_TYPE_NAMES[setting.toml_type], got=f"{shown} ({type(value).__name__})")
        values[name] = setting.check(where, value)
    folder = file.absolute().parent
    values |= {name: str(folder / values[name]) for name in _PATHS if name in values}
    if isinstance(values.get("url"), str):
        values["url"] = _resolve_sqlite_path(str(values["url"]), folder)
    return values


def _with_serve_table(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Return the settings of a file with those of its table ``[serve]`` among them."""
    in_serve = table.pop(SERVE, {})
    if not isinstance(in_serve, dict):
        raise InvalidInput(f"{SERVE} in {file}", wanted="a table", got=in_serve)
    return table | {f"{SERVE}_{name}": value for name, value in in_serve.items()}


def _read_stores(table: object, file: Path) -> dict[str, dict[str, str]]:
    """Return the tables ``[stores.NAME]``. A store without a URL is allowed: a variable may have it."""
    stores: dict[str, dict[str, str]] = {}
    for name, store in table.items() if isinstance(table, dict) else [("NAME", table)]:
        where = f"stores.{name} in {file}"
        if not isinstance(store, dict) or not store.keys() <= {"url", "space"}:
            got = f"the key {min(store.keys() - {'url', 'space'})}" if isinstance(store, dict) else "no table"
            raise InvalidInput(where, wanted="a table with url and space", got=got)
        stores[_check_store_name(where, name)] = {}
        for key, value in store.items():
            if type(value) is not str:
                raise InvalidInput(f"{key} of {where}", wanted="text", got=f"a {type(value).__name__}")
            text = _check_store_value(f"{key} of {where}", key, value)
            stores[name][key] = _resolve_sqlite_path(text, file.absolute().parent) if key == "url" else text
    return stores


def _read_queues(tables: object, file: Path) -> dict[str, QueueTable]:
    """Return the tables ``[queues.NAME]``, which may have tables ``types.TYPE`` with limits of one type."""
    queues: dict[str, QueueTable] = {}
    for name, table in _tables("queues.NAME", tables, file):
        where = f"queues.{bounds.check_name(f'queues in {file}', name)}"
        types = {
            bounds.check_name(f"type of {where} in {file}", type_): _read_limits(f"{where}.types.{type_}", limits, file)
            for type_, limits in _tables(f"{where}.types.TYPE", table.pop("types", {}), file)
        }
        handlers = _read_handlers(where, table.pop("handlers", None), file)
        limits = _read_limits(where, table, file) if table else None
        queues[name] = QueueTable(limits=limits, types=types, handlers=handlers)
    return queues


def _read_handlers(where: str, types: object, file: Path) -> tuple[str, ...] | None:
    """Return ``handlers`` of a table ``[queues.NAME]``; None allows every handler."""
    if types is None:
        return None
    name = f"handlers of {where} in {file}"
    if not isinstance(types, list):
        raise InvalidInput(name, wanted="a list of types", got=types)
    return tuple(bounds.check_name(name, one) for one in types)


def _tables(where: str, tables: object, file: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the names and copies of tables inside a table. Raises ``InvalidInput`` for anything else."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise InvalidInput(f"{where} in {file}", wanted="a table", got=tables)
    return [(name, dict(table)) for name, table in tables.items()]


def _read_limits(where: str, table: Mapping[str, Any], file: Path) -> QueueLimits:
    unknown = sorted(table.keys() - set(LIMIT_FIELDS))
    if unknown:
        raise InvalidInput(f"{where} in {file}", wanted=f"{', '.join(LIMIT_FIELDS)}", got=f"the key {unknown[0]}")
    values = dict(table)
    if isinstance(values.get("rate"), str):
        values["rate"] = duration.parse_rate(f"rate of {where} in {file}", values["rate"])
    try:
        return QueueLimits(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{error.field} of {where} in {file}", wanted=error.wanted, got=error.got) from error


def _resolve_sqlite_path(url: str, folder: Path) -> str:
    """Resolve a relative SQLite path against the folder of the settings file."""
    parts = urlsplit(url)
    path = Path(unquote(parts.path[1:]))
    if parts.scheme != "sqlite" or parts.netloc or not parts.path[1:] or path.is_absolute():
        return url
    return f"sqlite:///{quote((folder / path).as_posix())}" + (f"?{parts.query}" if parts.query else "")
