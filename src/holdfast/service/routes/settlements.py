"""Calls by which a worker ends a lease: result, nack, abandon.

A call is repeated safely: the store remembers the last verb and token of a task, and answers as the first time (L6).
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import SECOND
from holdfast.drivers.contract import Inspection
from holdfast.errors import ArtifactError, InvalidInput
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.service.artifact_transfers import transfers_of
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import check_owned, check_owner, is_known, lease_of, read_owned
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
    lease = lease_of(task_id, completion.lease_token)
    before = await _read_before(call, lease, fails=completion.status == "FAILED")
    settlement = _completion(call, lease, before, completion)
    return Reply(content=await _settle(call, settlement, before, completion.artifacts))


async def submit_results(call: Call) -> Reply:
    """End many attempts in one call of the store, those with artifacts one by one; each item has its own outcome."""
    completions: list[BatchCompletion] = call.body.results
    leases = [lease_of(one.task_id, one.lease_token) for one in completions]
    is_read = [
        one.status == "FAILED" or not is_known(call, lease) for one, lease in zip(completions, leases, strict=True)
    ]
    task_ids = [lease.job_id for lease, is_one in zip(leases, is_read, strict=True) if is_one]
    found = await call.tenant.inspect(task_ids) if task_ids else {}
    settlements: dict[int, Settlement] = {}
    items: dict[int, SettledItem] = {}
    for place, (completion, lease) in enumerate(zip(completions, leases, strict=True)):
        try:
            before = check_owner(call, lease.job_id, found.get(lease.job_id)) if is_read[place] else None
            settlement = _completion(call, lease, before, completion)
            if completion.artifacts:
                settled = await _settle(call, settlement, before, completion.artifacts)
                items[place] = SettledItem(task_id=settled.task_id, status=settled.status)
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
            status = _status_after(call, settlement, found.get(task_id))
            items[place] = SettledItem(task_id=task_id, status=status)
    return Reply(content=SettledItems(items=[items[place] for place in range(len(completions))]))


async def _read_before(call: Call, lease: Lease, *, fails: bool) -> Inspection | None:
    """Return the task before its lease ends. None if nothing of it is needed: its owner is known, and it does not fail.

    Raises ``Problem`` if there is none, or if another subject has claimed it.
    """
    return await read_owned(call, lease.job_id) if fails or not is_known(call, lease) else None


def _refused_item(task_id: str, problem: Problem) -> SettledItem:
    return SettledItem(task_id=task_id, problem=problem.details())


def _completion(call: Call, lease: Lease, before: Inspection | None, completion: Completion) -> Settlement:
    """Return the settlement; a failure needs the task. Raises ``InvalidInput`` for a result that is too large."""
    if completion.status == "COMPLETED":
        result = None if completion.result is None else JSON.encode(completion.result, field="result")
        if result is not None:
            bounds.check_blob("result", result, most=bounds.MAX_PAYLOAD_BYTES)
        return Ack(lease, result=result)
    error = completion.error or NO_ERROR
    if completion.retryable:
        assert before is not None
        return Retry(lease, delay=call.tenant.retry_delay(before.job), error=error)
    return Fail(lease, reason=FAILED, error=error)


async def nack(call: Call) -> Reply:
    """Fail the attempt; the task runs again later, or has failed if this was its last attempt."""
    request: Nack = call.body
    before = await read_owned(call, call.path["task_id"])
    delay = call.tenant.retry_delay(before.job) if request.delay_seconds is None else _delay(request.delay_seconds)
    retry = Retry(lease_of(before.job.id, request.lease_token), delay=delay, error=request.reason or NO_ERROR)
    return Reply(content=await _settle(call, retry, before))


async def abandon(call: Call) -> Reply:
    """Give the task back; the attempt does not count."""
    request: Abandon = call.body
    lease = lease_of(call.path["task_id"], request.lease_token)
    await check_owned(call, lease)
    if (error := await call.tenant.settle(Release(lease, delay=_delay(request.delay_seconds)))) is not None:
        raise refused(error)
    after = await call.tenant.inspect_one(lease.job_id)
    if after is None or after.job.state is State.INFLIGHT:  # removed or claimed again before it was read
        status = Status.DELAYED if request.delay_seconds else Status.PENDING
    else:
        status = _status_of(call, after)
    return Reply(content=SettledTask(task_id=lease.job_id, status=status))


def _delay(seconds: float) -> int:
    return round(seconds * SECOND)


async def _settle(
    call: Call, settlement: Settlement, before: Inspection | None, artifacts: Sequence[str] = ()
) -> SettledTask:
    if artifacts:
        transfers_of(call)
        error = await settle_with_artifacts(call, settlement, artifacts)
    else:
        error = await call.tenant.settle(settlement)
    if error is not None:
        raise refused(error)
    return SettledTask(task_id=settlement.lease.job_id, status=_status_after(call, settlement, before))


def _status_after(call: Call, settlement: Settlement, before: Inspection | None) -> Status:
    """Return the status that the settlement has left: that of the task before, if it has repeated the call that did.

    If a cancel came between the read and the settlement, the task is cancelled, as if the cancel had come right after.
    """
    if isinstance(settlement, Ack):
        return Status.COMPLETED
    assert before is not None
    if before.job.state is not State.INFLIGHT:
        return _status_of(call, before)
    if before.cancel_requested:
        return Status.CANCELLED
    if isinstance(settlement, Fail) or before.job.attempts >= before.job.max_attempts:
        return Status.FAILED
    return Status.DELAYED if settlement.delay else Status.PENDING


def _status_of(call: Call, inspected: Inspection) -> Status:
    """Return the status of a task whose lease has ended; delayed also if the delay is over."""
    if inspected.job.state is State.READY:
        return Status.PENDING if inspected.job.run_at is None else Status.DELAYED
    return status_of(inspected.job, call.tenant.clock.now())


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
