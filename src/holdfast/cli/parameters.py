"""What stands behind an option, read once: lengths, instants, rates, payloads, meta."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click

from holdfast.clock import SystemClock, from_datetime, from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration, retry
from holdfast.wire.codec import JSON

INSTANT_WANTED = "an instant such as 2026-11-15T20:30:00Z or 2026-11-15T21:30:00+01:00"


class _Value(click.ParamType):  # type: ignore[type-arg] # generic in new versions of click only
    """Reads text; what is refused becomes click's own complaint, which names the option."""

    def read(self, text: str) -> Any:
        """The value, or ``InvalidInput``."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See ``click.ParamType``; a default comes as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self.read(value)
        except InvalidInput as error:
            self.fail(f"wanted {error.wanted}, got {error.got}", param, ctx)


class Length(_Value):
    """``5m`` becomes a timedelta."""

    name = "length"

    def read(self, text: str) -> timedelta:
        """See ``duration.parse``."""
        return duration.parse("length", text)


class Setting(_Value):
    """``spark.executor.memory=2g`` becomes a pair."""

    name = "setting"

    def read(self, text: str) -> tuple[str, str]:
        """The name and the value, which may be empty."""
        key, equals, value = text.partition("=")
        if not (equals and key.startswith("spark.")):
            raise InvalidInput("setting", wanted="a setting such as spark.executor.memory=2g", got=text)
        return key, value


class Instant(_Value):
    """ISO 8601 with a time zone becomes an aware datetime."""

    name = "instant"

    def read(self, text: str) -> datetime:
        """See ``instant``."""
        return instant("instant", text)


class Past(_Value):
    """An instant, or a length that ended now: ``2h`` is two hours ago. Becomes microseconds."""

    name = "when"

    def read(self, text: str) -> int:
        """Microseconds since the epoch."""
        try:
            return SystemClock().now() - from_timedelta(duration.parse("when", text))
        except InvalidInput:
            pass
        try:
            return from_datetime(instant("when", text))
        except InvalidInput as error:
            wanted = f"{INSTANT_WANTED}, or how long ago (2h)"
            raise InvalidInput("when", wanted=wanted, got=text) from error


class Rate(_Value):
    """``10``, ``10/s``, ``600/m`` become times per second."""

    name = "rate"

    def read(self, text: str) -> float:
        """See ``duration.parse_rate``."""
        return duration.parse_rate("rate", text)


class Policy(_Value):
    """``exponential(1s, max 1h)`` becomes a retry policy."""

    name = "policy"

    def read(self, text: str) -> retry.BuiltInPolicy:
        """See ``retry.parse``."""
        return retry.parse(text)


class OrNone(_Value):
    """What another reads, or the word ``none``, which becomes False: not given is None already."""

    def __init__(self, other: Any) -> None:
        self.name = f"{other.name}|none"
        self._other = other

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """See ``click.ParamType``."""
        return False if value == "none" else self._other.convert(value, param, ctx)


LENGTH, INSTANT, PAST, RATE, POLICY, SETTING = Length(), Instant(), Past(), Rate(), Policy(), Setting()


def instant(field: str, text: str) -> datetime:
    """An aware datetime; a text without a time zone is refused, because nobody knows which was meant."""
    try:
        value = datetime.fromisoformat(text)
        bounds.instant_from(field, value)
    except ValueError as error:
        raise InvalidInput(field, wanted=INSTANT_WANTED, got=text) from error
    return value


def payload(text: str | None) -> object:
    """A payload from the command line: JSON, ``-`` for stdin, ``@file`` for a file; none is null."""
    if text is None:
        return None
    if text == "-":
        return _json("payload from stdin", sys.stdin.buffer.read())
    if text.startswith("@"):
        return _json(f"payload from {text[1:]}", contents(text[1:]))
    return _json("payload", text.encode("utf-8", "surrogateescape"))


def contents(name: str) -> bytes:
    """The bytes of a file that a user named."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"wanted a file that can be read, got {name}: {error.strerror or error}") from error


def _json(field: str, data: bytes) -> object:
    try:
        return JSON.decode(data, field=field)
    except InvalidInput as error:
        shown = data[:60].decode("utf-8", "backslashreplace")
        hint = f"; text needs its quotes: '\"{shown}\"'" if shown[:1].isalpha() and len(data) <= 60 else ""
        raise click.UsageError(f"{error}{hint}") from error


def meta(pairs: tuple[str, ...]) -> dict[str, object]:
    """``k=v`` pairs; the values are texts."""
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--meta: wanted key=value, got {pair}")
        found[key] = value
    return found


def as_json(data: bytes | None) -> object:
    """Stored bytes for a JSON document: their value, or the bytes in base64 under a key that says so."""
    if data is None:
        return None
    try:
        return JSON.decode(data)
    except InvalidInput:
        from base64 import b64encode  # noqa: PLC0415 - rare

        return {"base64": b64encode(data).decode("ascii")}


def as_text(data: bytes | None) -> str | None:
    """Stored bytes for people: short JSON on one line, longer JSON indented."""
    if data is None:
        return None
    value = as_json(data)
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 60 else json.dumps(value, ensure_ascii=False, indent=2)
