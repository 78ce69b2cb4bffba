"""One walk over the schedules that are due: each after those that it depends on.

| the dependency in this tick | a schedule that depends on it |
|---|---|
| not due, disabled, or excluded by its environments | fires |
| enqueued | fires after it |
| ran inline and succeeded | fires |
| ran inline and failed, or was blocked | is blocked: its fire is dropped |

A dependency that another scheduler has fired at the same instant counts as fired in this tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from holdfast.cron.dependencies import execution_order
from holdfast.cron.entries import Drop, ScheduleState, Stored, with_next_fire
from holdfast.cron.fire import INLINE_QUEUE, fire_job
from holdfast.cron.firing import Committed, Firing, Step
from holdfast.cron.inline import run_inline
from holdfast.cron.plan import Plan, plan
from holdfast.cron.reports import Fired, FireStatus, Reports, fire_instant
from holdfast.cron.schedule import Schedule
from holdfast.cron.signature import Definitions
from holdfast.cron.store import ScheduleStore
from holdfast.errors import InvalidInput
from holdfast.model.job import JobRecord, State

if TYPE_CHECKING:
    from holdfast.app import Holdfast

_FAILED = frozenset({FireStatus.FAILED, FireStatus.RELEASED, FireStatus.BLOCKED})
_STATUS_OF_STATE = {State.DONE: FireStatus.DONE, State.DEAD: FireStatus.FAILED, State.CANCELLED: FireStatus.FAILED}


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule that is due, and that this scheduler may fire."""

    schedule: Schedule
    stored: Stored


@dataclass(slots=True, kw_only=True)
class Round:
    """The result of a walk."""

    fired: list[Fired] = field(default_factory=list)
    committed: list[Step] = field(default_factory=list)
    refused: int = 0  # steps that were not stored: another scheduler was first, or they failed
    deferred: int = 0  # schedules that stay due, because a dependency is due and fired by another scheduler
    is_stopped: bool = False  # a signal came during an inline run: the schedules after it stay due


class Walk:
    """Plans and stores the steps of one round."""

    def __init__(
        self,
        app: Holdfast,
        store: ScheduleStore,
        *,
        definitions: Definitions,
        firing: Firing,
        reports: Reports,
        inline: bool,
        now: int,
    ) -> None:
        self._app = app
        self._store = store
        self._definitions = definitions
        self._firing = firing
        self._reports = reports
        self._inline = inline
        self._now = now
        self._round = Round()
        self._steps: list[Step] = []  # that are planned, and not stored yet
        self._fires: dict[str, dict[int, Fired]] = {}  # of this walk, by schedule and instant
        self._others: Mapping[str, Stored | None] = {}  # dependencies that are not due
        self._deferred: set[str] = set()  # schedules that are due, and not fired in this walk

    def run(self, due: Sequence[DueSchedule], *, due_elsewhere: Iterable[str]) -> Round:
        """Fire these schedules. ``due_elsewhere`` are due, too, but for other schedulers."""
        self._deferred = set(due_elsewhere)
        by_name = {one.schedule.name: one for one in due}
        self._others = self._read_others(by_name)
        for schedule in self._order([one.schedule for one in due]):
            if not self._round.is_stopped:
                self._take(schedule, by_name[schedule.name].stored)
        self._flush()
        return self._round

    def _order(self, schedules: list[Schedule]) -> list[Schedule]:
        try:
            return execution_order(schedules)
        except InvalidInput as error:  # two dynamic schedules were put at the same time, for example
            self._reports.failed(schedules[0].name, str(error))
            return schedules

    def _read_others(self, due: Mapping[str, DueSchedule]) -> Mapping[str, Stored | None]:
        """Read the dependencies that are not due, where they matter: no call for most ticks."""
        names = {
            name
            for one in due.values()
            if self._is_inline(one.schedule)
            for name in one.schedule.depends_on
            if name not in due
        }
        return self._store.states(sorted(names))

    def _is_inline(self, schedule: Schedule) -> bool:
        return self._inline and schedule.queue is None

    # One schedule -----------------------------------------------------------------------------------------------

    def _take(self, schedule: Schedule, stored: Stored) -> None:
        assert stored.value.next_fire is not None
        decided = plan(schedule, stored.value.next_fire, self._now)
        is_inline = self._is_inline(schedule)
        is_deferred = is_inline and not self._deferred.isdisjoint(schedule.depends_on)
        blocked = None if is_deferred else self._find_failure(schedule, decided.fires)
        if blocked is None:
            self._deferred.add(schedule.name)
            self._round.deferred += 1
            return
        if is_inline and not blocked:
            self._flush()
        jobs = [fire_job(self._app, schedule, fire, inline=is_inline) for fire in (() if blocked else decided.fires)]
        for job in jobs:
            self._note(schedule, job.fire, FireStatus.ENQUEUED, job_id=job.job_id)
        for fire in decided.fires if blocked else ():
            self._note(schedule, fire, FireStatus.BLOCKED, error=blocked)
        last_job = self._fires[schedule.name][decided.fires[-1]].job_id if decided.fires else None
        after = _advanced(schedule, stored.value, decided, last_job=last_job, blocked=blocked)
        self._steps.append(
            Step(
                schedule=schedule,
                before=stored,
                # Signed with the newest key, and as this version writes it.
                after=replace(after, definition=schedule.to_json(), signature=self._definitions.sign(schedule)),
                plan=decided,
                jobs=tuple(jobs),
                blocked=blocked,
            )
        )
        if is_inline and jobs:
            self._flush()

    def _note(
        self, schedule: Schedule, fire: int, status: FireStatus, *, job_id: str | None = None, error: str = ""
    ) -> None:
        at = fire_instant(schedule, fire)
        noted = Fired(schedule=schedule.name, fire=at, status=status, job_id=job_id, error=error)
        self._fires.setdefault(schedule.name, {})[fire] = noted

    # Dependencies -----------------------------------------------------------------------------------------------

    def _find_failure(self, schedule: Schedule, fires: Sequence[int]) -> str | None:
        """Return why a schedule is blocked, "" if it is not; None if that is not known yet."""
        for name in schedule.depends_on:
            failed = [fired for fired in self._fires.get(name, {}).values() if fired.status in _FAILED]
            if failed:
                return f"its dependency {name} is {failed[-1].status}"
            other = self._others.get(name) if self._is_inline(schedule) else None
            if other is not None and other.value.last_fire in fires and other.value.last_job is not None:
                job = self._app.client.get(other.value.last_job)
                if job is not None and job.queue == INLINE_QUEUE and job.state is State.READY:  # a runner was killed
                    job = run_inline(self._app, [job.id]).jobs.get(job.id)
                if job is None or job.queue != INLINE_QUEUE or job.state is State.DONE:
                    continue
                if not job.state.has_ended:
                    return None  # another runner has it
                return f"its dependency {name} is {job.state}"
        return ""

    # Storing ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Store the planned steps, and run those that are inline."""
        steps, self._steps = self._steps, []
        committed = self._firing.commit(steps)
        self._round.refused += len(steps) - len(committed)
        stored = {one.step.name for one in committed}
        for step in steps:
            if step.name not in stored:
                self._fires.pop(step.name, None)
                self._deferred.add(step.name)
        for one in committed:
            self._round.committed.append(one.step)
            self._report(one)

    def _report(self, committed: Committed) -> None:
        step = committed.step
        if step.plan.dropped:
            since = step.before.value.next_fire
            assert since is not None
            self._reports.missed(step.schedule, step.plan.dropped, or_more=step.plan.dropped_more, since=since)
        for fire in step.plan.fires if step.blocked else ():
            self._reports.dropped(step.schedule, fire, step.blocked)
        for job, answer in zip(step.jobs, committed.answers, strict=True):
            self._reports.fired(job, answer.id, self._now, existed=answer.existed)
        fires = self._fires.get(step.name, {})
        for job, answer in zip(step.jobs, committed.answers, strict=True):
            if answer.existed:
                fires[job.fire] = replace(fires[job.fire], status=FireStatus.EXISTED)
        if self._is_inline(step.schedule) and step.jobs:
            run = run_inline(self._app, [job.job_id for job in step.jobs])
            fires |= {job.fire: _ended(fires[job.fire], run.jobs.get(job.job_id)) for job in step.jobs}
            self._round.is_stopped |= run.is_stopped
        self._round.fired += fires.values()


def _ended(fired: Fired, job: JobRecord | None) -> Fired:
    """Return an inline fire with the status that its job has now."""
    if job is None:
        return fired
    return replace(fired, status=_STATUS_OF_STATE.get(job.state, FireStatus.RELEASED), error=job.last_error)


def _advanced(
    schedule: Schedule, state: ScheduleState, decided: Plan, *, last_job: str | None, blocked: str
) -> ScheduleState:
    """Return the state after this step."""
    if decided.fires:
        state = replace(state, last_fire=decided.fires[-1], last_job=last_job)
    if decided.fires and blocked:
        state = replace(state, last_drop=Drop(fire=decided.fires[-1], reason=blocked))
    return with_next_fire(schedule.name, state, decided.next_fire)
