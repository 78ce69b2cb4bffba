"""Calls of producers: enqueue, read, wait for the result, cancel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.request import JobRequest
from holdfast.service.auth.principal import Scope
from holdfast.service.http.json_body import convert
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, not_found, problem_of
from holdfast.service.schemas.tasks import (
    BatchItem,
    BatchOutcome,
    CancelledTask,
    EnqueuedTask,
    NewTask,
    NewTasks,
    ResultQuery,
    TaskDetails,
    TaskFields,
    TaskResult,
)
from holdfast.service.statuses import OF_STATE, Status
from holdfast.service.system_queues import check_queue, hide
from holdfast.service.task_answers import details_of, result_of
from holdfast.service.webhook_checks import check_webhook


def _record(call: Call, task: NewTask) -> JobRecord:
    return new_record(call, task, task.payload)


def new_record(call: Call, task: TaskFields, payload: object) -> JobRecord:
    """Return the record of a new task. Raises ``InvalidInput``."""
    settings = call.service.settings
    record = call.tenant.record_of(
        JobRequest(
            type=task.command,
            payload=payload,
            queue=check_queue(task.queue or settings.queue),
            priority=task.priority,
            max_attempts=task.max_attempts or settings.max_attempts,
            idempotency_key=task.idempotency_key,
            run_at=task.run_at,
            delay=None if task.delay_seconds is None else timedelta(seconds=task.delay_seconds),
            timeout=settings.timeout,
            domain=task.domain,
            offset=task.offset,
            webhook=None if task.webhook is None else check_webhook(call, "webhook", task.webhook),
        )
    )
    if record.run_at is not None and record.run_at <= call.tenant.clock.now():
        return replace(record, run_at=None)  # due at once: its age, and its place in the queue, count from now on
    return record


def _conflict(answer: Enqueued) -> Problem:
    return Problem(Code.IDEMPOTENCY_CONFLICT, "nothing was stored", task_id=answer.id)


async def enqueue(call: Call) -> Reply:
    """Store one task."""
    return enqueued(await call.tenant.enqueue(_record(call, call.body)))


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
    records: dict[int, JobRecord] = {}
    for place, item in enumerate(call.body.tasks):
        try:
            records[place] = _record(call, convert(item, NewTask))
        except Problem as problem:
            outcomes[place] = BatchItem(problem=problem.details())
        except InvalidInput as error:
            outcomes[place] = BatchItem(problem=problem_of(error).details())
    if records:
        answers = await call.tenant.enqueue_many(list(records.values()))
        outcomes |= {place: _outcome(answer) for place, answer in zip(records, answers, strict=True)}
    return Reply(status=202, content=BatchOutcome(tasks=[outcomes[place] for place in range(len(outcomes))]))


def _outcome(answer: Enqueued | HoldfastError) -> BatchItem:
    if isinstance(answer, HoldfastError):
        return BatchItem(problem=problem_of(answer).details())
    if answer.conflict:
        return BatchItem(problem=_conflict(answer).details())
    return BatchItem(task_id=answer.id, existed=answer.existed, past=answer.past)


async def show(call: Call) -> Reply:
    """Return a task."""
    task_id = call.path["task_id"]
    found = hide(call.principal, (await call.tenant.calls.run(call.tenant.store.inspect, [task_id])).get(task_id))
    if found is None:
        raise not_found(task_id)
    return Reply(content=details_of(found, call.tenant.clock.now()))


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
