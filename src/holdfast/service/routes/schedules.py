"""Calls of operators about schedules: list, pause, resume, run now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from holdfast.app import Holdfast
from holdfast.cron.schedules import ScheduleInfo, Schedules
from holdfast.errors import ScheduleConflict, ScheduleNotFound
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import BUSY_SECONDS, Code, Problem
from holdfast.service.schemas.operators import ScheduleList, ScheduleRun, SchedulesQuery, ScheduleState

T = TypeVar("T")


async def show_all(call: Call) -> Reply:
    """List the schedules of the space."""
    query: SchedulesQuery = call.query
    found = await _run(call, lambda schedules: schedules.list(after=query.after or "", limit=query.limit))
    return Reply(content=ScheduleList(schedules=[_state(one) for one in found]))


async def show(call: Call) -> Reply:
    """Return one schedule."""
    name = call.path["schedule"]
    info = await _run(call, lambda schedules: schedules.get(name))
    if info is None:
        raise _unknown()
    return Reply(content=_state(info))


async def pause(call: Call) -> Reply:
    """Stop a schedule until it is resumed."""
    name = call.path["schedule"]
    return Reply(content=_state(await _run(call, lambda schedules: schedules.pause(name))))


async def resume(call: Call) -> Reply:
    """Let a schedule fire again from now on."""
    name = call.path["schedule"]
    return Reply(content=_state(await _run(call, lambda schedules: schedules.resume(name))))


async def run(call: Call) -> Reply:
    """Enqueue a task of a schedule now."""
    name = call.path["schedule"]

    def trigger(schedules: Schedules) -> str:
        info = schedules.get(name)
        if info is None:
            raise ScheduleNotFound(name)
        if info.schedule.queue is None:  # its handler has one, and this process does not have the handlers
            raise Problem(Code.INVALID_REQUEST, "wanted a schedule that names its queue", field="schedule")
        task_id = schedules.trigger(name).job_id
        assert task_id is not None, "a trigger always has a job"
        return task_id

    task_id = await _run(call, trigger)
    call.tenant.resumed()
    return Reply(status=202, content=ScheduleRun(name=name, task_id=task_id))


async def _run(call: Call, action: Callable[[Schedules], T]) -> T:
    """Call the schedules of the space in a thread."""
    try:
        return await call.tenant.calls.run(partial(_with_schedules, call, action))
    except ScheduleNotFound:
        raise _unknown() from None
    except ScheduleConflict:
        raise Problem(Code.STORE_BUSY, retry_after=BUSY_SECONDS) from None


def _with_schedules(call: Call, action: Callable[[Schedules], T]) -> T:
    app = Holdfast(driver=call.tenant.store, space=call.tenant.name)  # without handlers and schedules of its own
    app.use_settings(call.service.settings, space=call.tenant.name)
    return action(app.schedules)


def _unknown() -> Problem:
    return Problem(Code.NOT_FOUND, "there is no such schedule")


def _state(info: ScheduleInfo) -> ScheduleState:
    schedule = info.schedule
    return ScheduleState(
        name=schedule.name,
        command=schedule.type,
        queue=schedule.queue,
        expression=schedule.expression,
        timezone=schedule.timezone,
        status=info.status,
        source=info.source,
        next_fire=info.next_fire,
        last_fire=info.last_fire,
        last_task_id=info.last_job,
    )


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="listSchedules",
        method="GET",
        path="/schedules",
        summary="List schedules",
        handler=show_all,
        scope=Scope.ADMIN,
        query=SchedulesQuery,
        answers={200: ScheduleList},
    ),
    Operation(
        name="showSchedule",
        method="GET",
        path="/schedules/{schedule}",
        summary="Read a schedule",
        handler=show,
        scope=Scope.ADMIN,
        answers={200: ScheduleState},
    ),
    Operation(
        name="pauseSchedule",
        method="POST",
        path="/schedules/{schedule}/pause",
        summary="Stop a schedule",
        handler=pause,
        scope=Scope.ADMIN,
        answers={200: ScheduleState},
        audited=True,
    ),
    Operation(
        name="resumeSchedule",
        method="POST",
        path="/schedules/{schedule}/resume",
        summary="Let a schedule fire again",
        handler=resume,
        scope=Scope.ADMIN,
        answers={200: ScheduleState},
        audited=True,
    ),
    Operation(
        name="runSchedule",
        method="POST",
        path="/schedules/{schedule}/run",
        summary="Enqueue a task of a schedule now",
        handler=run,
        scope=Scope.ADMIN,
        answers={202: ScheduleRun},
        audited=True,
    ),
)
