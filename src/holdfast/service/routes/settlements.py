"""Calls by which a worker ends a lease: result, nack, abandon.

A call is repeated safely: the store remembers the last verb and token of a task, and answers as the first time (L6).
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import SECOND
from holdfast.errors import ArtifactError, InvalidInput
from holdfast.model import bounds
from holdfast.model.job import JobRecord, State
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.service.artifact_transfers import transfers_of
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import check_owned, check_owner, lease_of, read_owned
from holdfast.service.named_artifacts import settle_with_artifacts
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, problem_of, refused
from holdfast.service.routes.claims import STALE
from holdfast.service.schemas.workers import (
    Abandon,
    BatchCompletion,
    Completion,
    Completions,
    Nack,
    SettledItem,
    SettledItems,
    SettledTask,
)
from holdfast.service.statuses import Status, status_of
from holdfast.wire.codec import JSON

FAILED = "failed by its worker"  # the reason of a dead letter
NO_ERROR = "the worker gave no error"


async def submit_result(call: Call) -> Reply:
    """End an attempt with its result, or with its failure."""
    task_id, completion = call.path["task_id"], call.body
    job = None
    if completion.retryable:
        job = await read_owned(call, task_id)
    else:
        await check_owned(call, task_id, completion.lease_token)
    settlement = _completion(call, task_id, job, completion)
    return Reply(content=await _settle(call, task_id, settlement, completion.artifacts))


async def submit_results(call: Call) -> Reply:
    """End many attempts in one call of the store, those with artifacts one by one; each item has its own outcome."""
    completions: list[BatchCompletion] = call.body.results
    found = await call.tenant.inspect([completion.task_id for completion in completions])
    settlements: dict[int, Settlement] = {}
    items: dict[int, SettledItem] = {}
    for place, (completion, inspected) in enumerate(zip(completions, found, strict=True)):
        try:
            job = check_owner(call, completion.task_id, inspected)
            settlement = _completion(call, job.id, job, completion)
            if completion.artifacts:
                settled = await _settle(call, job.id, settlement, completion.artifacts)
                items[place] = SettledItem(task_id=job.id, status=settled.status)
            else:
                settlements[place] = settlement
        except Problem as problem:
            items[place] = _refused_item(completion.task_id, problem)
        except (InvalidInput, ArtifactError) as error:
            items[place] = _refused_item(completion.task_id, problem_of(error))
    answers = await call.tenant.settle_many(list(settlements.values())) if settlements else []
    for (place, settlement), refusal in zip(settlements.items(), answers, strict=True):
        task_id = settlement.lease.job_id
        if refusal is not None:
            items[place] = _refused_item(task_id, refused(refusal))
        else:
            items[place] = SettledItem(task_id=task_id, status=await _status_after(call, settlement))
    return Reply(content=SettledItems(items=[items[place] for place in range(len(completions))]))


def _refused_item(task_id: str, problem: Problem) -> SettledItem:
    return SettledItem(task_id=task_id, problem=problem.details())


def _completion(call: Call, task_id: str, job: JobRecord | None, completion: Completion) -> Settlement:
    """Return the settlement; a retryable one needs the job. Raises ``InvalidInput`` for a result that is too large."""
    lease = lease_of(task_id, completion.lease_token)
    if completion.status == "COMPLETED":
        result = None if completion.result is None else JSON.encode(completion.result, field="result")
        if result is not None:
            bounds.check_blob("result", result, most=bounds.MAX_PAYLOAD_BYTES)
        return Ack(lease, result=result)
    error = completion.error or NO_ERROR
    if completion.retryable and job is not None:
        return Retry(lease, delay=call.tenant.retry_delay(job), error=error)
    return Fail(lease, reason=FAILED, error=error)


async def nack(call: Call) -> Reply:
    """Fail the attempt; the task runs again later, or has failed if this was its last attempt."""
    request: Nack = call.body
    job = await read_owned(call, call.path["task_id"])
    delay = call.tenant.retry_delay(job) if request.delay_seconds is None else _delay(request.delay_seconds)
    retry = Retry(lease_of(job.id, request.lease_token), delay=delay, error=request.reason or NO_ERROR)
    return Reply(content=await _settle(call, job.id, retry))


async def abandon(call: Call) -> Reply:
    """Give the task back; the attempt does not count."""
    request: Abandon = call.body
    task_id = call.path["task_id"]
    await check_owned(call, task_id, request.lease_token)
    release = Release(lease_of(task_id, request.lease_token), delay=_delay(request.delay_seconds))
    return Reply(content=await _settle(call, task_id, release))


def _delay(seconds: float) -> int:
    return round(seconds * SECOND)


async def _settle(call: Call, task_id: str, settlement: Settlement, artifacts: Sequence[str] = ()) -> SettledTask:
    if artifacts:
        transfers_of(call)
        error = await settle_with_artifacts(call, settlement, artifacts)
    else:
        error = await call.tenant.settle(settlement)
    if error is not None:
        raise refused(error)
    return SettledTask(task_id=task_id, status=await _status_after(call, settlement))


async def _status_after(call: Call, settlement: Settlement) -> Status:
    """Return the status that the settlement has left. A repeated call finds the same one.

    The task may be claimed again before it is read: then it is pending or delayed, as the settlement has left it.
    """
    if isinstance(settlement, Ack):
        return Status.COMPLETED
    delay = settlement.delay if isinstance(settlement, Retry | Release) else 0
    record = await call.tenant.calls.settle(call.tenant.store.get, settlement.lease.job_id)
    if record is None or record.state is State.INFLIGHT:
        return Status.DELAYED if delay else Status.PENDING
    if record.state is State.READY:
        return Status.PENDING if record.run_at is None else Status.DELAYED
    return status_of(record, call.tenant.clock.now())


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="submitResult",
        method="POST",
        path="/tasks/{task_id}/result",
        summary="End an attempt: COMPLETED with a result, or FAILED with an error",
        handler=submit_result,
        scope=Scope.RESULT,
        body=Completion,
        answers={200: SettledTask},
        problems=(*STALE, Code.ARTIFACT_MISSING),
        settles=True,
    ),
    Operation(
        name="submitResults",
        method="POST",
        path="/tasks/result/batch",
        summary="End many attempts, each with its own outcome",
        handler=submit_results,
        scope=Scope.RESULT,
        body=Completions,
        answers={200: SettledItems},
        settles=True,
    ),
    Operation(
        name="nackTask",
        method="POST",
        path="/tasks/{task_id}/nack",
        summary="Fail an attempt; the task runs again after a delay",
        handler=nack,
        scope=Scope.NACK,
        body=Nack,
        answers={200: SettledTask},
        problems=STALE,
        settles=True,
    ),
    Operation(
        name="abandonTask",
        method="POST",
        path="/tasks/{task_id}/abandon",
        summary="Give a task back; the attempt does not count",
        handler=abandon,
        scope=Scope.ABANDON,
        body=Abandon,
        answers={200: SettledTask},
        problems=STALE,
        settles=True,
    ),
)
