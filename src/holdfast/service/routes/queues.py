"""Calls of operators and autoscalers about queues: counts, pause, resume, limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from holdfast.clock import SECOND
from holdfast.drivers.requests import Configure, Settings
from holdfast.drivers.store import Store
from holdfast.model import bounds
from holdfast.model.queue_settings import LimitOrigin, QueueSettings
from holdfast.service.auth.principal import Scope
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem
from holdfast.service.schemas.fields import instant
from holdfast.service.schemas.queues import (
    AutoscaleQuery,
    AutoscaleStats,
    Counts,
    PauseRequest,
    QueueLimitsChange,
    QueueList,
    QueueState,
    ResumeRequest,
    SettingsQuery,
)
from holdfast.service.system_queues import check_visible, is_system
from holdfast.service.tenants.queue_counts import sum_counts
from holdfast.worker.type_holds import forget_holds


async def list_queues(call: Call) -> Reply:
    """Count the open and failed tasks of each queue. An answer may be a few seconds old."""
    rows = await call.service.counter(call.tenant.name).rows()
    names = sorted({row.queue for row in rows})
    return Reply(
        content=QueueList(queues=[sum_counts(name, [one for one in rows if one.queue == name]) for name in names])
    )


async def show_queue(call: Call) -> Reply:
    """Count the tasks of one queue; a queue without tasks has zeros."""
    name = bounds.check_name("queue", call.path["queue"])
    rows = await call.service.counter(call.tenant.name).rows()
    return Reply(content=sum_counts(name, [one for one in rows if one.queue == name]))


async def autoscale(call: Call) -> Reply:
    """Return numbers for an autoscaler, over all queues or some."""
    query: AutoscaleQuery = call.query
    rows = await call.service.counter(call.tenant.name).rows()
    if query.queue is not None:
        check_visible(call.principal, query.queue)
    chosen = [
        one
        for one in rows
        if query.command in (None, one.type) and (one.queue == query.queue if query.queue else not is_system(one.queue))
    ]
    counts = sum_counts("", chosen)
    backlog = counts.pending + counts.in_progress
    return Reply(
        content=AutoscaleStats(
            pending=counts.pending,
            delayed=counts.delayed,
            in_progress=counts.in_progress,
            backlog=backlog,
            oldest_age_seconds=counts.oldest_age_seconds or 0.0,
            desired_workers=-(-backlog // query.tasks_per_worker),
        )
    )


async def show_settings(call: Call) -> Reply:
    """Return the pause and the limits of a queue, or of one command in it."""
    return Reply(content=await _state(call, call.query.command))


async def pause(call: Call) -> Reply:
    """Hand out no tasks of a queue. Tasks in progress go on, and new ones are accepted."""
    request: PauseRequest = call.body
    until = bounds.MAX_INSTANT
    if request.for_seconds is not None:
        until = call.tenant.clock.now() + round(request.for_seconds * SECOND)
    await _change(call, request.command, {"paused_until": until})
    return Reply(content=await _state(call, request.command))


async def resume(call: Call) -> Reply:
    """End a pause; with a command, also close its circuit breaker."""
    request: ResumeRequest = call.body
    changes: dict[str, Any] = {"paused_until": None}
    if request.command is not None:
        changes |= {"held_until": None, "probing": False}
        await call.tenant.calls.run(forget_holds, call.tenant.store, _queue(call), request.command)
    await _change(call, request.command, changes)
    return Reply(content=await _state(call, request.command))


async def change_settings(call: Call) -> Reply:
    """Change the limits of a queue. They win over those of settings and handlers."""
    request: QueueLimitsChange = call.body
    limits = _given(max_inflight=request.max_in_progress, rate=request.rate, burst=request.burst)
    if limits.get("rate", 0.0) is None:
        limits["burst"] = None
    order = _given(
        on_exhausted=request.on_exhausted,
        gaps=request.gaps,
        gap_report_after=_microseconds(request.gap_report_after_seconds),
        gap_pass_after=_microseconds(request.gap_pass_after_seconds),
    )
    if order and request.command is not None:
        raise Problem(Code.INVALID_REQUEST, "wanted a queue: a command has no order of its own", field="command")
    if limits:
        limits["limits_from"] = LimitOrigin.OPERATOR
    if limits or order:
        await _change(call, request.command, limits | order)
    return Reply(content=await _state(call, request.command))


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not msgspec.UNSET}


def _microseconds(seconds: float | msgspec.UnsetType | None) -> int | msgspec.UnsetType | None:
    return max(1, round(seconds * SECOND)) if isinstance(seconds, float) else seconds


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / SECOND


def _queue(call: Call) -> str:
    return bounds.check_name("queue", call.path["queue"])


async def _change(call: Call, command: str | None, changes: dict[str, Any]) -> None:
    """Change some settings of a queue, and keep the others."""

    def change(store: Store, queue: str) -> None:
        changed = replace(store.do(Settings(queue=queue, type=command)), **changes)
        fields = set(changes) | ({"rate", "burst"} if {"rate", "burst"} & changes.keys() else set())
        store.do(Configure(queue=queue, settings=changed, type=command, only=sorted(fields)))

    await call.tenant.calls.run(change, call.tenant.store, _queue(call))
    call.tenant.resumed()


async def _state(call: Call, command: str | None) -> QueueState:
    queue = _queue(call)
    settings: QueueSettings = await call.tenant.calls.run(call.tenant.store.do, Settings(queue=queue, type=command))
    until = settings.paused_until
    is_paused = until is not None and until > call.tenant.clock.now()
    return QueueState(
        queue=queue,
        command=command,
        paused=is_paused,
        paused_until=instant(until) if is_paused and until != bounds.MAX_INSTANT else None,
        max_in_progress=settings.max_inflight,
        rate=settings.rate,
        burst=settings.burst,
        on_exhausted=settings.on_exhausted,
        gaps=settings.gaps,
        gap_report_after_seconds=_seconds(settings.gap_report_after),
        gap_pass_after_seconds=_seconds(settings.gap_pass_after),
    )


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="listQueues",
        method="GET",
        path="/queues",
        summary="Count the tasks of every queue",
        handler=list_queues,
        scope=Scope.ADMIN,
        answers={200: QueueList},
    ),
    Operation(
        name="showQueue",
        method="GET",
        path="/queues/{queue}",
        summary="Count the tasks of one queue",
        handler=show_queue,
        scope=Scope.ADMIN,
        answers={200: Counts},
    ),
    Operation(
        name="autoscale",
        method="GET",
        path="/autoscale",
        summary="Numbers for an autoscaler",
        handler=autoscale,
        scope=Scope.METRICS,
        query=AutoscaleQuery,
        answers={200: AutoscaleStats},
    ),
    Operation(
        name="showQueueSettings",
        method="GET",
        path="/queues/{queue}/settings",
        summary="Read the pause and the limits of a queue",
        handler=show_settings,
        scope=Scope.ADMIN,
        query=SettingsQuery,
        answers={200: QueueState},
    ),
    Operation(
        name="changeQueueSettings",
        method="PATCH",
        path="/queues/{queue}/settings",
        summary="Change the limits of a queue",
        handler=change_settings,
        scope=Scope.ADMIN,
        body=QueueLimitsChange,
        answers={200: QueueState},
        audited=True,
    ),
    Operation(
        name="pauseQueue",
        method="POST",
        path="/queues/{queue}/pause",
        summary="Pause a queue",
        handler=pause,
        scope=Scope.ADMIN,
        body=PauseRequest,
        answers={200: QueueState},
        audited=True,
    ),
    Operation(
        name="resumeQueue",
        method="POST",
        path="/queues/{queue}/resume",
        summary="Resume a queue",
        handler=resume,
        scope=Scope.ADMIN,
        body=ResumeRequest,
        answers={200: QueueState},
        audited=True,
    ),
)
