"""Reading ``postgresql://user:password@host:port/database?...``: our own options, and those of libpq."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlunsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.drivers.postgres.statements import SCHEMA_NAME
from holdfast.errors import ConnectError, InvalidInput

OURS = ("connections", "listen", "patience", "schema")
OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a URL says; every default is the safe one."""

    conninfo: str = field(repr=False)  # has the password in it
    schema: str = "holdfast"
    connections: int = 10  # at the most, per process
    patience: float = 15.0  # seconds that a call may wait for a server that is away, or for a free connection
    listen: str | None = field(default=None, repr=False)  # a direct connection for LISTEN; None is the same server


def read(url: SplitResult) -> Options:
    """Raises ``ConnectError`` or ``InvalidInput``; neither ever repeats a password."""
    ours: dict[str, str] = {}
    theirs: list[tuple[str, str]] = []
    for key, value in parse_qsl(url.query, keep_blank_values=True):
        if key in OURS:
            ours[key] = value
        else:
            theirs.append((key, value))
    base = urlunsplit(url._replace(query=urlencode(theirs, quote_via=quote), fragment=""))
    return Options(
        conninfo=_conninfo(base),
        schema=_schema(ours.get("schema", "holdfast")),
        connections=_whole("connections", ours.get("connections", "10")),
        patience=_seconds("patience", ours.get("patience", "15")),
        listen=_listen(ours.get("listen")),
    )


def _conninfo(url: str) -> str:
    try:
        given = conninfo_to_dict(url)
        usual: dict[str, str | int] = {
            "connect_timeout": 10,
            "application_name": "holdfast",
            "keepalives_idle": 30,
            "tcp_user_timeout": 30_000,
        }
        return make_conninfo(url, **{key: value for key, value in usual.items() if key not in given})
    except psycopg.Error:
        # What libpq says of a URL that it cannot read may repeat any part of it.
        raise ConnectError(
            "wanted postgresql://user:password@host:port/database with options of libpq or "
            f"{', '.join(OURS)}; got something that libpq cannot read (percent-encode special characters)"
        ) from None


def _schema(value: str) -> str:
    if not SCHEMA_NAME.fullmatch(value) or value.startswith("pg_"):
        raise InvalidInput("schema", wanted="a lower-case name of letters, digits and _", got=value)
    return value


def _whole(name: str, value: str) -> int:
    if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= 1000):
        raise InvalidInput(name, wanted="a whole number from 1 to 1000", got=value)
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise InvalidInput(name, wanted="seconds from 0 to 86400", got=value)
    return seconds


def _listen(value: str | None) -> str | None:
    if value is None or value == OFF:
        return value
    if not value.startswith(("postgresql://", "postgres://")):
        raise InvalidInput("listen", wanted="off or a postgresql:// URL, percent-encoded", got="something else")
    return _conninfo(value)
