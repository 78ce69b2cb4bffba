"""Which schedules a scheduler fires: those that its app declares, and every dynamic schedule of the space.

A scheduler fires a schedule of code only if its own app has the stored definition. So while two versions of an app run,
each schedule is fired by one version, and a schedule that was deleted from the code stops when the last scheduler with
the old code ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.clock import MINUTE
from holdfast.cron.declaration import Declaration, declare, restore, take_over
from holdfast.cron.entries import ScheduleState, Source, Stored, changes_of, with_next_fire
from holdfast.cron.plan import first_fire
from holdfast.cron.reports import Reports
from holdfast.cron.schedule import Schedule
from holdfast.cron.signature import Definitions
from holdfast.cron.store import MAX_TRIES, ScheduleStore
from holdfast.errors import InvalidInput, ScheduleConflict

if TYPE_CHECKING:
    from holdfast.app import Holdfast

BATCH_SCHEDULES = 1_000  # in one call
REDECLARE_AFTER = MINUTE  # without a tick: other schedulers may have found that nobody declares the schedules
UNDECLARED_AFTER = 5 * MINUTE  # overdue: then no scheduler that declares the schedule is running

UNREADABLE = "its entry cannot be read: a later version of Holdfast has written it"

OnFailed = Callable[[str, Exception | str], None]  # the name of a schedule, and why it cannot be fired


class Ownership:
    """The schedules that one scheduler declares."""

    def __init__(
        self,
        app: Holdfast,
        store: ScheduleStore,
        definitions: Definitions,
        reports: Reports,
        *,
        environment: str,
        on_failed: OnFailed,
    ) -> None:
        self._app = app
        self._store = store
        self._definitions = definitions
        self._reports = reports
        self._environment = environment
        self._on_failed = on_failed
        self._declared: dict[str, tuple[Schedule, str]] = {}  # with their fingerprints, by name
        self._code_schedules = 0  # of the app, when they were declared; an app only gets more
        self._ticked_at: int | None = None

    def refresh(self, now: int) -> None:
        """Declare the schedules of the app: in the first tick, after a pause, and after the app got another one."""
        is_late = self._ticked_at is None or now - self._ticked_at > REDECLARE_AFTER
        self._ticked_at = now
        if is_late or len(self._app.code_schedules) != self._code_schedules:  # a comparison of all costs too much
            try:
                self._declare(now)
            except BaseException:
                self._ticked_at = None  # the next tick declares them
                raise

    def find_own(self, stored: Stored) -> Schedule | None:
        """Return the schedule of a state if this scheduler may fire it."""
        state = stored.value
        if state.source is Source.CODE:
            schedule, fingerprint = self._declared.get(stored.key, (None, ""))
            return schedule if fingerprint == state.fingerprint else None
        try:
            schedule = state.schedule
        except InvalidInput as error:
            self._on_failed(stored.key, error)
            return None
        fault = self._definitions.find_fault(schedule, state)
        if fault is not None:
            self._on_failed(stored.key, fault)
            return None
        return schedule if schedule.fires_in(self._environment) else None

    def give_up(self, stored: Stored, now: int) -> bool:
        """Change a schedule that is overdue because no running scheduler may fire it; return whether that was done.

        - This app declares it, with another definition: a deployment was undone, and this one counts again.
        - No app declares it: it leaves the index, until a scheduler declares it again.
        - It is dynamic, and its environments or its signature exclude this scheduler: it goes on to its next fire.
        """
        next_fire = stored.value.next_fire
        if next_fire is None or now - next_fire <= UNDECLARED_AFTER:
            return False
        if stored.value.source is Source.DYNAMIC:
            return self._skip(stored, next_fire, now)
        if stored.key in self._declared:
            schedule, fingerprint = self._declared[stored.key]
            return self._write([(schedule, stored, take_over(schedule, fingerprint, stored.value, now))])
        after = replace(stored.value, due=None, undeclared=True)
        if not self._store.write(changes_of(stored, Stored(key=stored.key, value=after))):
            return False
        self._reports.undeclared(stored.key)
        return True

    def _skip(self, stored: Stored, next_fire: int, now: int) -> bool:
        try:
            schedule = stored.value.schedule
        except InvalidInput:
            return False  # a scheduler with a later version can read it
        after = with_next_fire(stored.key, stored.value, first_fire(schedule, now))
        if not self._store.write(changes_of(stored, Stored(key=stored.key, value=after))):
            return False
        self._reports.dropped(schedule, next_fire, "no scheduler that may fire it is running")
        return True

    # Declaring --------------------------------------------------------------------------------------------------

    def _declare(self, now: int) -> None:
        """Declare the schedules that this scheduler has not declared yet, and restore the others.

        A schedule that it has declared before is not declared again: after an outage of the store, the schedulers of an
        old version would take back what a newer version has declared.
        """
        schedules = [one for one in self._app.declared_schedules() if one.fires_in(self._environment)]
        declared = {one.name: (one, one.fingerprint()) for one in schedules}
        code_schedules = len(self._app.code_schedules)
        for start in range(0, len(schedules), BATCH_SCHEDULES):
            batch = [declared[one.name] for one in schedules[start : start + BATCH_SCHEDULES]]
            # Refused while another scheduler declares or fires some of them.
            if not any(self._declare_batch(batch, now) for _ in range(MAX_TRIES)):
                raise ScheduleConflict(batch[0][0].name)
        self._declared, self._code_schedules = declared, code_schedules

    def _declare_batch(self, batch: Sequence[tuple[Schedule, str]], now: int) -> bool:
        """Store the schedules that are new or have changed; none if another scheduler has changed one meanwhile."""
        stored = self._store.states(schedule.name for schedule, _ in batch)
        decided: list[tuple[Schedule, Stored | None, Declaration]] = []
        for schedule, fingerprint in batch:
            before = stored.get(schedule.name)
            if before is None and schedule.name in stored:
                self._on_failed(schedule.name, UNREADABLE)
                continue
            is_known = self._declared.get(schedule.name, (None, ""))[1] == fingerprint
            decide = restore if is_known else declare
            decision = decide(schedule, fingerprint, None if before is None else before.value, now)
            if decision.is_refused:
                self._on_failed(schedule.name, decision.reason)
            elif decision.state is not None:
                decided.append((schedule, before, decision))
        return self._write(decided)

    def _write(self, decided: Sequence[tuple[Schedule, Stored | None, Declaration]]) -> bool:
        """Store declarations; none if another scheduler has changed one of the schedules meanwhile."""
        changes = [
            change
            for schedule, before, decision in decided
            if decision.state is not None
            for change in changes_of(before, Stored(key=schedule.name, value=self._signed(schedule, decision.state)))
        ]
        if changes and not self._store.write(changes):
            return False
        for schedule, before, decision in decided:
            if before is not None:
                self._reports.changed(schedule, decision.reason)
        return True

    def _signed(self, schedule: Schedule, state: ScheduleState) -> ScheduleState:
        return replace(state, signature=self._definitions.sign(schedule))
