"""``Frequency``: collects what a fluent schedule says about its times, and makes one cron expression of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time
from typing import Literal

from holdfast.cron.window import parse_time_of_day
from holdfast.errors import InvalidInput
from holdfast.model import bounds

LAST_DAY = "last"
DayOfMonth = int | Literal["last"]

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_STEPS_OF_MINUTES = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)  # the divisors of 60
_STEPS_OF_HOURS = (1, 2, 3, 4, 6, 8, 12)  # the divisors of 24


class Frequency:
    """The parts of one cron expression. A part that contradicts an earlier one raises ``InvalidInput``."""

    def __init__(self) -> None:
        self._chosen: str | None = None  # the helper that said how often: every_minutes, daily, ...
        self._expression: str | None = None
        self._minute: str | None = None
        self._hour: str | None = None
        self._time: time | None = None
        self._days_of_month: str | None = None
        self._months: set[int] = set()
        self._days: set[int] = set()
        self._minute_range: str | None = None
        self._hour_range: str | None = None

    def set_expression(self, text: str) -> None:
        """Use a cron expression instead of helpers."""
        self._choose("expression")
        self._expression = text

    def every_minutes(self, minutes: int) -> None:
        """Fire every N minutes of an hour."""
        _check_step("every_minutes", minutes, _STEPS_OF_MINUTES, "cron expressions start again at each hour")
        self._choose("every_minutes")
        self._minute, self._hour = _step(minutes), "*"

    def every_hours(self, hours: int, *, minute: int) -> None:
        """Fire every N hours of a day."""
        _check_step("every_hours", hours, _STEPS_OF_HOURS, "cron expressions start again at each day")
        bounds.check_integer("at", minute, most=59)
        self._choose("every_hours")
        self._minute, self._hour = str(minute), _step(hours)

    def daily(self, helper: str, *, day: DayOfMonth | None = None, months: Iterable[int | str] = ()) -> None:
        """Fire once on each day, or on one day of each month, or of these months."""
        self._choose(helper)
        if day is not None:
            self._days_of_month = "L" if day == LAST_DAY else str(bounds.check_integer("day", day, least=1, most=31))
        if chosen := {_number("month", month, _MONTHS, first=1) for month in months}:
            self.add_months(chosen)

    def set_time(self, at: str | time) -> None:
        """Fire at this time of the day."""
        if self._time is not None:
            raise InvalidInput("at", wanted="one time of day", got="a second one")
        self._time = parse_time_of_day("at", at)

    def add_days(self, days: Iterable[int | str]) -> None:
        """Fire only on these days of the week, besides those that were added before."""
        chosen = {_number("day", day, _DAYS, first=0, last=7) % 7 for day in days}
        if not chosen:
            raise InvalidInput("days", wanted="at least one day of the week", got="none")
        self._days |= chosen

    def add_months(self, months: Iterable[int | str]) -> None:
        """Fire only in these months, which may be chosen once."""
        chosen = {_number("month", month, _MONTHS, first=1) for month in months}
        if not chosen or self._months:
            got = "a second choice" if self._months else "none"
            raise InvalidInput("months", wanted="the months in one call", got=got)
        self._months = chosen

    def set_minutes(self, first: int, last: int) -> None:
        """Fire only in these minutes of an hour."""
        self._minute_range = _range("between_minutes", first, last, most=59)

    def set_hours(self, first: int, last: int) -> None:
        """Fire only in these hours of a day."""
        self._hour_range = _range("between_hours", first, last, most=23)

    def expression(self) -> str:
        """Return the cron expression. Raises ``InvalidInput`` for parts that contradict each other, or for none."""
        if self._expression is not None:
            self._check_expression_is_alone()
            return self._expression
        if self._chosen is None and self._time is None and not self._days and not self._months:
            raise InvalidInput(
                "schedule", wanted="an expression, or how often: daily(), every_minutes(5), ...", got="none"
            )
        if self._days and self._days_of_month is not None:
            raise InvalidInput(
                "days",
                wanted="days of the week or a day of the month (cron fires on either of them)",
                got=f"both, by {self._chosen}",
            )
        minute, hour = self._minute_and_hour()
        return f"{minute} {hour} {self._days_of_month or '*'} {_join(self._months)} {_join(self._days)}"

    def _minute_and_hour(self) -> tuple[str, str]:
        if self._minute is None or self._hour is None:
            if self._minute_range is not None or self._hour_range is not None:
                raise InvalidInput(
                    "between_hours", wanted="every_minutes or every_hours beside it", got="a time of day"
                )
            moment = self._time or time(0)
            return str(moment.minute), str(moment.hour)
        if self._time is not None:
            raise InvalidInput("at", wanted=f"no time of day beside {self._chosen}", got=f"{self._time:%H:%M}")
        return _restrict("between_minutes", self._minute, self._minute_range), _restrict(
            "between_hours", self._hour, self._hour_range
        )

    def _choose(self, helper: str) -> None:
        if self._chosen is not None:
            raise InvalidInput("schedule", wanted="one of its frequencies", got=f"{self._chosen} and {helper}")
        self._chosen = helper

    def _check_expression_is_alone(self) -> None:
        others = (self._time, self._days, self._months, self._minute_range, self._hour_range)
        if any(other is not None and other != set() for other in others):
            raise InvalidInput("expression", wanted="no days, months or times beside it", got="both")


def _join(numbers: set[int]) -> str:
    """Return numbers as a field of an expression: ``1-5`` or ``1,4``, and ``*`` for none."""
    ordered = sorted(numbers)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{ordered[0]}-{ordered[-1]}"
    return ",".join(map(str, ordered)) or "*"


def _step(size: int) -> str:
    return "*" if size == 1 else f"*/{size}"


def _check_step(field: str, value: object, allowed: tuple[int, ...], reason: str) -> None:
    if type(value) is not int or value not in allowed:
        raise InvalidInput(field, wanted=f"one of {', '.join(map(str, allowed))} ({reason})", got=value)


def _range(field: str, first: int, last: int, *, most: int) -> str:
    bounds.check_integer(field, first, most=most)
    bounds.check_integer(field, last, least=first, most=most)
    return f"{first}-{last}"


def _restrict(field: str, values: str, allowed: str | None) -> str:
    """Return ``*`` or ``*/N`` within a range."""
    if allowed is None:
        return values
    if not values.startswith("*"):
        raise InvalidInput(field, wanted="every_minutes beside it", got=f"the minute {values}")
    return allowed + values[1:]


def _number(field: str, value: int | str, names: tuple[str, ...], *, first: int, last: int | None = None) -> int:
    """Return the number of a day or a month from its number or its English name."""
    most = len(names) - 1 + first if last is None else last
    if type(value) is int and first <= value <= most:
        return value
    if isinstance(value, str) and len(value) >= 3 and value[:3].lower() in names:
        return names.index(value[:3].lower()) + first
    raise InvalidInput(field, wanted=f"{first} to {most}, or a name such as {names[1]}", got=value)
