"""Which fires of a schedule happen now, and when the next one is due: a pure decision.

A fire is *on time* while it is late by at most ``grace``, and *missed* after that. Every fire on time happens; the
``missed`` policy of the schedule selects among the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.clock import MINUTE, from_datetime, from_timedelta, to_datetime
from holdfast.cron.schedule import Missed, Schedule

MAX_STEP_FIRES = 1_000  # of one plan: the following fires stay due, and are in the next plan
MAX_COUNTED_FIRES = 1_000  # missed fires that are counted; of more it is only known that they are more
MAX_LISTED_FIRES = 20_000  # fires that are listed at once to find the newest ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do with a schedule now. All instants are microseconds."""

    fires: tuple[int, ...]  # oldest first
    next_fire: (
        int | None
    )  # the first fire that is neither in ``fires`` nor dropped; None: the schedule never fires again
    dropped: int = 0  # missed fires that do not happen
    dropped_more: bool = False  # ``dropped`` is only the least number


def plan(schedule: Schedule, since: int, now: int) -> Plan:
    """Return which fires from ``since`` to ``now``, both included, happen now. ``since`` was the next fire so far."""
    if since > now:
        return Plan(fires=(), next_fire=since)
    on_time_from = max(since, now - from_timedelta(schedule.grace))
    missed = _select_missed(schedule, since, on_time_from)
    fires = list(missed.fires)
    next_fire = first_fire(schedule, on_time_from)
    while next_fire is not None and next_fire <= now and len(fires) <= MAX_STEP_FIRES:
        fires.append(next_fire)
        next_fire = first_fire(schedule, next_fire + 1)
    return Plan(
        fires=tuple(fires[:MAX_STEP_FIRES]),
        next_fire=fires[MAX_STEP_FIRES] if len(fires) > MAX_STEP_FIRES else next_fire,
        dropped=missed.dropped,
        dropped_more=missed.dropped_more,
    )


def first_fire(schedule: Schedule, since: int) -> int | None:
    """Return the first fire at or after an instant."""
    fire = schedule.next_after(to_datetime(since - 1))
    return None if fire is None else from_datetime(fire)


def _select_missed(schedule: Schedule, start: int, end: int) -> Plan:
    """Return which of the missed fires from ``start``, before ``end``, happen."""
    most = {Missed.SKIP: 0, Missed.LAST: 1, Missed.ALL: schedule.max_missed}[schedule.missed]
    if start >= end:
        return Plan(fires=(), next_fire=None)
    counted = max(most, MAX_COUNTED_FIRES)
    fires = _list(schedule, start, end, counted + 1)
    if len(fires) > counted:
        kept = _list_newest(schedule, start, end, most) if most else []
        return Plan(fires=tuple(kept), next_fire=None, dropped=len(fires) - most, dropped_more=True)
    kept = fires[len(fires) - most :] if most < len(fires) else fires
    return Plan(fires=tuple(kept), next_fire=None, dropped=len(fires) - len(kept))


def _list(schedule: Schedule, start: int, end: int, most: int) -> list[int]:
    """Return the first ``most`` fires from ``start`` on, before ``end``."""
    return [from_datetime(fire) for fire in schedule.cron.between(to_datetime(start), to_datetime(end), most)]


def _list_newest(schedule: Schedule, start: int, end: int, most: int) -> list[int]:
    """Return the last ``most`` fires from ``start`` on, before ``end``. There are more of them.

    Fires can only be listed forwards. So this looks for a span before ``end`` with enough fires, and not with too many:
    a schedule that fires every second has 86,400 fires a day.
    """
    whole = end - start
    too_short, too_long, span = 0, None, MINUTE
    while True:
        span = min(span, whole)
        fires = _list(schedule, end - span, end, MAX_LISTED_FIRES + 1)
        if len(fires) > MAX_LISTED_FIRES:
            too_long = span
        elif len(fires) < most:
            too_short = span
        else:
            return fires[-most:]
        span = 2 * span if too_long is None else (too_short + too_long) // 2
