"""Calls of producers: enqueue, read, wait for the result, cancel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from holdfast.clock import from_datetime
from holdfast.drivers.requests import Inspect
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.request import DEFAULT_QUEUE, JobRequest
from holdfast.service.auth.principal import Scope
from holdfast.service.http.json_body import read_message
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, details_of, not_found
from holdfast.service.schemas.tasks import (
    BatchItem,
    BatchOutcome,
    CancelledTask,
    EnqueuedTask,
    NewTask,
    NewTasks,
    ResultQuery,
    TaskDetails,
    TaskResult,
)
from holdfast.service.statuses import OF_STATE, Status
from holdfast.service.system_queues import check_queue, hide
from holdfast.service.task_answers import details_of as task_details_of
from holdfast.service.task_answers import result_of
from holdfast.service.webhook_checks import check_webhook


def _new_record(call: Call, task: NewTask) -> JobRecord:
    """Return the record of a new task. Raises ``InvalidInput``."""
    return call.tenant.record_of(_request(call, task, task.payload))


def _request(call: Call, task: NewTask, payload: object) -> JobRequest:
    settings = call.service.settings
    return JobRequest(
        type=task.command,
        payload=payload,
        queue=check_queue(task.queue or DEFAULT_QUEUE),
        priority=task.priority,
        max_attempts=task.max_attempts or settings.max_attempts,
        idempotency_key=task.idempotency_key,
        run_at=_run_at(call, task),
        delay=None if task.delay_seconds is None else timedelta(seconds=task.delay_seconds),
        timeout=settings.timeout,
        domain=task.domain,
        offset=task.offset,
        webhook=None if task.webhook is None else check_webhook(call, "webhook", task.webhook),
    )


def _run_at(call: Call, task: NewTask) -> datetime | None:
    """Return when the task is due. If its time has passed: at once, so that its age and its place count from now on."""
    if task.run_at is None or task.delay_seconds is not None:
        return task.run_at
    due = bounds.check_integer("runAt", from_datetime(task.run_at), most=bounds.MAX_INSTANT)
    return None if due <= call.tenant.clock.now() else task.run_at


def _new_records(
    call: Call, tasks: Mapping[int, NewTask], outcomes: dict[int, BatchItem]
) -> tuple[list[int], Sequence[JobRecord]]:
    """Return places of a batch and their records. A task that is refused gets its outcome instead."""
    if len({_shape(task) for task in tasks.values()}) == 1:
        return _alike_records(call, tasks, outcomes)
    records: dict[int, JobRecord] = {}
    for place, task in tasks.items():
        try:
            records[place] = _new_record(call, task)
        except (Problem, InvalidInput) as error:
            outcomes[place] = BatchItem(problem=details_of(error))
    return list(records), list(records.values())


def _shape(task: NewTask) -> tuple[object, ...]:
    """Return what tasks have in common that differ only in payload and key; tasks with an offset have nothing."""
    own = None if task.offset is None else id(task)
    when = (task.run_at, task.delay_seconds)
    return (task.command, task.queue, task.priority, task.max_attempts, when, task.domain, task.webhook, own)


def _alike_records(
    call: Call, tasks: Mapping[int, NewTask], outcomes: dict[int, BatchItem]
) -> tuple[list[int], Sequence[JobRecord]]:
    """Return the same for tasks of one shape: checked once, and stored by columns, in a third of the time."""
    rows: dict[int, tuple[bytes, str | None]] = {}
    for place, task in tasks.items():
        try:
            rows[place] = (
                bounds.check_payload(bytes(task.payload)),
                bounds.check_optional_text("idempotencyKey", task.idempotency_key),
            )
        except InvalidInput as error:
            outcomes[place] = BatchItem(problem=details_of(error))
    first = msgspec.structs.replace(next(iter(tasks.values())), idempotency_key=None)
    try:
        request = _request(call, first, None)
    except (Problem, InvalidInput) as error:
        outcomes |= {place: BatchItem(problem=details_of(error)) for place in rows}
        return [], []
    keys = [key for _, key in rows.values()]
    payloads = [payload for payload, _ in rows.values()]
    return list(rows), call.tenant.records_of(request, payloads, keys if any(keys) else None)


def _conflict(answer: Enqueued) -> Problem:
    return Problem(Code.IDEMPOTENCY_CONFLICT, "nothing was stored", task_id=answer.id)


async def enqueue(call: Call) -> Reply:
    """Store one task."""
    return enqueued(await call.tenant.enqueue(_new_record(call, call.body)))


def enqueued(answer: Enqueued) -> Reply:
    """Return the answer to a producer. Raises ``Problem`` for a key that belongs to another payload."""
    if answer.conflict:
        raise _conflict(answer)
    return Reply(
        status=202,
        content=EnqueuedTask(task_id=answer.id, existed=answer.existed, past=answer.past),
        headers={"Location": f"/v1/tasks/{answer.id}"},
    )


async def enqueue_batch(call: Call) -> Reply:
    """Store the valid tasks of a list in one transaction; each item has its own outcome."""
    outcomes: dict[int, BatchItem] = {}
    tasks: dict[int, NewTask] = {}
    for place, item in enumerate(call.body.tasks):
        try:
            tasks[place] = read_message(item, NewTask)
        except Problem as problem:
            outcomes[place] = BatchItem(problem=problem.details())
    places, records = _new_records(call, tasks, outcomes)
    if records:
        answers = await call.tenant.enqueue_many(records)
        outcomes |= {place: _outcome(answer) for place, answer in zip(places, answers, strict=True)}
    return Reply(status=202, content=BatchOutcome(tasks=[outcomes[place] for place in range(len(outcomes))]))


def _outcome(answer: Enqueued | HoldfastError) -> BatchItem:
    if isinstance(answer, HoldfastError):
        return BatchItem(problem=details_of(answer))
    if answer.conflict:
        return BatchItem(problem=_conflict(answer).details())
    return BatchItem(task_id=answer.id, existed=answer.existed, past=answer.past)


async def show(call: Call) -> Reply:
    """Return a task."""
    task_id = call.path["task_id"]
    found = hide(
        call.principal, (await call.tenant.calls.run(call.tenant.store.do, Inspect(job_ids=[task_id]))).get(task_id)
    )
    if found is None:
        raise not_found(task_id)
    return Reply(content=task_details_of(found, call.tenant.clock.now()))


async def show_result(call: Call) -> Reply:
    """Return the result of a task that has ended: 200. Else, after the wait: 202."""
    task_id, tenant = call.path["task_id"], call.tenant
    most = call.service.serve.max_wait.total_seconds()
    if call.query.wait > most:
        raise Problem(Code.INVALID_REQUEST, f"wanted at most {most:g} seconds", field="wait")
    if call.query.wait:
        await tenant.wait_until_ended(task_id, call.query.wait, ends=call.ends())
    read, artifacts = await tenant.read_result(task_id, has_artifacts=call.service.artifacts is not None)
    found = hide(call.principal, read)
    if found is None:
        raise not_found(task_id)
    if not found.job.state.has_ended:
        return Reply(status=202, content=result_of(found.job, tenant.clock.now(), None))
    return Reply(content=result_of(found.job, tenant.clock.now(), found.ended_at, artifacts))


async def cancel(call: Call) -> Reply:
    """Cancel a task that waits, or ask its worker to stop."""
    task_id = call.path["task_id"]
    found = hide(call.principal, await call.tenant.inspect_one(task_id))
    state = None if found is None else await call.tenant.cancel(task_id)
    if state is None:
        raise not_found(task_id)
    status = OF_STATE[state]
    return Reply(content=CancelledTask(task_id=task_id, status=status, cancel_requested=status is Status.IN_PROGRESS))


_OF_TASK = {"parameters": {"task_id": "$response.body#/taskId"}}

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="enqueueTask",
        method="POST",
        path="/tasks",
        summary="Enqueue a task",
        handler=enqueue,
        scope=Scope.ENQUEUE,
        body=NewTask,
        answers={202: EnqueuedTask},
        links={"showTask": _OF_TASK, "showResult": _OF_TASK, "cancelTask": _OF_TASK},
        problems=(Code.IDEMPOTENCY_CONFLICT, Code.STORE_FULL),
    ),
    Operation(
        name="enqueueTasks",
        method="POST",
        path="/tasks/batch",
        summary="Enqueue many tasks, each with its own outcome",
        handler=enqueue_batch,
        scope=Scope.ENQUEUE,
        body=NewTasks,
        body_items=NewTask,
        answers={202: BatchOutcome},
        problems=(Code.STORE_FULL,),
    ),
    Operation(
        name="showTask",
        method="GET",
        path="/tasks/{task_id}",
        summary="Read a task",
        handler=show,
        scope=Scope.READ,
        answers={200: TaskDetails},
        problems=(Code.NOT_FOUND,),
    ),
    Operation(
        name="showResult",
        method="GET",
        path="/tasks/{task_id}/result",
        summary="Read the result of a task, or wait for it: 202 while it has not ended",
        handler=show_result,
        scope=Scope.READ,
        query=ResultQuery,
        answers={200: TaskResult, 202: TaskResult},
        problems=(Code.NOT_FOUND,),
    ),
    Operation(
        name="cancelTask",
        method="POST",
        path="/tasks/{task_id}/cancel",
        summary="Cancel a task",
        handler=cancel,
        scope=Scope.CANCEL,
        answers={200: CancelledTask},
        problems=(Code.NOT_FOUND,),
    ),
)
