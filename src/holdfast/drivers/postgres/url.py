"""Reading ``postgresql://user:password@host:port/database?...``: the options of this driver and those of libpq."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.drivers.postgres.statements import SCHEMA_NAME
from holdfast.errors import ConnectError, InvalidInput

DRIVER_OPTIONS = ("connections", "listen", "patience", "schema")
LISTEN_OFF = "off"
MAX_CONNECTIONS = 1000
MAX_PATIENCE_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The content of a URL; every default is the safe one."""

    conninfo: str = field(repr=False)  # has the password in it
    schema: str = "holdfast"
    connections: int = 10  # the most per process
    patience: float = 15.0  # seconds that a call may wait for an unreachable server, or for a free connection
    listen: str | None = field(default=None, repr=False)  # conninfo for LISTEN, or LISTEN_OFF; None: the same server


def read_url(url: SplitResult) -> Options:
    """Return the options of a URL. Raises ``ConnectError`` or ``InvalidInput``; neither repeats a password."""
    ours: dict[str, str] = {}
    for_libpq: list[tuple[str, str]] = []
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        if key in DRIVER_OPTIONS:
            ours[key] = value
        else:
            for_libpq.append((key, value))
    base = urlunsplit(url._replace(query=urlencode(for_libpq, quote_via=quote), fragment=""))
    return Options(
        conninfo=_read_conninfo(base),
        schema=_read_schema(ours.get("schema", "holdfast")),
        connections=_read_connections(ours.get("connections", "10")),
        patience=_read_patience(ours.get("patience", "15")),
        listen=_read_listen(ours.get("listen")),
    )


def _read_conninfo(url: str) -> str:
    try:
        parameters = conninfo_to_dict(url)
        defaults: dict[str, str | int] = {
            "connect_timeout": 10,
            "application_name": "holdfast",
            "keepalives_idle": 30,
            "tcp_user_timeout": 30_000,
        }
        return make_conninfo(url, **{key: value for key, value in defaults.items() if key not in parameters})
    except psycopg.Error:
        # libpq's message about a URL that it cannot read may repeat any part of the URL.
        raise ConnectError(
            "wanted postgresql://user:password@host:port/database with options of libpq or "
            f"{', '.join(DRIVER_OPTIONS)}; got something that libpq cannot read (percent-encode special characters)"
        ) from None


def _read_schema(value: str) -> str:
    if not SCHEMA_NAME.fullmatch(value) or value.startswith("pg_"):
        raise InvalidInput("schema", wanted="a lower-case name of letters, digits and _", got=value)
    return value


def _read_connections(value: str) -> int:
    if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= MAX_CONNECTIONS):
        raise InvalidInput("connections", wanted=f"a whole number from 1 to {MAX_CONNECTIONS}", got=value)
    return int(value)


def _read_patience(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_PATIENCE_SECONDS:
        raise InvalidInput("patience", wanted=f"seconds from 0 to {MAX_PATIENCE_SECONDS}", got=value)
    return seconds


def _read_listen(value: str | None) -> str | None:
    if value is None or value == LISTEN_OFF:
        return value
    if not value.startswith(("postgresql://", "postgres://")):
        raise InvalidInput("listen", wanted="off or a postgresql:// URL, percent-encoded", got="something else")
    return _read_conninfo(value)
