"""``CronExpression``: when a schedule fires.

cronsim parses an expression and finds the next wall time that matches it. This module turns wall times into instants,
because a wall time is skipped or comes twice where the offset of a time zone changes (daylight saving time):

- A schedule with a **fixed** hour and minute fires once a day. A time in the skipped hour fires at the first instant
  after the gap. A time in the repeated hour fires at its first occurrence.
- A schedule whose hour or minute field begins with ``*`` follows **elapsed** time: nothing fires for the skipped hour,
  and the repeated hour fires twice. ``*/5 * * * *`` fires every five minutes, always.

This is the rule of Debian's cron. No instant fires twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput
from holdfast.model import bounds

MAX_EXPRESSION_CHARACTERS = 256
MAX_FIRES = 100_000  # of one call of ``between``
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*")
_FIELDS = {  # as cronsim names them: the values that each one takes
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L or LW",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT, 5#2 or 5L",
}


class _Rule(NamedTuple):
    """A parsed expression."""

    text: str  # five or six fields, for cronsim
    is_fixed: bool  # neither the hour nor the minute field begins with a star


@dataclass(frozen=True, slots=True)
class CronExpression:
    """The instants at which a cron expression fires in a time zone; see this module for daylight saving time.

    ``text`` has five fields, or six of which the first is the second, or is a name such as ``@daily``. A ``window``
    leaves only the fires whose wall time it contains. Raises ``InvalidInput``, which names the wrong field.
    """

    text: str
    timezone: str = "UTC"
    window: TimeWindow | None = None

    def __post_init__(self) -> None:
        """Check the expression and the time zone."""
        if not isinstance(self.text, str) or len(self.text) > MAX_EXPRESSION_CHARACTERS:
            wanted = f"a cron expression of at most {MAX_EXPRESSION_CHARACTERS} characters"
            raise InvalidInput("expression", wanted=wanted, got=self.text)
        object.__setattr__(self, "text", " ".join(self.text.split()))
        find_zone(self.timezone)
        _parse(self.text, self.window)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first fire strictly after an instant, in the time zone; None if there is none in 50 years."""
        bounds.instant_from("instant", instant)
        rule, zone = _parse(self.text, self.window), find_zone(self.timezone)
        try:
            start = instant.astimezone(UTC).replace(microsecond=0) + _SECOND  # fires are at whole seconds
            found = self._next_fixed(start, rule, zone) if rule.is_fixed else self._next_elapsed(start, rule, zone)
            return None if found is None else found.astimezone(zone)
        except OverflowError:  # datetimes end with the year 9999
            return None

    def between(self, start: datetime, end: datetime, limit: int = 1_000) -> list[datetime]:
        """Return at most ``limit`` fires from ``start`` on, before ``end``: two adjacent ranges share no fire."""
        bounds.check_integer("limit", limit, least=1, most=MAX_FIRES)
        bounds.instant_from("start", start)
        bounds.instant_from("end", end)
        last = end.astimezone(UTC)  # Python compares two datetimes of one zone by their wall times
        fires: list[datetime] = []
        fire = self.next_after(start.astimezone(UTC) - timedelta(microseconds=1))
        while fire is not None and fire < last and len(fires) < limit:
            fires.append(fire)
            fire = self.next_after(fire)
        return fires

    def describe(self) -> str:
        """Return the expression in words: ``At 06:00 on Monday through Friday``."""
        from cronsim.explain import explain  # noqa: PLC0415 - see ``_parse``

        words: str = explain(MACROS.get(self.text.lower(), self.text))
        return (
            words if self.window is None else f"{words}, between {self.window.start:%H:%M} and {self.window.end:%H:%M}"
        )

    def _next_fixed(self, start: datetime, rule: _Rule, zone: tzinfo) -> datetime | None:
        """Return the first fire at or after ``start``: each wall time is one instant."""
        # One second is subtracted as an instant and added as wall time: if ``start`` is the end of a gap, this is the
        # first skipped wall time, whose fires are due at ``start``.
        wall: datetime | None = (start - _SECOND).astimezone(zone).replace(tzinfo=None) + _SECOND
        while wall is not None and (wall := self._find_wall(wall, rule)) is not None:
            instant = _first_instant(wall, zone)
            if instant >= start:
                return instant
            wall += _SECOND  # ``start`` is in a repeated hour, and this time was before it
        return None

    def _next_elapsed(self, start: datetime, rule: _Rule, zone: tzinfo) -> datetime | None:
        """Return the first instant at or after ``start`` whose wall time matches."""
        while True:  # once for each change of the offset
            offset = _offset(start, zone)
            wall = self._find_wall((start + offset).replace(tzinfo=None), rule)
            if wall is None:
                return None
            found = wall.replace(tzinfo=UTC) - offset
            change = _find_change(start, found, zone)
            if change is None:
                return found
            start = change

    def _find_wall(self, wall: datetime, rule: _Rule) -> datetime | None:
        """Return the first matching wall time at or after this one."""
        from cronsim import CronSim  # noqa: PLC0415 - see ``_parse``

        try:
            for candidate in CronSim(rule.text, wall - _SECOND):
                if self.window is None or self.window.contains(candidate.time()):
                    return candidate
        except OverflowError:  # after the year 9999
            pass
        return None


def find_zone(name: str) -> tzinfo:
    """Return the time zone of this name in the IANA database. Raises ``InvalidInput``."""
    if name == "UTC":
        return UTC  # also where no database is installed
    wanted = "a time zone of the IANA database such as Europe/Berlin (pip install tzdata where the system has none)"
    if not isinstance(name, str) or not _ZONE_NAME.fullmatch(name):
        raise InvalidInput("timezone", wanted=wanted, got=name)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError) as error:  # ``Europe`` is a folder; KeyError: not found
        raise InvalidInput("timezone", wanted=wanted, got=name) from error


@lru_cache(maxsize=4096)
def _parse(text: str, window: TimeWindow | None) -> _Rule:
    """Return the fields of an expression, with only the hours of the window. Raises ``InvalidInput``."""
    from cronsim import CronSim, CronSimError  # noqa: PLC0415 - a program without schedules does not need it

    if text.startswith("@") and text.lower() not in MACROS:
        raise InvalidInput("expression", wanted=f"one of {', '.join(MACROS)}", got=text)
    fields = MACROS.get(text.lower(), text).split()
    try:
        parsed = CronSim(" ".join(fields), datetime(2000, 1, 1))  # noqa: DTZ001 - a wall time
    except CronSimError as error:
        raise _invalid(text, fields, str(error).removeprefix("Bad ")) from error
    minute, hour = fields[-5], fields[-4]
    if window is not None:
        hours = [each for each in window.hours() if each in parsed.hours]
        if not any(window.contains(time(each, other)) for each in hours for other in parsed.minutes):
            raise InvalidInput("between", wanted=f"a window in which {text!r} fires", got=str(window))
        fields[-4] = ",".join(map(str, hours))
    return _Rule(" ".join(fields), is_fixed=not minute.startswith("*") and not hour.startswith("*"))


def _invalid(text: str, fields: list[str], name: str) -> InvalidInput:
    """Return the error for an expression that cronsim refuses; ``name`` is the wrong field."""
    if name not in _FIELDS:
        wanted = "5 fields (minute hour day-of-month month day-of-week), or 6 with the second first"
        return InvalidInput("expression", wanted=wanted, got=f"{len(fields)} in {text!r}")
    position = list(_FIELDS).index(name) - (len(_FIELDS) - len(fields))
    wanted = f"{_FIELDS[name]}, *, or a list, range or step of them"
    return InvalidInput(f"{name} of the expression", wanted=wanted, got=f"{fields[position]!r} in {text!r}")


def _offset(instant: datetime, zone: tzinfo) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta(0)


def _first_instant(wall: datetime, zone: tzinfo) -> datetime:
    """Return the first instant with this wall time; that at the end of the gap if the wall time is skipped."""
    instant = wall.replace(tzinfo=zone).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == wall:
        return instant
    # In a gap, fold=0 has the offset before the change and is after it; fold=1 is before the change (PEP 495).
    change = _find_change(wall.replace(tzinfo=zone, fold=1).astimezone(UTC), instant, zone)
    assert change is not None, "a skipped wall time is beside a change of the offset"
    return change


def _find_change(start: datetime, end: datetime, zone: tzinfo) -> datetime | None:
    """Return the first instant after ``start``, at most ``end``, with another offset than ``start``."""
    if zone is UTC:
        return None
    offset = _offset(start, zone)
    while start < end:  # day by day: two changes within a day could hide each other, and no zone has them
        stop = min(start + _DAY, end)
        if _offset(stop, zone) != offset:
            while stop - start > _SECOND:
                middle = start + (stop - start) // (2 * _SECOND) * _SECOND
                start, stop = (middle, stop) if _offset(middle, zone) == offset else (start, middle)
            return stop
        start = stop
    return None
