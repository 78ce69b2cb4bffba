"""Calls by which a worker ends a lease: result, nack, abandon.

A call is repeated safely: the store remembers the last verb and token of a task, and answers as the first time (L6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.clock import SECOND
from holdfast.drivers.answers import Inspection
from holdfast.errors import ArtifactError, InvalidInput
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.model.settlement import Ack, Fail, Release, Retry, Settlement
from holdfast.service.artifact_transfers import transfers_of
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import check_owner, find_lease, read_owned
from holdfast.service.named_artifacts import settle_with_artifacts
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, details_of, refused
from holdfast.service.routes.claims import STALE
from holdfast.service.schemas.fields import stored_json
from holdfast.service.schemas.workers import (
    Abandon,
    BatchCompletion,
    BatchNack,
    Completion,
    Completions,
    Nack,
    Nacks,
    SettledItem,
    SettledResults,
    SettledTask,
    SettledTasks,
)
from holdfast.service.statuses import OF_STATE, Status
from holdfast.service.tenants.handed_out import NamedLease

FAILED = "failed by its worker"  # the reason of a dead letter
NO_ERROR = "the worker gave no error"


async def end_attempt(call: Call) -> Reply:
    """End an attempt with its result, or with its failure."""
    request: Completion | Nack = call.body
    named = find_lease(call, call.path["task_id"], request.lease_token)
    lease = named.lease
    before = await read_owned(call, lease.job_id) if _fails(request) or not named.is_known else None
    settlement = _settlement(call, lease, before, request)
    settled = await _settle(call, settlement, before, _artifacts(request))
    call.tenant.handed_out.forget(request.lease_token)
    return Reply(content=settled)


async def submit_results(call: Call) -> Reply:
    """End many attempts."""
    return Reply(content=SettledResults(results=await _end_attempts(call, call.body.results)))


async def nack_tasks(call: Call) -> Reply:
    """Fail many attempts."""
    return Reply(content=SettledTasks(tasks=await _end_attempts(call, call.body.tasks)))


async def _end_attempts(call: Call, requests: Sequence[BatchCompletion | BatchNack]) -> list[SettledItem]:
    """End attempts in one call of the store, those with artifacts one by one; each one has its own outcome."""
    named = [find_lease(call, one.task_id, one.lease_token) for one in requests]
    jobs = await _read_jobs(call, named, [_fails(one) for one in requests])
    settlements: dict[int, Settlement] = {}
    outcomes: dict[int, SettledItem] = {}
    for place, (request, (lease, _, job)) in enumerate(zip(requests, named, strict=True)):
        try:
            before = jobs.get(lease.job_id)
            if job is None or before is not None:
                before = check_owner(call, lease.job_id, before)
            settlement = _settlement(call, lease, before, request)
            if artifacts := _artifacts(request):
                outcomes[place] = await _settle(call, settlement, before, artifacts)
            else:
                settlements[place] = settlement
        except (Problem, InvalidInput, ArtifactError) as error:
            outcomes[place] = SettledItem(task_id=lease.job_id, problem=details_of(error))
    settled: dict[str, SettledItem] = {}  # by lease token: one that is settled again gets the first answer
    answers = await call.tenant.settle_many(list(settlements.values())) if settlements else []
    for (place, settlement), refusal in zip(settlements.items(), answers, strict=True):
        task_id = settlement.lease.job_id
        if refusal is not None:
            outcomes[place] = SettledItem(task_id=task_id, problem=details_of(refusal))
        else:
            if _fails(requests[place]):
                call.tenant.handed_out.forget(requests[place].lease_token)
            outcomes[place] = settled.setdefault(settlement.lease.token, _settled(settlement, jobs.get(task_id)))
    return [outcomes[place] for place in range(len(requests))]


async def _read_jobs(call: Call, named: Sequence[NamedLease], fails: Sequence[bool]) -> Mapping[str, Inspection]:
    """Return the jobs whose owner is not known, or whose failure needs them. Those that were claimed here are known.

    Whether their cancel was requested meanwhile is asked for all of them at once: hardly ever is it so for one.
    """
    wanted = {one.lease.job_id for one in named if not one.is_known}
    failing = {
        one.job.id: one.job
        for one, has_failed in zip(named, fails, strict=True)
        if has_failed and one.job is not None and one.job.id not in wanted
    }
    if failing and await call.tenant.is_cancel_requested(list(failing)):
        wanted.update(failing)
    found = await call.tenant.inspect(list(wanted)) if wanted else {}
    known = {
        job_id: Inspection(job=job, available_at=0, worker=call.principal.subject) for job_id, job in failing.items()
    }
    return {**known, **found}


def _fails(request: Completion | Nack) -> bool:
    """Whether the attempt has failed. What the task becomes then depends on the task."""
    return isinstance(request, Nack) or request.status == "FAILED"


def _artifacts(request: Completion | Nack) -> Sequence[str]:
    return request.artifacts if isinstance(request, Completion) else ()


def _settlement(call: Call, lease: Lease, before: Inspection | None, request: Completion | Nack) -> Settlement:
    """Return the settlement; a failure needs the task. Raises ``Problem`` or ``InvalidInput`` for a bad result."""
    if isinstance(request, Nack):
        error, delay = request.reason, request.delay_seconds
    elif request.status == "COMPLETED":
        result = stored_json(request.result)
        if result is not None:
            bounds.check_blob("result", result, most=bounds.MAX_PAYLOAD_BYTES)
        return Ack(lease, result=result)
    elif stored_json(request.result) is not None:
        raise Problem(Code.INVALID_REQUEST, "wanted no result of a failed attempt; say why in error", field="result")
    elif not request.retryable:
        return Fail(lease, reason=FAILED, error=request.error or NO_ERROR)
    else:
        error, delay = request.error, None
    assert before is not None
    wait = call.tenant.retry_delay(before.job) if delay is None else _delay(delay)
    return Retry(lease, delay=wait, error=error or NO_ERROR)


async def abandon(call: Call) -> Reply:
    """Give the task back; the attempt does not count."""
    request: Abandon = call.body
    lease, _, job = find_lease(call, call.path["task_id"], request.lease_token)
    if job is None:
        await read_owned(call, lease.job_id)
    if (error := await call.tenant.settle(Release(lease, delay=_delay(request.delay_seconds)))) is not None:
        raise refused(error)
    after = await call.tenant.inspect_one(lease.job_id)
    if after is not None and after.job.state.has_ended:  # it was cancelled, or given back for too long
        return Reply(content=SettledItem(task_id=lease.job_id, status=OF_STATE[after.job.state]))
    return Reply(content=_runs_again(lease.job_id, _delay(request.delay_seconds)))


def _delay(seconds: float) -> int:
    return round(seconds * SECOND)


async def _settle(
    call: Call, settlement: Settlement, before: Inspection | None, artifacts: Sequence[str]
) -> SettledItem:
    if artifacts:
        transfers_of(call)
        error = await settle_with_artifacts(call, settlement, artifacts)
    else:
        error = await call.tenant.settle(settlement)
    if error is not None:
        raise refused(error)
    return _settled(settlement, before)


def _settled(settlement: Settlement, before: Inspection | None) -> SettledItem:
    """Return the task as the settlement has left it. A settlement that was made before has left it as it is now.

    If a cancel came between the read and the settlement, the task is cancelled, as if the cancel had come right after.
    """
    task_id = settlement.lease.job_id
    if isinstance(settlement, Ack):
        return SettledItem(task_id=task_id, status=Status.COMPLETED)
    assert before is not None
    job = before.job
    if job.state is State.READY:
        return _runs_again(task_id, 0 if job.run_at is None else job.run_at - (job.failed_at or 0))
    if job.state is not State.INFLIGHT:
        return SettledItem(task_id=task_id, status=OF_STATE[job.state])
    if before.cancel_requested:
        return SettledItem(task_id=task_id, status=Status.CANCELLED)
    if isinstance(settlement, Retry) and job.attempts < job.max_attempts:
        return _runs_again(task_id, settlement.delay)
    return SettledItem(task_id=task_id, status=Status.FAILED)


def _runs_again(task_id: str, delay: int) -> SettledItem:
    status = Status.DELAYED if delay else Status.PENDING
    return SettledItem(task_id=task_id, status=status, delay_seconds=delay / SECOND)


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="submitResult",
        method="POST",
        path="/tasks/{task_id}/result",
        summary="End an attempt: COMPLETED with a result, or FAILED with an error",
        handler=end_attempt,
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
        answers={200: SettledResults},
        settles=True,
    ),
    Operation(
        name="nackTask",
        method="POST",
        path="/tasks/{task_id}/nack",
        summary="Fail an attempt; the task runs again after a delay",
        handler=end_attempt,
        scope=Scope.NACK,
        body=Nack,
        answers={200: SettledTask},
        problems=STALE,
        settles=True,
    ),
    Operation(
        name="nackTasks",
        method="POST",
        path="/tasks/nack/batch",
        summary="Fail many attempts, each with its own outcome",
        handler=nack_tasks,
        scope=Scope.NACK,
        body=Nacks,
        answers={200: SettledTasks},
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
