"""Values by which a handler chooses how its attempt ends. To raise one and to return one has the same effect.

raise Retry(after=timedelta(minutes=5), reason="the bank is closed")
return Snooze(for_=timedelta(seconds=30))
raise Unrecoverable("there is no such customer") from error
"""

from __future__ import annotations

from datetime import timedelta

from holdfast.clock import DAY, to_timedelta
from holdfast.errors import InvalidInput
from holdfast.model import bounds, duration
from holdfast.worker.outcome import plain_text


class Control(Exception):
    """The base of these values. Durations are checked when the value is created, and stored as microseconds.

    A reason may be any value, for example an exception: its text is kept.
    """

    def __init_subclass__(cls) -> None:
        """Show the values of this module in tracebacks and error texts under the name by which users import them."""
        if cls.__module__ == __name__:
            cls.__module__ = "holdfast"


class Retry(Control):
    """The attempt failed and is counted. Try again ``after`` this time; None uses the delay of the retry policy.

    With ``pause_type`` no job of this type is reserved from this queue before then, in no worker: for a server that
    answers "429 Too Many Requests" with ``Retry-After``. With ``pause_key`` the same holds for the jobs with the limit
    key of this job, for example of one host; a job without a limit key pauses nothing. Both need ``after``.
    """

    def __init__(
        self,
        after: timedelta | None = None,
        reason: object = "",
        pause_type: bool = False,  # noqa: FBT001, FBT002 - pickle passes it by position
        pause_key: bool = False,  # noqa: FBT001, FBT002
    ) -> None:
        super().__init__(after, reason, pause_type, pause_key)  # the arguments that pickle calls it with
        self.after = None if after is None else bounds.duration_from("after", after)
        self.reason = plain_text(reason)
        self.pause_type = bool(pause_type)
        self.pause_key = bool(pause_key)
        if self.after is None and (self.pause_type or self.pause_key):
            field = "pause_type" if self.pause_type else "pause_key"
            raise InvalidInput(field, wanted="a length, after=..., beside it", got="none")

    def __str__(self) -> str:
        return self.reason or "asked for a retry"


class Snooze(Control):
    """Nothing was done, and the attempt is not counted. Run the job again after ``for_``.

    ``budget`` bounds for how long a job may be snoozed in a row before it becomes a dead letter. The default is a day,
    or twice ``for_`` if that is longer.
    """

    def __init__(self, for_: timedelta, budget: timedelta | None = None, reason: object = "") -> None:
        super().__init__(for_, budget, reason)
        self.delay = bounds.duration_from("for_", for_)
        self.budget = max(DAY, 2 * self.delay) if budget is None else bounds.duration_from("budget", budget)
        self.budget = min(self.budget, bounds.MAX_DURATION)
        self.reason = plain_text(reason)
        if self.budget <= self.delay:
            asked, allowed = (duration.format_exact(to_timedelta(length)) for length in (self.delay, self.budget))
            raise InvalidInput("budget", wanted=f"more than the snooze itself, {asked}", got=allowed)

    def __str__(self) -> str:
        return self.reason or "snoozed"


class Unrecoverable(Control):
    """The job can never succeed: it becomes a dead letter with this ``reason``, even if attempts are left."""

    def __init__(self, reason: object = "") -> None:
        super().__init__(reason)
        self.reason = plain_text(reason) or "unrecoverable"

    def __str__(self) -> str:
        return self.reason
