"""``ScheduleBuilder``: the ``JobBuilder`` with frequencies, which ``app.cron("name")`` returns.

app.cron("report").daily(at="06:00").weekdays().timezone("Europe/Berlin").run(make_report)
app.cron("poll").every_minutes(5).between("08:00", "18:00").single_instance().run("poll", {"source": "crm"})
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from datetime import time, timedelta
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar, overload

from holdfast.cron.frequency import DayOfMonth, Frequency
from holdfast.cron.payload import encode_payload
from holdfast.cron.schedule import Missed, Schedule
from holdfast.cron.window import TimeWindow
from holdfast.errors import InvalidInput
from holdfast.model.definition import JobBuilder, JobDefinition
from holdfast.task import Task

P = TypeVar("P")
AnyTask: TypeAlias = Task[Any, Any, ..., Any]
Register: TypeAlias = Callable[[Schedule], None]

_QUARTERS = (1, 4, 7, 10)
_UNSET: Final = object()
_OF_ONE_JOB = ("idempotency_key", "run_at", "delay", "retry", "unique", "webhook")  # fields that no schedule has


class ScheduleBuilder(JobBuilder):
    """Describes a job and when it is enqueued; ``run`` ends the description. Contradictions raise ``InvalidInput``.

    A value of the job that is not set is that of the handler. ``build`` returns a definition with the schedule, whose
    type is the name.
    """

    def __init__(self, name: str, register: Register = lambda _schedule: None) -> None:
        super().__init__(name)
        self._set(name=name)
        self._register = register
        self._frequency = Frequency()
        self._schedule_fields: dict[str, Any] = {}  # those that a definition does not have

    def _set_schedule(self, **fields: object) -> Self:
        self._schedule_fields.update(fields)
        return self

    # How often --------------------------------------------------------------------------------------------------

    def expression(self, text: str) -> Self:
        """Fire as a cron expression says: see ``CronExpression``."""
        self._frequency.set_expression(text)
        return self

    def schedule(self, expression: str, timezone: str = "UTC") -> Self:
        """Fire as a cron expression says, in this time zone."""
        return self.expression(expression).timezone(timezone)

    def every_minute(self) -> Self:
        """Fire every minute."""
        return self.every_minutes(1)

    def every_minutes(self, minutes: int) -> Self:
        """Fire every N minutes, from the full hour; N divides 60."""
        self._frequency.every_minutes(minutes)
        return self

    def hourly(self, at: int = 0) -> Self:
        """Fire every hour, at this minute."""
        return self.every_hours(1, at=at)

    def every_hours(self, hours: int, at: int = 0) -> Self:
        """Fire every N hours, from midnight, at this minute; N divides 24."""
        self._frequency.every_hours(hours, minute=at)
        return self

    def daily(self, at: str | time = "00:00") -> Self:
        """Fire every day at this time."""
        self._frequency.daily("daily")
        return self.at(at)

    def monthly(self, day: DayOfMonth = 1, at: str | time = "00:00") -> Self:
        """Fire on one day of every month; ``"last"`` is its last day. A month without this day is left out."""
        self._frequency.daily("monthly", day=day)
        return self.at(at)

    def quarterly(self, day: DayOfMonth = 1, at: str | time = "00:00") -> Self:
        """Fire on one day of January, April, July and October."""
        self._frequency.daily("quarterly", day=day, months=_QUARTERS)
        return self.at(at)

    def yearly(self, month: int | str = 1, day: DayOfMonth = 1, at: str | time = "00:00") -> Self:
        """Fire on one day of the year."""
        self._frequency.daily("yearly", day=day, months=(month,))
        return self.at(at)

    # On which days, and when ------------------------------------------------------------------------------------

    def at(self, moment: str | time) -> Self:
        """Fire at this time of the day: ``.mondays().at("06:00")``."""
        self._frequency.set_time(moment)
        return self

    def days(self, *days: int | str) -> Self:
        """Fire only on these days of the week: names, or 0 (Sunday) to 7 (Sunday). Several calls add up."""
        self._frequency.add_days(days)
        return self

    def weekdays(self) -> Self:
        """Fire only from Monday to Friday."""
        return self.days(1, 2, 3, 4, 5)

    def weekends(self) -> Self:
        """Fire only on Saturday and Sunday."""
        return self.days(6, 0)

    def mondays(self) -> Self:
        """Fire only on Mondays, besides the other days that are named."""
        return self.days(1)

    def tuesdays(self) -> Self:
        """Fire only on Tuesdays, besides the other days that are named."""
        return self.days(2)

    def wednesdays(self) -> Self:
        """Fire only on Wednesdays, besides the other days that are named."""
        return self.days(3)

    def thursdays(self) -> Self:
        """Fire only on Thursdays, besides the other days that are named."""
        return self.days(4)

    def fridays(self) -> Self:
        """Fire only on Fridays, besides the other days that are named."""
        return self.days(5)

    def saturdays(self) -> Self:
        """Fire only on Saturdays, besides the other days that are named."""
        return self.days(6)

    def sundays(self) -> Self:
        """Fire only on Sundays, besides the other days that are named."""
        return self.days(0)

    def months(self, *months: int | str) -> Self:
        """Fire only in these months: names, or 1 to 12."""
        self._frequency.add_months(months)
        return self

    def between(self, start: str | time, end: str | time) -> Self:
        """Fire only between two times of the day, both included; an end before the start is on the next day."""
        return self._set_schedule(window=TimeWindow.parse(start, end))

    def between_hours(self, first: int, last: int) -> Self:
        """Fire only in these hours, the last one included."""
        self._frequency.set_hours(first, last)
        return self

    def between_minutes(self, first: int, last: int) -> Self:
        """Fire only in these minutes of each hour, the last one included."""
        self._frequency.set_minutes(first, last)
        return self

    def timezone(self, name: str) -> Self:
        """Read all times in this time zone of the IANA database; by default in UTC."""
        return self._set(timezone=name)

    def jitter(self, length: timedelta) -> Self:
        """Start each job up to this much later, by an amount that is the same on every node."""
        return self._set_schedule(jitter=length)

    # Whether, and after what ------------------------------------------------------------------------------------

    def depends_on(self, *schedules: str | Schedule) -> Self:
        """Come after these schedules in a tick. A queued job of theirs is not waited for."""
        return self._set(depends_on=tuple(each.name if isinstance(each, Schedule) else each for each in schedules))

    def missed(self, policy: Missed | Literal["skip", "last", "all"], cap: int | None = None) -> Self:
        """Say what happens to fires that no scheduler was there for; ``cap`` is the most that ``all`` fires."""
        return self._set_schedule(missed=policy, **({} if cap is None else {"max_missed": cap}))

    def grace(self, length: timedelta) -> Self:
        """Treat a fire that is later than this as missed; by default a minute."""
        return self._set_schedule(grace=length)

    # Which job --------------------------------------------------------------------------------------------------

    @overload
    def run(self, work: str, payload: object = ...) -> Schedule: ...
    @overload
    def run(self, work: Task[None, Any, ..., Any], payload: None = ...) -> Schedule: ...
    @overload
    def run(self, work: Task[P, Any, ..., Any], payload: P) -> Schedule: ...

    def run(self, work: str | AnyTask, payload: object = _UNSET) -> Schedule:
        """Let each fire run this handler, or a job of this type, with a payload. Return the schedule.

        Raises ``InvalidInput`` for contradictions, for a payload that the handler does not take, and for a name that
        another schedule of the app has.
        """
        if payload is not _UNSET:
            if "payload" in self._fields:
                raise InvalidInput("payload", wanted="payload() or an argument of run()", got="both")
            self.payload(payload)
        fields = {**self._fields, **self._schedule_fields}
        if isinstance(work, Task):
            fields["type"] = work.definition.type
            fields["payload"] = encode_payload(fields["name"], work, fields.get("payload"))
        else:
            fields["type"] = work
        schedule = _make_schedule({**fields, "expression": self._frequency.expression()})
        self._register(schedule)
        return schedule

    def build(self) -> JobDefinition:
        """Return a definition with this schedule. Raises ``InvalidInput`` for parts that only ``run`` keeps."""
        if self._schedule_fields:
            raise InvalidInput(next(iter(self._schedule_fields)), wanted="run(...), which keeps it", got="build()")
        return JobDefinition(**self._fields, schedule=self._frequency.expression())


def schedule_of(definition: JobDefinition) -> Schedule:
    """Return the schedule of a definition: its name is that of the definition, or else the type."""
    if definition.schedule is None:
        raise InvalidInput("definition", wanted="one with a schedule: JobBuilder(...).schedule(...)", got="none")
    fields = {each.name: getattr(definition, each.name) for each in dataclass_fields(definition)}
    fields["expression"] = fields.pop("schedule")
    return _make_schedule({**fields, "name": definition.name or definition.type})


def _make_schedule(fields: dict[str, Any]) -> Schedule:
    """Return the schedule with these fields of a definition. Raises ``InvalidInput`` for one that it cannot have."""
    for name in _OF_ONE_JOB:
        if fields.pop(name, None) is not None:
            wanted = "none: each fire has its own key and start, and the handler says the rest"
            raise InvalidInput(f"{name} of the schedule {fields['name']}", wanted=wanted, got=f"a {name}")
    return Schedule(**fields)
