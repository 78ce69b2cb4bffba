"""What a scheduler does with a schedule of its own code when it starts: a pure decision.

| the stored schedule | then |
|---|---|
| none | it is created, and fires from now on |
| the same definition | nothing changes: fires that were missed follow the policy of the schedule |
| the same, but without a scheduler for a while | it is put back into the index; missed fires follow the policy |
| another definition | it is replaced, and starts from now |
| another definition that nobody fires: a deployment was undone | it is replaced, and starts where that one stopped |
| the same, with a last fire far in the future | it starts from now: the clock of the store had been wrong |
| a dynamic schedule of this name | it stays, and the one of the code is not declared |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from holdfast.clock import MAX_CLOCK_HOLD, hold
from holdfast.cron.entries import ScheduleState, Source, with_next_fire
from holdfast.cron.plan import first_fire
from holdfast.cron.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The new state of a schedule; None: it stays as it is. ``reason`` is for the log."""

    state: ScheduleState | None = None
    reason: str = ""
    is_refused: bool = False


def declare(
    schedule: Schedule,
    fingerprint: str,
    stored: ScheduleState | None,
    now: int,
    *,
    source: Source = Source.CODE,
) -> Declaration:
    """Return what becomes of the stored schedule when a scheduler declares one of this name, or a program puts one."""
    if stored is None:
        state = ScheduleState(source=source, definition=schedule.to_json(), fingerprint=fingerprint, declared_at=now)
        return Declaration(state=_start(schedule, state, now))
    if stored.source is not source:
        return Declaration(reason=f"a {stored.source} schedule has this name", is_refused=True)
    if stored.fingerprint != fingerprint:
        return _replaced(schedule, fingerprint, stored, now, start=now, reason="its definition has changed")
    if stored.definition.get("enabled", True) != schedule.enabled:
        reason = "it was enabled" if schedule.enabled else "it was disabled"
        return _replaced(schedule, fingerprint, stored, now, start=now, reason=reason)
    if stored.last_fire is not None and stored.last_fire - now > MAX_CLOCK_HOLD:
        reason = "its last fire is in the future: the clock of the store had been ahead"
        return _replaced(schedule, fingerprint, stored, now, start=now, reason=reason)
    if stored.undeclared:
        state = replace(stored, undeclared=False)
        return Declaration(state=with_next_fire(schedule.name, state, stored.next_fire), reason="declared again")
    return Declaration()


def restore(schedule: Schedule, fingerprint: str, stored: ScheduleState | None, now: int) -> Declaration:
    """Return the same for a scheduler that has declared the schedule before, and was away for a while.

    Only a schedule that was given up meanwhile changes.
    """
    if stored is None:
        return declare(schedule, fingerprint, None, now)
    if stored.source is not Source.CODE or not stored.undeclared:
        return Declaration()
    is_same = stored.fingerprint == fingerprint
    return (declare if is_same else take_over)(schedule, fingerprint, stored, now)


def take_over(schedule: Schedule, fingerprint: str, stored: ScheduleState, now: int) -> Declaration:
    """Return the same for a stored definition that is overdue because no scheduler with it runs any more.

    The fires of this definition since then are missed, and follow its policy.
    """
    start = max(stored.declared_at, stored.last_fire or 0)
    reason = "its definition has changed: no scheduler with the other one is running"
    return _replaced(schedule, fingerprint, stored, now, start=min(start, now), reason=reason)


def resumed(schedule: Schedule, state: ScheduleState, now: int) -> ScheduleState:
    """Return the state of a schedule that fires again, from now on."""
    return _start(schedule, replace(state, paused=False), now)


def _replaced(
    schedule: Schedule, fingerprint: str, stored: ScheduleState, now: int, *, start: int, reason: str
) -> Declaration:
    state = replace(stored, definition=schedule.to_json(), fingerprint=fingerprint, declared_at=now, undeclared=False)
    return Declaration(state=_start(schedule, state, start), reason=reason)


def _start(schedule: Schedule, state: ScheduleState, start: int) -> ScheduleState:
    """Return the state with its first fire at or after ``start``, and after its last fire.

    A last fire that is far in the future does not count: the clock had been wrong.
    """
    if state.last_fire is not None and hold(start, state.last_fire + 1) > start:
        start = state.last_fire + 1
    return with_next_fire(schedule.name, state, first_fire(schedule, start) if schedule.enabled else None)
