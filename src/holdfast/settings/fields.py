"""How each setting is read from text or TOML, and checked."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How one setting is read, checked and documented. ``check`` takes the name and the value of the file or text."""

    check: Callable[[str, Any], object]
    toml_type: type = str
    from_text: Callable[[str], object] = str
    kind: str  # for people: what the value is
    meaning: str  # for people, in one line
    option: str = ""  # of the command


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


def _duration(least: int, *, meaning: str, option: str = "") -> Setting:
    def check(name: str, value: str) -> timedelta:
        length = duration.parse(name, value)
        if length < to_timedelta(least):
            raise InvalidInput(name, wanted=f"at least {duration.format_rounded(least)}", got=value)
        return length

    return Setting(check=check, kind="duration", meaning=meaning, option=option)


def _count(*, meaning: str, option: str = "") -> Setting:
    return Setting(
        check=lambda name, value: bounds.check_integer(name, value, least=1),
        toml_type=int,
        from_text=_integer_or_text,
        kind="number from 1",
        meaning=meaning,
        option=option,
    )


def _retry(name: str, value: str) -> BuiltInPolicy:
    try:
        return retry_policy.parse(value)
    except InvalidInput as error:
        raise InvalidInput(name, wanted=error.wanted, got=value) from error


def _choice(choices: type[StrEnum], *, meaning: str, option: str = "") -> Setting:
    def check(name: str, value: str) -> StrEnum:
        try:
            return choices(value.lower())
        except ValueError:
            raise InvalidInput(name, wanted=f"one of {', '.join(choices)}", got=value) from None

    kind = ", ".join(f"`{choice}`" for choice in choices)
    return Setting(check=check, kind=kind, meaning=meaning, option=option)


def _names(name: str, value: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(bounds.check_name(name, each.strip()) for each in value.split(",") if each.strip())


def _list_of(check: Callable[[str, str], object], *, kind: str, meaning: str) -> Setting:
    """Return a setting with several texts: an array in the file, with commas between them elsewhere."""

    def check_all(name: str, values: list[object]) -> tuple[str, ...]:
        for value in values:
            if not isinstance(value, str):
                raise InvalidInput(name, wanted="texts", got=value)
            check(name, value)
        return tuple(map(str, values))

    def split(text: str) -> list[str]:
        return [each.strip() for each in text.split(",") if each.strip()]

    return Setting(check=check_all, toml_type=list, from_text=split, kind=f"list of {kind}", meaning=meaning)


def _secret(name: str, value: str) -> Secret:
    if not value.strip():
        raise InvalidInput(name, wanted="a secret", got="none")
    return Secret(value)


def _path(name: str, value: str) -> str:
    if not value.strip() or "\0" in value:
        raise InvalidInput(name, wanted="the path of a file", got=value)
    return value


SETTINGS: dict[str, Setting] = {
    "url": Setting(check=check_url, kind="URL", meaning="the store", option="--url"),
    "store": Setting(
        check=check_store_name, kind="name", meaning="the store by its name, instead of `url`", option="--store"
    ),
    "space": Setting(check=bounds.check_name, kind="name", meaning="the tenant", option="--space"),
    "environment": Setting(
        check=bounds.check_name,
        kind="name",
        meaning="such as `production`: schedules with `environments` fire only in these",
    ),
    "queue": Setting(
        check=bounds.check_name, kind="name", meaning="for jobs without a queue", option="enqueue --queue"
    ),
    "max_attempts": _count(
        meaning="the most runs of a job, for jobs without their own", option="enqueue --max-attempts"
    ),
    "timeout": _duration(1, meaning="of one attempt, for jobs without their own", option="enqueue --timeout"),
    "retry": Setting(
        check=_retry,
        kind="policy",
        meaning="delays between the runs of a job, for jobs and handlers without a policy",
        option="work --retry",
    ),
    "lease": _duration(
        lease.MIN_LEASE, meaning="the length of a worker's leases; at least 100 ms", option="work --lease"
    ),
    "breaker_threshold": _count(meaning="failed attempts in a row that open the breaker of a type; none: no breaker"),
    "breaker_cooldown": _duration(1, meaning="for how long a breaker is open"),
    "app": Setting(
        check=_object_path,
        kind="`module:object`",
        meaning="its handlers are run, and say how their jobs are enqueued",
        option="`MODULE:APP` of work; enqueue --app",
    ),
    "metrics": Setting(check=_object_path, kind="`module:object`", meaning="a collector of metrics of your own"),
    "keep_ended": _duration(  # law L6: a repeated settlement is answered for a day
        DAY, meaning="how long done and cancelled jobs are kept; at least a day", option="trim --keep-ended"
    ),
    "keep_ledger": _duration(1, meaning="how long ledger rows are kept", option="trim --keep-ledger"),
    "idempotent": Setting(
        check=_boolean,
        toml_type=bool,
        from_text=_boolean_or_text,
        kind="true or false",
        meaning="skip jobs whose idempotency key is done, for handlers that do not say",
    ),
    "idempotency_ttl": _duration(1, meaning="how long a key is done"),
    "log": _choice(LogFormat, meaning="the format of the log", option="work --log"),
    "log_level": _choice(LogLevel, meaning="the lowest level that is logged", option="work --log-level"),
    "log_redact": Setting(check=_names, kind="names with commas", meaning="more names whose values the log masks"),
    "allowed_shell_commands": _list_of(
        check_program, kind="paths", meaning="programs that the handler `shell` may run"
    ),
    "allowed_urls": _list_of(parse_pattern, kind="URL patterns", meaning="URLs that the handler `url` may request"),
    "allowed_networks": _list_of(
        parse_network, kind="networks", meaning="private networks that these requests may reach"
    ),
    "allowed_events": _list_of(bounds.check_name, kind="names", meaning="events that the handler `event` may pass on"),
    "allowed_commands": _list_of(
        bounds.check_name, kind="names", meaning="commands that the handler `command` may call"
    ),
    "signing": _choice(SigningMode, meaning="whether jobs are signed and verified"),
    "signing_key": Setting(
        check=_secret,
        kind="secrets with commas",
        meaning="the first one signs, all of them verify",
    ),
    "signing_key_file": Setting(check=_path, kind="path", meaning="a file of keys, if there is no `signing_key`"),
}
NAMES = tuple(SETTINGS)

TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "an array of texts"}
