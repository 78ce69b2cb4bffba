"""Fires that wait for the jobs of their dependencies, and hooks that wait for the job of their fire.

A watch is looked at again after a quarter of the time that it has waited, so that its delay is in proportion, and a job
of hours costs few calls. Any scheduler of the space does it; only a hook that is a function needs a scheduler of the
app that has the function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.clock import DAY, MINUTE, SECOND, from_datetime
from holdfast.cron.completion import completion_of, follow_up_payload
from holdfast.cron.entries import (
    WATCH_KIND,
    Drop,
    Stored,
    Watch,
    changes_of,
    make_due_key,
    new_watch,
    watch_key,
    with_last_drop,
)
from holdfast.cron.fire import FireJob, fire_id, fire_job, follow_up_job
from holdfast.cron.firing import any_version, store_fires
from holdfast.cron.reports import Fired, FireStatus, Reports, fire_instant
from holdfast.cron.schedule import Schedule
from holdfast.cron.signature import Definitions
from holdfast.cron.store import ScheduleStore
from holdfast.errors import InvalidInput, StoreError, WriteRefused
from holdfast.model.job import JobRecord, State

if TYPE_CHECKING:
    from holdfast.app import Holdfast

MIN_CHECK_DELAY = SECOND
MAX_CHECK_DELAY = 30 * SECOND
HOOK_CLAIM = MINUTE  # a hook that was called and not removed from the store is called again after this time
FAULT_DELAY = 10 * MINUTE  # until a watch whose signature is wrong is looked at again
MAX_HOOK_CALLS = 5  # of a hook that raises
MAX_HOOK_WAIT = DAY  # for a scheduler of the app that has the hook


class Watches:
    """Makes watches, and looks at those that are due."""

    def __init__(self, app: Holdfast, store: ScheduleStore, definitions: Definitions, reports: Reports) -> None:
        self._app = app
        self._store = store
        self._definitions = definitions
        self._reports = reports

    def pending_fire(self, schedule: Schedule, fire: int, job_ids: list[str], now: int) -> Stored[Watch]:
        """Return the watch of a fire that is enqueued when these jobs are done."""
        watch = self._new(schedule, fire, job_ids, is_fire=True, since=now)
        return new_watch(fire_id(schedule, fire), watch, check_at=now + MIN_CHECK_DELAY)

    def hooks(self, jobs: Sequence[FireJob], now: int) -> list[Stored[Watch]]:
        """Return the watches of the hooks of these jobs, as far as they have one."""
        watches = []
        for job in jobs:
            if self._has_hook(job.schedule):
                run_at = job.request.run_at
                since = now if run_at is None else max(now, from_datetime(run_at))
                watch = self._new(job.schedule, job.fire, [job.job_id], is_fire=False, since=since)
                watches.append(new_watch(job.job_id, watch, check_at=since + MIN_CHECK_DELAY))
        return watches

    def _new(self, schedule: Schedule, fire: int, job_ids: list[str], *, is_fire: bool, since: int) -> Watch:
        return Watch(
            schedule=schedule.name,
            definition=schedule.to_json(),
            signature=self._definitions.sign(schedule),
            fire=fire,
            job_ids=job_ids,
            is_fire=is_fire,
            since=since,
        )

    def _has_hook(self, schedule: Schedule) -> bool:
        return schedule.on_complete is not None or schedule.name in self._app.completion_hooks

    def check(self, watch: Stored[Watch], now: int) -> Fired | None:
        """Look at the jobs of a watch, and do what it says if they have ended. Returns the fire that was enqueued."""
        value = watch.value
        try:
            schedule = Schedule.from_json(value.definition)
        except InvalidInput:
            self._wait(watch, now)  # a later version of Holdfast has written it, and will look at it
            return None
        fault = self._definitions.find_fault(schedule, value.signature)
        if fault is not None:
            self._reports.failed(schedule.name, fault)
            self._wait(watch, now, at_least=FAULT_DELAY)
            return None
        try:
            if value.is_fire:
                return self._check_fire(watch, schedule, now)
            self._check_hook(watch, schedule, now)
        except WriteRefused:  # another scheduler was first
            return None
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - of a hook, of a request, or of an enqueue middleware
            self._reports.failed(schedule.name, error)
            self._wait(watch, now, at_least=HOOK_CLAIM)  # refused if the hook was called: then it waits already
        return None

    # Pending fires ----------------------------------------------------------------------------------------------

    def _check_fire(self, watch: Stored[Watch], schedule: Schedule, now: int) -> Fired | None:
        value = watch.value
        for job_id in value.job_ids:
            state = self._state_of(job_id)
            if state is not None and not state.has_ended:
                self._wait(watch, now)
                return None
            if state is not State.DONE:
                what = "gone" if state is None else str(state)
                self._drop(watch, schedule, f"job {job_id} of a dependency is {what}")
                return None
        stored = self._store.states([value.schedule]).get(value.schedule)
        if stored is None or stored.value.paused:
            self._drop(watch, schedule, "the schedule was removed" if stored is None else "the schedule is paused")
            return None
        job = fire_job(self._app, schedule, value.fire)
        changes = changes_of(watch, None)
        for hook in self.hooks([job], now):
            changes += any_version(changes_of(None, hook))
        [is_done], [answer] = store_fires(self._app, self._store, [job], [changes])
        if not is_done:
            return None
        self._reports.fired(job, answer.id, now, existed=answer.existed)
        status = FireStatus.EXISTED if answer.existed else FireStatus.ENQUEUED
        return Fired(schedule=schedule.name, fire=fire_instant(schedule, value.fire), status=status, job_id=answer.id)

    def _state_of(self, job_id: str) -> State | None:
        """Return the state of a job; ready for one that is itself a pending fire, None if there is no job."""
        job = self._app.driver.get(job_id)
        if job is None:
            key = watch_key(job_id, is_fire=True)
            if key in self._store.watches([key]):
                return State.READY
            job = self._app.driver.get(job_id)  # it was enqueued between the two calls, or dropped
        return None if job is None else job.state

    def _drop(self, watch: Stored[Watch], schedule: Schedule, reason: str) -> None:
        if self._store.replace(watch, None) is None:
            return
        self._reports.dropped(schedule, watch.value.fire, reason)
        stored = self._store.states([schedule.name]).get(schedule.name)
        if stored is not None:  # for people: nothing is lost if another scheduler changes the state at this moment
            drop = Drop(fire=watch.value.fire, reason=reason)
            noted = with_last_drop(schedule.name, stored.value, drop)
            self._store.replace(stored, Stored(key=schedule.name, value=noted))

    # Hooks ------------------------------------------------------------------------------------------------------

    def _check_hook(self, watch: Stored[Watch], schedule: Schedule, now: int) -> None:
        value = watch.value
        [job_id] = value.job_ids
        job = self._app.driver.get(job_id)
        if job is None:
            self._drop(watch, schedule, f"job {job_id} is gone, and its completion hook was not called")
        elif not job.state.has_ended:
            self._wait(watch, now)
        elif schedule.on_complete is not None:
            self._enqueue_follow_up(watch, schedule, job)
        else:
            self._call_hook(watch, schedule, job, now)

    def _enqueue_follow_up(self, watch: Stored[Watch], schedule: Schedule, job: JobRecord) -> None:
        fire = watch.value.fire
        payload = follow_up_payload(schedule, fire, job)
        follow_up = follow_up_job(self._app, schedule, fire, payload, job_id=job.id)
        [is_done], _ = store_fires(self._app, self._store, [follow_up], [changes_of(watch, None)])
        if is_done:
            self._reports.completed(schedule, fire, job.id, job.state)

    def _call_hook(self, watch: Stored[Watch], schedule: Schedule, job: JobRecord, now: int) -> None:
        """Call the function of the app. It is called again if it raises, or if this scheduler is killed meanwhile."""
        hook = self._app.completion_hooks.get(schedule.name)
        if hook is None and now - watch.value.since < MAX_HOOK_WAIT:
            self._wait(watch, now)
        elif hook is None or watch.value.calls >= MAX_HOOK_CALLS:
            reason = "no scheduler has it" if hook is None else f"it was called {MAX_HOOK_CALLS} times"
            self._drop(watch, schedule, f"its completion hook did not succeed: {reason}")
        else:
            called = replace(watch, value=replace(watch.value, calls=watch.value.calls + 1))
            claimed = self._wait(called, now, at_least=HOOK_CLAIM)
            if claimed is None:
                return  # another scheduler calls it
            hook(completion_of(schedule, watch.value.fire, job))
            self._store.replace(claimed, None)
            self._reports.completed(schedule, watch.value.fire, job.id, job.state)

    def _wait(self, watch: Stored[Watch], now: int, *, at_least: int = MIN_CHECK_DELAY) -> Stored[Watch] | None:
        """Look at a watch again later; return it as it is stored then, None if another scheduler has changed it."""
        delay = max(at_least, min(MAX_CHECK_DELAY, (now - watch.value.since) // 4))
        due = make_due_key(WATCH_KIND, watch.key, now + delay)
        after = Stored(key=watch.key, value=replace(watch.value, due=due))
        version = self._store.replace(watch, after)
        return None if version is None else replace(after, version=version)
