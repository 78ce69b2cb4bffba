"""The values of options and arguments, parsed once: durations, instants, rates, payloads, meta."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.clock import SystemClock, from_datetime, from_timedelta, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import duration, instant, retry, unique
from holdfast.model.lease import MIN_LEASE
from holdfast.observability.endpoint import parse_address
from holdfast.wire.codec import JSON

MAX_QUOTED_BYTES = 60  # of a payload in an error message

F = TypeVar("F", bound=Callable[..., Any])


class _TextParameter(click.ParamType):  # type: ignore[type-arg] # generic in new versions of click only
    """A parameter that is parsed from text; ``InvalidInput`` becomes click's usage error, which names the option."""

    def parse(self, text: str) -> Any:
        """Return the value, or raise ``InvalidInput``."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text. A default that is not text is returned unchanged."""
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except InvalidInput as error:
            self.fail(f"wanted {error.wanted}, got {error.got}", param, ctx)


class Duration(_TextParameter):
    """``5m`` becomes a timedelta, at least ``least``."""

    name = "duration"

    def __init__(self, least: timedelta = timedelta(0)) -> None:
        self._least = least

    def parse(self, text: str) -> timedelta:
        """Return the length of a text such as ``90s``, at least ``least``, exact to the microsecond."""
        value = duration.parse("duration", text)
        if value < self._least:
            raise InvalidInput("duration", wanted=f"at least {duration.format_exact(self._least)}", got=text)
        return value


class DurationOrForever(_TextParameter):
    """A duration, or the word ``forever``, which becomes None."""

    name = "duration|forever"

    def parse(self, text: str) -> timedelta | None:
        """Return the length of a text such as ``90s``, exact to the microsecond; None for ``forever``."""
        return None if text == "forever" else duration.parse("duration", text)


class Place(_TextParameter):
    """A folder or URL that Spark opens: any text but an empty one, for example of an unset variable."""

    name = "place"

    def __init__(self, wanted: str) -> None:
        self._wanted = wanted

    def parse(self, text: str) -> str:
        """Return the text."""
        if not text:
            raise InvalidInput("place", wanted=self._wanted, got=text)
        return text


class SparkSetting(_TextParameter):
    """``spark.executor.memory=2g`` becomes a pair."""

    name = "setting"

    def parse(self, text: str) -> tuple[str, str]:
        """Return the name and the value, which may be empty."""
        key, equals, value = text.partition("=")
        if not (equals and key.startswith("spark.")):
            raise InvalidInput("setting", wanted="a setting such as spark.executor.memory=2g", got=text)
        return key, value


class Address(_TextParameter):
    """``9000`` or ``127.0.0.1:9000`` becomes a host and a port."""

    name = "host:port"

    def parse(self, text: str) -> tuple[str, int]:
        """Return the host and port of ``9000``, ``:9000``, ``host:9000`` or ``[::1]:9000``."""
        return parse_address(text)


class Instant(_TextParameter):
    """ISO 8601 with a time zone becomes an aware datetime."""

    name = "instant"

    def parse(self, text: str) -> datetime:
        """Return the instant of a text as an aware datetime."""
        return instant.parse("instant", text)


class PastInstant(_TextParameter):
    """An instant, or its age: ``2h`` is two hours ago. Becomes microseconds since the epoch."""

    name = "when"

    def parse(self, text: str) -> int:
        """Return microseconds since the epoch."""
        try:
            return SystemClock().now() - from_timedelta(duration.parse("when", text))
        except InvalidInput:
            pass
        try:
            return from_datetime(instant.parse("when", text))
        except InvalidInput as error:
            wanted = f"{instant.WANTED_INSTANT}, or how long ago (2h)"
            raise InvalidInput("when", wanted=wanted, got=text) from error


class Rate(_TextParameter):
    """``10``, ``10/s``, ``600/m`` become times per second."""

    name = "rate"

    def parse(self, text: str) -> float:
        """Return a rate per second from ``10``, ``10/s``, ``600/m``, ``5/h`` or ``1/d``."""
        return duration.parse_rate("rate", text)


class RetryPolicy(_TextParameter):
    """``exponential(1s, max 1h)`` becomes a retry policy."""

    name = "policy"

    def parse(self, text: str) -> retry.BuiltInPolicy:
        """Return the policy of a text, as ``str(policy)`` writes it."""
        return retry.parse(text)


class UniqueRule(_TextParameter):
    """``while_queued``, ``while_open`` or a length of time."""

    name = "unique"

    def parse(self, text: str) -> unique.Unique:
        """Return the rule, or the length as a timedelta."""
        return unique.parse_unique("unique", text)


class ValueOrNone(click.ParamType):  # type: ignore[type-arg] # generic in new versions of click only
    """A value of another type, or the word ``none``, which becomes False: None already means "not given"."""

    def __init__(self, value_type: Any) -> None:
        self.name = f"{value_type.name}|none"
        self._value_type = value_type

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return False for the word ``none``; any other text is read as the value type reads it."""
        return False if value == "none" else self._value_type.convert(value, param, ctx)


FOLDER = Place("a folder")
FOLDER_OR_URL = Place("a folder or a URL")
DURATION, DURATION_OR_FOREVER, INSTANT, PAST_INSTANT = Duration(), DurationOrForever(), Instant(), PastInstant()
KEEP_ENDED = Duration(least=timedelta(days=1))  # law L6: a repeated settlement is answered for a day
KEEP_DEAD = ValueOrNone(KEEP_ENDED)
LEASE = Duration(least=to_timedelta(MIN_LEASE))
POSITIVE_DURATION = Duration(least=timedelta(microseconds=1))
RATE, RETRY_POLICY, SPARK_SETTING, UNIQUE = Rate(), RetryPolicy(), SparkSetting(), UniqueRule()


def add_options(options: Sequence[Callable[[F], F]], command: F) -> F:
    """Decorate a command with options, shown by ``--help`` in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def read_payload(text: str | None) -> object:
    """Return the payload of the command line: JSON, ``-`` for stdin, ``@file`` for a file; no payload is null."""
    if text is None:
        return None
    if text == "-":
        return _decode_json("payload from stdin", sys.stdin.buffer.read())
    if text.startswith("@"):
        return _decode_json(f"payload from {text[1:]}", read_file(text[1:]))
    return _decode_json("payload", text.encode("utf-8", "surrogateescape"))


def read_file(name: str) -> bytes:
    """Return the bytes of a file that the user named, or raise a usage error."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(
            f"wanted a file that can be read, got {name or repr(name)}: {error.strerror or error}"
        ) from error


def _decode_json(field: str, data: bytes) -> object:
    try:
        return JSON.decode(data, field=field)
    except InvalidInput as error:
        quoted = data[:MAX_QUOTED_BYTES].decode("utf-8", "backslashreplace")
        looks_like_text = quoted[:1].isalpha() and len(data) <= MAX_QUOTED_BYTES
        hint = f"; text needs its quotes: '\"{quoted}\"'" if looks_like_text else ""
        raise click.UsageError(f"{error}{hint}") from error


def parse_meta(pairs: tuple[str, ...]) -> dict[str, object]:
    """Return ``k=v`` pairs as a dict; the values are text."""
    meta: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise click.UsageError(f"--meta: wanted key=value, got {pair}")
        meta[key] = value
    return meta
