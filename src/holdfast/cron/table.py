"""Schedules in ``holdfast.toml``: a table ``[schedules.NAME]`` for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any

from holdfast.cron.schedule import Schedule
from holdfast.cron.window import TimeWindow, parse_time_of_day
from holdfast.errors import InvalidInput
from holdfast.model import duration

_FIELD_NAMES = {"cron": "expression", "between": "window"}  # where a key has another name than its field
_KEYS = (*_FIELD_NAMES, *(each.name for each in fields(Schedule) if each.name not in {"name", "expression", "window"}))


def read_table(name: str, table: Mapping[str, object], *, where: str) -> Schedule:
    """Return the schedule of a table. The keys are the fields of ``Schedule``, with lengths as texts (``"5m"``).

    ``cron`` is its expression and ``between`` an array of two times. Errors name the key and ``where`` it is.
    """
    place = f"schedules.{name} in {where}"
    if unknown := sorted(table.keys() - set(_KEYS)):
        raise InvalidInput(place, wanted=f"the keys {', '.join(_KEYS)}", got=f"the unknown {unknown[0]!r}")
    for key in ("cron", "type"):
        if key not in table:
            raise InvalidInput(place, wanted=f"a {key}", got="none")
    values = {_FIELD_NAMES.get(key, key): _read(key, value, place) for key, value in table.items()}
    try:
        return Schedule(name=name, **values)
    except InvalidInput as error:
        raise InvalidInput(f"{error.field} of {place}", wanted=error.wanted, got=error.got) from error


def _read(key: str, value: object, place: str) -> Any:  # the constructor checks it
    read = _READERS.get(key)
    return value if read is None else read(f"{key} of {place}", value)


def _length(field: str, value: object) -> timedelta:
    if not isinstance(value, str):
        raise InvalidInput(field, wanted=duration.WANTED_DURATION, got=value)
    return duration.parse(field, value)


def _window(field: str, value: object) -> TimeWindow:
    match value:
        case [str() as start, str() as end]:
            return TimeWindow(start=parse_time_of_day(field, start), end=parse_time_of_day(field, end))
        case _:
            raise InvalidInput(field, wanted='two times such as ["08:00", "18:00"]', got=value)


_READERS: dict[str, Callable[[str, object], object]] = {
    "between": _window,
    "timeout": _length,
    "jitter": _length,
    "grace": _length,
}
