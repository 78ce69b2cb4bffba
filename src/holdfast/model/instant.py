"""Instants as text: ISO 8601 with a time zone, or a date."""

from __future__ import annotations

import contextlib
from datetime import UTC, date, datetime, time

from holdfast.errors import InvalidInput
from holdfast.model import bounds

WANTED_INSTANT = "an instant such as 2026-11-15T20:30:00Z or 2026-11-15T21:30:00+01:00, or a date (its start in UTC)"


def parse(field: str, text: str) -> datetime:
    """Return an aware datetime; errors name it ``field``. A time without a time zone is refused: it may be any."""
    with contextlib.suppress(ValueError):
        return datetime.combine(date.fromisoformat(text), time(), UTC)
    try:
        value = datetime.fromisoformat(text)
        bounds.instant_from(field, value)
    except ValueError as error:
        raise InvalidInput(field, wanted=WANTED_INSTANT, got=text) from error
    return value
