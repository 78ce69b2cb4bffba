"""``app.schedules``: the schedules of a space, for programs and people. Dynamic schedules are kept only there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from holdfast.clock import from_datetime
from holdfast.cron.declaration import Declaration, declare, resumed
from holdfast.cron.dependencies import check_dependencies, execution_order
from holdfast.cron.entries import ScheduleState, Source, Stored, changes_of, with_next_fire
from holdfast.cron.expression import MAX_FIRES
from holdfast.cron.fire import FireJob, fire_id, fire_job, trigger_job
from holdfast.cron.firing import enqueue_fires
from holdfast.cron.reports import Fired, FireStatus, Reports, fire_instant
from holdfast.cron.schedule import Schedule
from holdfast.cron.signature import Definitions
from holdfast.cron.store import MAX_TRIES, ScheduleStore
from holdfast.errors import InvalidInput, ScheduleConflict, ScheduleNotFound
from holdfast.model import bounds

if TYPE_CHECKING:
    from holdfast.app import Holdfast

MAX_BACKFILL_FIRES = 1_000  # of one call, unless the caller sets another limit
BACKFILL_BATCH = 500  # fires in one transaction

Fires: TypeAlias = list[Fired]  # ``Schedules`` has a method ``list``


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule of the space as it is stored now. Its instants are in the time zone of the schedule."""

    schedule: Schedule
    source: Source
    paused: bool
    declared: bool  # False: it was overdue, and no scheduler whose code has it was running
    next_fire: datetime | None
    last_fire: datetime | None
    last_job: str | None  # of the last fire
    dropped_fire: datetime | None  # the last fire that did not become a job, for the reason that follows
    dropped_reason: str = ""

    @property
    def status(self) -> str:
        """``active``, ``paused``, ``disabled``, or ``not declared``."""
        if self.paused:
            return "paused"
        if not self.schedule.enabled:
            return "disabled"
        return "active" if self.declared else "not declared"


class Schedules:
    """Reads and changes the schedules of a space. Each change is made once, however many schedulers are running."""

    def __init__(self, app: Holdfast) -> None:
        self._app = app

    # Reading ----------------------------------------------------------------------------------------------------

    def get(self, name: str) -> ScheduleInfo | None:
        """Return a schedule; None if no scheduler has declared it, and nobody has put it.

        Raises ``InvalidInput`` if a later version of Holdfast has written it.
        """
        stored = self._store.states([bounds.check_name("schedule", name)])
        return _info(self._readable(name, stored[name])) if name in stored else None

    def list(self, *, after: str = "", limit: int = 100) -> list[ScheduleInfo]:
        """Return a page of the schedules, ordered by name, after the name ``after``."""
        found = []
        for stored in self._store.list_states(after=after, limit=limit):
            try:
                found.append(_info(stored))
            except InvalidInput:  # a later version of Holdfast has written it
                continue
        return found

    # Changing ---------------------------------------------------------------------------------------------------

    def put(self, schedule: Schedule) -> ScheduleInfo:
        """Create a dynamic schedule, or replace the one of this name. Every scheduler of the space fires it.

        An equal one stays as it is; another one starts from now. Raises ``InvalidInput`` for a name that a schedule of
        code has, for an unknown dependency, and for a cycle.
        """
        if not isinstance(schedule, Schedule):
            raise InvalidInput("schedule", wanted="a Schedule", got=schedule)
        wanted = "a name that no schedule in code has"
        if schedule.name in {one.name for one in self._app.declared_schedules()}:
            raise InvalidInput("schedule", wanted=wanted, got=schedule.name)
        self._check_dependencies(schedule)
        fingerprint, signature = schedule.fingerprint(), self._definitions.sign(schedule)

        def change(stored: ScheduleState | None, now: int) -> Declaration:
            decision = declare(schedule, fingerprint, stored, now, source=Source.DYNAMIC)
            if decision.is_refused:
                raise InvalidInput("schedule", wanted=wanted, got=schedule.name)
            if decision.state is not None:
                return replace(decision, state=replace(decision.state, signature=signature))
            assert stored is not None
            if (stored.definition, stored.signature) == (schedule.to_json(), signature):
                return decision
            state = replace(stored, definition=schedule.to_json(), signature=signature)
            if state.due is not None:
                state = with_next_fire(schedule.name, state, state.next_fire)
            return Declaration(state=state, reason="it was signed again")

        return self._change(schedule.name, change, may_be_new=True)

    def pause(self, name: str) -> ScheduleInfo:
        """Stop a schedule, also one of code, until ``resume``. Raises ``ScheduleNotFound``."""

        def change(stored: ScheduleState | None, _now: int) -> Declaration:
            assert stored is not None
            if stored.paused:
                return Declaration()
            return Declaration(state=with_next_fire(name, replace(stored, paused=True), None), reason="it was paused")

        return self._change(name, change)

    def resume(self, name: str) -> ScheduleInfo:
        """Let a paused schedule fire again, from now on. Raises ``ScheduleNotFound``."""

        def change(stored: ScheduleState | None, now: int) -> Declaration:
            assert stored is not None
            if not stored.paused:
                return Declaration()
            return Declaration(state=resumed(stored.schedule, stored, now), reason="it was resumed")

        return self._change(name, change)

    def remove(self, name: str) -> None:
        """Remove a dynamic schedule, or what is left of a schedule that is no longer in the code.

        Its jobs stay. Raises ``ScheduleNotFound``, and ``InvalidInput`` for a schedule that the code of this app has.
        """
        bounds.check_name("schedule", name)
        if name in {one.name for one in self._app.declared_schedules()}:
            wanted = "a schedule that is not in the code of this app (delete it there, or pause it)"
            raise InvalidInput("schedule", wanted=wanted, got=name)
        for _ in range(MAX_TRIES):
            stored = self._find(name)
            if self._store.write(changes_of(stored, None)):
                return
        raise ScheduleConflict(name)

    # Jobs -------------------------------------------------------------------------------------------------------

    def trigger(self, name: str) -> Fired:
        """Enqueue a job of a schedule now, also of a paused one. Its next fire stays as it is.

        A schedule without a queue gets the queue of its handler. Raises ``ScheduleNotFound``.
        """
        schedule = self._find_schedule(name)
        store = self._store
        now = store.now()
        job = trigger_job(self._app, schedule, now)
        [fired] = self._enqueue([job], now)
        return fired

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        *,
        preview: bool = True,
        limit: int = MAX_BACKFILL_FIRES,
    ) -> Fires:
        """Return the fires of a schedule from ``start`` on, before ``end``; without ``preview``, enqueue their jobs.

        A fire whose job the store still has is not enqueued again: its status is ``existed``. Raises
        ``ScheduleNotFound``, and ``InvalidInput`` for more than ``limit`` fires, and for an ``end`` after now.
        """
        schedule = self._find_schedule(name)
        fires = find_fires(schedule, start, end, limit=limit)
        store = self._store
        now = store.now()
        if from_datetime(end) > now:
            raise InvalidInput("end", wanted="an instant that is not after now", got=end.isoformat())
        if preview:
            return [_fired(schedule, fire, FireStatus.PLANNED, fire_id(schedule, fire)) for fire in fires]
        done: Fires = []
        for place in range(0, len(fires), BACKFILL_BATCH):
            batch = fires[place : place + BACKFILL_BATCH]
            done += self._enqueue([fire_job(self._app, schedule, fire, at_once=True) for fire in batch], now)
        return done

    def _enqueue(self, jobs: Sequence[FireJob], now: int) -> Fires:
        reports = self._reports
        done = []
        for job, answer in zip(jobs, enqueue_fires(self._app, jobs), strict=True):
            reports.fired(job, answer.id, now, existed=answer.existed)
            status = FireStatus.EXISTED if answer.existed else FireStatus.ENQUEUED
            done.append(_fired(job.schedule, job.fire, status, answer.id))
        return done

    # Parts ------------------------------------------------------------------------------------------------------

    @property
    def _store(self) -> ScheduleStore:
        return ScheduleStore(self._app.driver)

    @property
    def _definitions(self) -> Definitions:
        return Definitions(self._app.client.signer)

    @property
    def _reports(self) -> Reports:
        return Reports(self._app.metrics, scheduler="")

    def _find(self, name: str) -> Stored:
        found = self._store.states([bounds.check_name("schedule", name)])
        if name not in found:
            raise ScheduleNotFound(name)
        return self._readable(name, found[name])

    def _find_schedule(self, name: str) -> Schedule:
        """Return the schedule of the code of this app; else that of the space. Raises ``ScheduleNotFound``."""
        bounds.check_name("schedule", name)
        for declared in self._app.declared_schedules():
            if declared.name == name:
                return declared
        state = self._find(name).value
        schedule = state.schedule
        fault = self._definitions.find_fault(schedule, state)
        if fault is not None:
            raise InvalidInput(f"schedule {name}", wanted="a definition with a valid signature", got=fault)
        return schedule

    @staticmethod
    def _readable(name: str, stored: Stored | None) -> Stored:
        if stored is None:
            wanted = "a state that this version of Holdfast can read"
            raise InvalidInput(f"schedule {name}", wanted=wanted, got="that of a later version")
        return stored

    def _change(
        self, name: str, change: Callable[[ScheduleState | None, int], Declaration], *, may_be_new: bool = False
    ) -> ScheduleInfo:
        """Change the state of a schedule by compare-and-set, again while schedulers fire it."""
        store = self._store
        now = store.now()
        for _ in range(MAX_TRIES):
            found = store.states([bounds.check_name("schedule", name)])
            if name not in found and not may_be_new:
                raise ScheduleNotFound(name)
            before = self._readable(name, found[name]) if name in found else None
            decision = change(None if before is None else before.value, now)
            if decision.state is None:
                assert before is not None
                return _info(before)
            after = Stored(key=name, value=decision.state)
            if store.write(changes_of(before, after)):
                if before is not None:
                    self._reports.changed(after.value.schedule, decision.reason)
                return _info(after)
        raise ScheduleConflict(name)

    def _check_dependencies(self, schedule: Schedule) -> None:
        """Check the dependencies of a schedule, and theirs, as far as they are stored or in the code."""
        known = {one.name: one for one in self._app.declared_schedules()} | {schedule.name: schedule}
        wanted = set(schedule.depends_on) - known.keys()
        while wanted:
            found = self._store.states(sorted(wanted))
            known |= {name: self._readable(name, stored).value.schedule for name, stored in found.items()}
            missing = wanted - known.keys()
            wanted = {other for name in found for other in known[name].depends_on} - known.keys() - missing
        check_dependencies([schedule], known=known)
        execution_order(known.values())


def find_fires(schedule: Schedule, start: datetime, end: datetime, *, limit: int) -> list[int]:
    """Return the instants of the fires from ``start`` on, before ``end``. Raises ``InvalidInput`` for too many."""
    bounds.check_integer("limit", limit, least=1, most=MAX_FIRES - 1)
    fires = schedule.cron.between(start, end, limit + 1)
    if len(fires) > limit:
        wanted = f"a range with at most {limit} fires (limit)"
        raise InvalidInput("end", wanted=wanted, got=f"{end.isoformat()}, with more")
    return [from_datetime(fire) for fire in fires]


def _fired(schedule: Schedule, fire: int, status: FireStatus, job_id: str) -> Fired:
    return Fired(schedule=schedule.name, fire=fire_instant(schedule, fire), status=status, job_id=job_id)


def _info(stored: Stored) -> ScheduleInfo:
    state = stored.value
    schedule = state.schedule

    def instant(at: int | None) -> datetime | None:
        return None if at is None else fire_instant(schedule, at)

    return ScheduleInfo(
        schedule=schedule,
        source=state.source,
        paused=state.paused,
        declared=not state.undeclared,
        next_fire=instant(state.next_fire),
        last_fire=instant(state.last_fire),
        last_job=state.last_job,
        dropped_fire=instant(None if state.last_drop is None else state.last_drop.fire),
        dropped_reason="" if state.last_drop is None else state.last_drop.reason,
    )
