"""Retention: how long a space keeps rows. One entry of its registry, so that all workers follow the same one.

Settings are only proposals: the first process with settings of its own stores them, and the entry decides from then on.
If each worker trimmed by its own settings, a worker without any would remove what another one was told to keep.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta

from holdfast.clock import DAY, from_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.registry import Change, Entry

KIND = "retention"
KEY = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long rows stay, in microseconds. Dead letters stay until they are purged, unless ``dead_for`` is set.

    Ended jobs stay for at least a day, because they answer repeated settlements (L6).
    """

    ended_for: int = 7 * DAY  # done and cancelled jobs, after their end
    ledger_for: int = 30 * DAY
    dead_for: int | None = None  # dead letters, after their end; None: until they are purged

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for a value out of range."""
        bounds.check_integer("ended_for", self.ended_for, least=DAY, most=bounds.MAX_DURATION)
        bounds.check_integer("ledger_for", self.ledger_for, least=1, most=bounds.MAX_DURATION)
        bounds.check_optional_integer("dead_for", self.dead_for, least=DAY, most=bounds.MAX_DURATION)


def choose_retention(
    keep_ended: timedelta | None, keep_ledger: timedelta | None, keep_dead: timedelta | None = None
) -> Retention | None:
    """Return the retention that these settings want, defaults where they are None; None if all are."""
    chosen = {"ended_for": keep_ended, "ledger_for": keep_ledger, "dead_for": keep_dead}
    lengths = {name: from_timedelta(length) for name, length in chosen.items() if length is not None}
    return Retention(**lengths) if lengths else None


def store_retention(retention: Retention, *, version: int | None = None) -> Change:
    """Return the change that stores a retention. ``version=0`` stores it only if the space has none."""
    values = {"ended_for": retention.ended_for, "ledger_for": retention.ledger_for}
    if retention.dead_for is not None:
        values["dead_for"] = retention.dead_for
    return Change(kind=KIND, key=KEY, value=json.dumps(values).encode(), version=version)


def read_retention(entry: Entry | None) -> Retention | None:
    """Return the stored retention; None if the space has none. Raises ``InvalidInput`` if it cannot be read."""
    if entry is None:
        return None
    try:
        values = json.loads(entry.value or b"")
        return Retention(
            ended_for=values["ended_for"], ledger_for=values["ledger_for"], dead_for=values.get("dead_for")
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        wanted = '{"ended_for": microseconds, "ledger_for": microseconds}'
        raise InvalidInput(f"{KIND} {KEY}", wanted=wanted, got=entry.value) from error
