"""When schedules fire, found without cron code: every minute of a period is looked at.

A rule is a set for each field. The walk goes over the instants minute by minute and reads the wall time of each one in
its zone, so that skipped and repeated hours are seen as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The values of each field, and the text of the same expression. None is every value."""

    text: str
    minutes: frozenset[int] | None = None
    hours: frozenset[int] | None = None
    days: frozenset[int] | None = None  # of the month
    months: frozenset[int] | None = None
    weekdays: frozenset[int] | None = None  # 0 is Sunday

    @property
    def is_fixed(self) -> bool:
        minute, hour = self.text.split()[:2]
        return not minute.startswith("*") and not hour.startswith("*")

    def matches(self, wall: datetime) -> bool:
        return (
            (self.minutes is None or wall.minute in self.minutes)
            and (self.hours is None or wall.hour in self.hours)
            and (self.days is None or wall.day in self.days)
            and (self.months is None or wall.month in self.months)
            and (self.weekdays is None or wall.isoweekday() % 7 in self.weekdays)
        )


def wall_times(zone: str, start: datetime, end: datetime) -> list[tuple[datetime, datetime, int]]:
    """Return every minute of a period: the instant, its wall time without a zone, and its fold."""
    found, tz = [], ZoneInfo(zone)
    instant = start.astimezone(UTC)
    while instant < end:
        local = instant.astimezone(tz)
        found.append((instant, local.replace(tzinfo=None, fold=0), local.fold))
        instant += MINUTE
    return found


def enumerate_fires(rule: Rule, minutes: Iterable[tuple[datetime, datetime, int]]) -> Iterator[datetime]:
    """Return the instants at which a rule fires, by the documented rule for skipped and repeated hours."""
    previous: datetime | None = None
    is_fixed = rule.is_fixed
    for instant, wall, fold in minutes:
        if is_fixed:
            skipped = () if previous is None else _minutes_between(previous, wall)
            if any(map(rule.matches, skipped)) or (fold == 0 and rule.matches(wall)):
                yield instant
        elif rule.matches(wall):
            yield instant
        previous = wall


def _minutes_between(earlier: datetime, later: datetime) -> Iterator[datetime]:
    """Return the wall times that a clock leaves out when it goes from one to the other."""
    earlier += MINUTE
    while earlier < later:
        yield earlier
        earlier += MINUTE
