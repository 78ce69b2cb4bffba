"""The header ``Retry-After``: how long a server wants its client to wait."""

from __future__ import annotations

from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime

from holdfast.clock import to_datetime, to_timedelta, wall_clock
from holdfast.net.guarded import Response

MAX_RETRY_AFTER = timedelta(days=1)


def retry_after(response: Response) -> timedelta | None:
    """Return the delay that the server asks for, at most a day; None if it does not, or not readably."""
    text = (response.header("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return min(timedelta(seconds=int(text[:9])), MAX_RETRY_AFTER)
    try:
        instant = parsedate_to_datetime(text)
    except ValueError:
        return None
    delay = (instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - to_datetime(wall_clock())
    return min(max(delay, to_timedelta(0)), MAX_RETRY_AFTER)
