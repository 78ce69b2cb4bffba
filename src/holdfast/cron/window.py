"""``TimeWindow``: a part of every day, such as 08:30 to 17:45. Both ends count."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

from holdfast.errors import InvalidInput

_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """The minutes of a day from ``start`` to ``end``, both included. ``end`` before ``start`` is past midnight."""

    start: time
    end: time

    @classmethod
    def parse(cls, start: str | time, end: str | time) -> TimeWindow:
        """Return the window between two times such as ``"08:30"``. Raises ``InvalidInput``."""
        return cls(start=parse_time_of_day("between", start), end=parse_time_of_day("between", end))

    def __str__(self) -> str:
        return f"{self.start:%H:%M}-{self.end:%H:%M}"

    def describe(self) -> str:
        """Return the window in words: ``between 08:30 and 17:45``."""
        return f"between {self.start:%H:%M} and {self.end:%H:%M}"

    def contains(self, moment: time) -> bool:
        """Whether the minute of this time is in the window."""
        minute = moment.replace(second=0, microsecond=0)
        if self.start <= self.end:
            return self.start <= minute <= self.end
        return minute >= self.start or minute <= self.end

    def hours(self) -> tuple[int, ...]:
        """Return the hours that have at least one minute in the window."""
        last = self.end.hour if self.start <= self.end else self.end.hour + 24
        return tuple(sorted({hour % 24 for hour in range(self.start.hour, last + 1)}))


def parse_time_of_day(field: str, text: str | time) -> time:
    """Return the time of day in ``"06:00"``; errors name it ``field``."""
    if isinstance(text, time):
        if text.second or text.microsecond or text.tzinfo is not None:
            raise InvalidInput(field, wanted="a time with hour and minute only", got=text.isoformat())
        return text
    match = _TIME_OF_DAY.fullmatch(text) if isinstance(text, str) else None
    if match is None or int(match[1]) > 23 or int(match[2]) > 59:
        raise InvalidInput(field, wanted="a time of day such as 06:00 or 18:30", got=text)
    return time(int(match[1]), int(match[2]))
