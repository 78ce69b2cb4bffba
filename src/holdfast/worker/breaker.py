"""The circuit breaker of a handler type: pure decisions. ``type_holds`` carries them out.

| state | reserve takes of the type | then |
|---|---|---|
| closed | all | ``threshold`` failed attempts in a row, in one worker, open it |
| open | none until ``held_until`` | at that instant it is half open, without any call |
| half open | one job at a time | a probe that succeeds closes it, one that fails opens it again |

The state is in the ``QueueSettings`` of the type: ``held_until`` and ``probing``. So it is one state per store, and the
store applies it exactly. Every worker counts its own failures: that needs no round trip.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.queue_settings import DEFAULT_BREAKER_COOLDOWN, QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRule:
    """When the breaker of a type opens, and for how long."""

    threshold: int  # failed attempts in a row
    cooldown: timedelta = DEFAULT_BREAKER_COOLDOWN

    def __post_init__(self) -> None:
        """Raise ``InvalidInput`` for a value out of range."""
        bounds.check_integer("breaker_threshold", self.threshold, least=1)
        bounds.duration_from("breaker_cooldown", self.cooldown, least=1)

    @classmethod
    def of(cls, threshold: int | None, cooldown: timedelta | None) -> BreakerRule | None:
        """Return the rule of these options; None without a threshold."""
        if threshold is not None:
            return cls(threshold=threshold, cooldown=DEFAULT_BREAKER_COOLDOWN if cooldown is None else cooldown)
        if cooldown is not None:
            raise InvalidInput("breaker_cooldown", wanted="a breaker_threshold beside it", got="none")
        return None


class BreakerPhase(StrEnum):
    """The state of a breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half open"


def phase_of(settings: QueueSettings, now: int) -> BreakerPhase:
    """Return the state of the breaker of a type, from its settings."""
    if not settings.probing:
        return BreakerPhase.CLOSED
    is_held = settings.held_until is not None and now < settings.held_until
    return BreakerPhase.OPEN if is_held else BreakerPhase.HALF_OPEN


class EndedAttempt(NamedTuple):
    """An attempt that counts for the breaker: it succeeded, failed or crashed."""

    reserved_at: int  # by the clock of the store
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """What a worker knows about the breaker of a type."""

    failures: int = 0  # failed attempts in a row, in this worker
    held_until: int | None = None
    probing: bool = False  # open or half open


class BreakerAction(StrEnum):
    """What the store is told."""

    OPEN = "open"
    CLOSE = "close"


def after_attempts(
    state: BreakerState, attempts: Iterable[EndedAttempt], rule: BreakerRule
) -> tuple[BreakerState, BreakerAction | None]:
    """Return the state after these attempts, in their order, and the action that they cause.

    While the breaker is open, attempts that were reserved before ``held_until`` say nothing: they began before it
    opened. Only a job that was reserved later is a probe.
    """
    failures = state.failures
    for attempt in attempts:
        if state.probing:
            if attempt.reserved_at < (state.held_until or 0):
                continue
            if attempt.failed:
                return replace(state, failures=failures + 1), BreakerAction.OPEN
            return BreakerState(), BreakerAction.CLOSE
        failures = failures + 1 if attempt.failed else 0
        if failures >= rule.threshold:
            return replace(state, failures=failures), BreakerAction.OPEN
    return replace(state, failures=failures), None
