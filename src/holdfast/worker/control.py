"""What a handler says when its attempt ends neither well nor with an error: raised or returned, the effect is the same.

raise Retry(after=timedelta(minutes=5), reason="the bank is closed")
return Snooze(for_=timedelta(seconds=30))
raise Unrecoverable("there is no such customer") from error
"""

from __future__ import annotations

from datetime import timedelta

from holdfast.clock import DAY
from holdfast.errors import InvalidInput
from holdfast.model import bounds


class Control(Exception):
    """A choice that a handler makes. Its lengths are checked at once, and kept as microseconds."""


class Retry(Control):
    """This attempt failed, and counts; try again ``after`` this long, or when the retry policy says if that is None."""

    def __init__(self, after: timedelta | None = None, reason: str = "") -> None:
        super().__init__(after, reason)  # what pickle makes it again from
        self.after = None if after is None else bounds.duration_from("after", after)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason or "asked for a retry"


class Snooze(Control):
    """Nothing has been done, and no attempt is counted; come back after ``for_``.

    ``budget`` bounds how long a job may be put off like this in a row, before it becomes a dead letter: a day, or twice
    ``for_`` if that is longer.
    """

    def __init__(self, for_: timedelta, budget: timedelta | None = None, reason: str = "") -> None:
        super().__init__(for_, budget, reason)
        self.delay = bounds.duration_from("for_", for_)
        self.budget = max(DAY, 2 * self.delay) if budget is None else bounds.duration_from("budget", budget)
        self.budget = min(self.budget, bounds.MAX_DURATION)
        self.reason = reason
        if self.budget <= self.delay:
            raise InvalidInput("budget", wanted=f"more than the snooze itself, {for_}", got=str(budget))

    def __str__(self) -> str:
        return self.reason or "snoozed"


class Unrecoverable(Control):
    """This job can never succeed: it becomes a dead letter for this ``reason``, whatever attempts are left."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason or "unrecoverable"

    def __str__(self) -> str:
        return self.reason
