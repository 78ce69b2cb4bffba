"""How one setting is read from text or TOML, checked and documented."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from holdfast.clock import to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.model import retry as retry_policy
from holdfast.model.retry import BuiltInPolicy
from holdfast.model.secret import Secret

_OBJECT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How one setting is read, checked and documented. ``check`` takes the name and the value of the file or text."""

    check: Callable[[str, Any], object]
    toml_type: type = str
    from_text: Callable[[str], object] = str
    kind: str  # for people: what the value is
    meaning: str  # for people, in one line
    option: str = ""  # of the command


def integer_or_text(text: str) -> object:
    """Return a whole number; any other text as it is, for the check to refuse."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def boolean_or_text(text: str) -> object:
    """Return True or False; any other text as it is, for the check to refuse."""
    return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)


def check_object_path(name: str, value: str) -> str:
    """Check ``module:object``."""
    if not _OBJECT_PATH.fullmatch(value):
        raise InvalidInput(name, wanted="module:object", got=value)
    return value


def duration_setting(least: int, *, meaning: str, option: str = "") -> Setting:
    """Return a setting with a duration of at least ``least`` microseconds."""

    def check(name: str, value: str) -> timedelta:
        length = duration.parse(name, value)
        if length < to_timedelta(least):
            raise InvalidInput(name, wanted=f"at least {duration.format_rounded(least)}", got=value)
        return length

    return Setting(check=check, kind="duration", meaning=meaning, option=option)


def count_setting(*, meaning: str, option: str = "") -> Setting:
    """Return a setting with a whole number from 1."""
    return Setting(
        check=lambda name, value: bounds.check_integer(name, value, least=1),
        toml_type=int,
        from_text=integer_or_text,
        kind="number from 1",
        meaning=meaning,
        option=option,
    )


def check_retry(name: str, value: str) -> BuiltInPolicy:
    """Return the retry policy that a text describes."""
    try:
        return retry_policy.parse(value)
    except InvalidInput as error:
        raise InvalidInput(name, wanted=error.wanted, got=value) from error


def choice_setting(choices: type[StrEnum], *, meaning: str, option: str = "") -> Setting:
    """Return a setting with one of these choices, in any case."""

    def check(name: str, value: str) -> StrEnum:
        try:
            return choices(value.lower())
        except ValueError:
            raise InvalidInput(name, wanted=f"one of {', '.join(choices)}", got=value) from None

    kind = ", ".join(f"`{choice}`" for choice in choices)
    return Setting(check=check, kind=kind, meaning=meaning, option=option)


def check_names(name: str, value: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(bounds.check_name(name, each.strip()) for each in value.split(",") if each.strip())


def list_setting(check: Callable[[str, str], object], *, kind: str, meaning: str, option: str = "") -> Setting:
    """Return a setting with several texts: an array in the file, with commas between them elsewhere."""

    def check_all(name: str, values: list[object]) -> tuple[str, ...]:
        for value in values:
            if not isinstance(value, str):
                raise InvalidInput(name, wanted="texts", got=value)
            check(name, value)
        return tuple(map(str, values))

    def split(text: str) -> list[str]:
        return [each.strip() for each in text.split(",") if each.strip()]

    return Setting(
        check=check_all, toml_type=list, from_text=split, kind=f"list of {kind}", meaning=meaning, option=option
    )


def check_secret(name: str, value: str) -> Secret:
    """Return a secret, which is never printed."""
    if not value.strip():
        raise InvalidInput(name, wanted="a secret", got="none")
    return Secret(value)


def check_path(name: str, value: str) -> str:
    """Check the path of a file."""
    if not value.strip() or "\0" in value:
        raise InvalidInput(name, wanted="the path of a file", got=value)
    return value
