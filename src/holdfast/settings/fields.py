"""How each setting is read from text or TOML, and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration, lease
from holdfast.model import retry as retry_policy
from holdfast.model.retry import BuiltInPolicy
from holdfast.model.secret import Secret
from holdfast.net.addresses import parse_network
from holdfast.net.urls import parse_pattern
from holdfast.settings.named_stores import check_store_name, check_url
from holdfast.settings.values import LogFormat, LogLevel, SigningMode

_OBJECT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def check_program(field_name: str, path: str) -> str:
    """Check the path of a program that jobs may run."""
    if not is_plain_path(path):
        raise InvalidInput(field_name, wanted="the absolute path of a program, such as /usr/bin/rsync", got=path)
    return path


def is_plain_path(path: str) -> bool:
    """Whether a path is absolute and written in the one way that has no ``..``, no ``.`` and no second slash."""
    return Path(path).is_absolute() and os.path.normpath(path) == path and "\0" not in path


class Setting(NamedTuple):
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


def _list_of(check: Callable[[str, str], object]) -> Setting:
    """Return a setting with several texts: an array in the file, with commas between them elsewhere."""

    def check_all(name: str, values: list[object]) -> tuple[str, ...]:
        for value in values:
            if not isinstance(value, str):
                raise InvalidInput(name, wanted="texts", got=value)
            check(name, value)
        return tuple(map(str, values))

    def split(text: str) -> list[str]:
        return [each.strip() for each in text.split(",") if each.strip()]

    return Setting(list, check_all, split)


def _secret(name: str, value: str) -> Secret:
    if not value.strip():
        raise InvalidInput(name, wanted="a secret", got="none")
    return Secret(value)


def _path(name: str, value: str) -> str:
    if not value.strip() or "\0" in value:
        raise InvalidInput(name, wanted="the path of a file", got=value)
    return value


SETTINGS: dict[str, Setting] = {
    "url": Setting(str, check_url),
    "store": Setting(str, check_store_name),
    "space": Setting(str, bounds.check_name),
    "queue": Setting(str, bounds.check_name),
    "max_attempts": Setting(int, lambda name, value: bounds.check_integer(name, value, least=1), _integer_or_text),
    "timeout": Setting(str, _at_least(1)),
    "retry": Setting(str, _retry),
    "lease": Setting(str, _at_least(lease.MIN_LEASE)),
    "breaker_threshold": Setting(int, lambda name, value: bounds.check_integer(name, value, least=1), _integer_or_text),
    "breaker_cooldown": Setting(str, _at_least(1)),
    "app": Setting(str, _object_path),
    "metrics": Setting(str, _object_path),
    "keep_ended": Setting(str, _at_least(DAY)),  # law L6: a repeated settlement is answered for a day
    "keep_ledger": Setting(str, _at_least(1)),
    "idempotent": Setting(bool, _boolean, _boolean_or_text),
    "idempotency_ttl": Setting(str, _at_least(1)),
    "log": Setting(str, _one_of(LogFormat)),
    "log_level": Setting(str, _one_of(LogLevel)),
    "log_redact": Setting(str, _names),
    "allowed_shell_commands": _list_of(check_program),
    "allowed_urls": _list_of(parse_pattern),
    "allowed_networks": _list_of(parse_network),
    "allowed_events": _list_of(bounds.check_name),
    "allowed_commands": _list_of(bounds.check_name),
    "signing": Setting(str, _one_of(SigningMode)),
    "signing_key": Setting(str, _secret),
    "signing_key_file": Setting(str, _path),
}
NAMES = tuple(SETTINGS)

TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "an array of texts"}
