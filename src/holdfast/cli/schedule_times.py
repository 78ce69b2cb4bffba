"""Instants of schedules for people: in the time zone of the schedule, with the day of the week."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.cli.output import Output
from holdfast.clock import from_datetime


def local_time(fire: datetime | None) -> str:
    """Return a fire in its time zone: ``Wed 2026-11-18 06:00 CET``; seconds only if it has some."""
    if fire is None:
        return ""
    return f"{fire:%a %Y-%m-%d} {fire:%H:%M:%S} {fire.tzname()}" if fire.second else f"{fire:%a %Y-%m-%d %H:%M %Z}"


def with_age(output: Output, fire: datetime) -> str:
    """Return a fire in its time zone, and how far away it is: ``Wed 2026-11-18 06:00 CET (in 3h20m)``."""
    return f"{local_time(fire)} ({age(output, fire)})"


def age(output: Output, moment: datetime | None) -> str:
    """Return how far away an instant is: ``in 3h20m``, ``5m ago``."""
    if moment is None:
        return ""
    instant = from_datetime(moment)
    return output.age(instant) + (" ago" if output.now() >= instant else "")


def fire_to_json(fire: datetime) -> dict[str, str]:
    """Return a fire for programs: in UTC, and in the time zone of the schedule."""
    return {"fire": utc_text(fire), "local": fire.isoformat()}


def utc_text(fire: datetime) -> str:
    """Return a fire in UTC, as the meta value of its job has it: ``2026-11-18T05:00:00Z``."""
    return f"{fire.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
