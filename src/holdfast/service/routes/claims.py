"""Calls by which a worker gets tasks and keeps them: claim, heartbeat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput, LeaseError
from holdfast.model import bounds
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import DEFAULT_QUEUE
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import (
    check_owner,
    find_lease,
    lease_seconds,
    read_owned,
    token_of,
)
from holdfast.service.limits import LARGE_BODY_BYTES
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, details_of, refused
from holdfast.service.schemas.fields import instant, stored_json
from holdfast.service.schemas.workers import (
    BatchHeartbeat,
    Claim,
    ClaimRequest,
    Claims,
    ExtendedItem,
    ExtendedLease,
    ExtendedLeases,
    Heartbeat,
    Heartbeats,
)
from holdfast.service.system_queues import check_queue
from holdfast.service.task_answers import claimed_task_of
from holdfast.service.tenants.tenant import Heartbeat as Beat
from holdfast.service.tenants.waiting_claims import Want

E = TypeVar("E", ExtendedLease, ExtendedItem)


async def claim(call: Call) -> Reply:
    """Lease tasks: 200, or 204 if there are none, also after the wait."""
    request: ClaimRequest = call.body
    commands = call.principal.claimable(request.commands)
    if commands == []:
        raise Problem(Code.FORBIDDEN, "the token allows none of these commands", field="commands")
    most = call.service.serve.max_wait.total_seconds()
    if request.wait_seconds > most:
        raise Problem(Code.INVALID_REQUEST, f"wanted at most {most:g} seconds", field="waitSeconds")
    seconds = lease_seconds(call.service.serve, request.lease_seconds)
    want = Want(
        queues=tuple(dict.fromkeys(map(check_queue, request.queues or [DEFAULT_QUEUE]))),
        types=None if commands is None else tuple(commands),
        limit=request.limit or 1,
        lease_for=round(seconds * SECOND),
        worker=call.principal.subject,
    )
    reservations = await call.tenant.claim(want, request.wait_seconds, ends=call.ends())
    if reservations and call.client.has_gone:
        await call.tenant.give_back(reservations)
        return Reply(status=204)
    if not reservations:
        return Reply(status=204)
    await _check_unsent(call, reservations)
    tokens = [token_of(one.lease, want.lease_for) for one in reservations]
    call.tenant.handed_out.remember(dict(zip(tokens, reservations, strict=True)), want.lease_for, want.worker)
    now = call.tenant.clock.now()
    claims = [_claim(one, token, now, seconds) for one, token in zip(reservations, tokens, strict=True)]
    return Reply(content=claims[0] if request.limit is None else Claims(claims=claims))


async def _check_unsent(call: Call, reservations: list[Reservation]) -> None:
    """Give the tasks back if they are large and earlier answers to the caller are not read. Raises ``Problem`` then.

    Other claims may have been answered since this one was accepted.
    """
    if sum(len(one.job.payload) for one in reservations) > LARGE_BODY_BYTES:
        try:
            call.service.unsent.check((call.principal.space, call.principal.subject))
        except Problem:
            await call.tenant.give_back(reservations)
            raise


def _claim(reservation: Reservation, token: str, now: int, seconds: float) -> Claim:
    lease = reservation.lease
    until = instant(lease.expires_at)
    assert until is not None
    return Claim(
        task=claimed_task_of(reservation.job, now),
        lease_token=token,
        fence=lease.fence,
        lease_until=until,
        lease_seconds=seconds,
    )


async def heartbeat(call: Call) -> Reply:
    """Extend a lease, and store the progress of the attempt."""
    beat, is_known = _heartbeat(call, call.path["task_id"], call.body)
    if not is_known:
        await read_owned(call, beat.lease.job_id)
    answer = await call.tenant.extend(beat)
    if isinstance(answer, LeaseError):
        raise refused(answer)
    return Reply(content=_extended(ExtendedLease, beat, answer))


async def heartbeats(call: Call) -> Reply:
    """Extend many leases; each one has its own outcome."""
    requests: list[BatchHeartbeat] = call.body.tasks
    if len({one.task_id for one in requests}) < len(requests):
        raise Problem(Code.INVALID_REQUEST, "wanted each task once", field="tasks")
    outcomes: dict[str, ExtendedItem] = {}
    beats: list[Beat] = []
    unknown: list[str] = []
    for one in requests:
        try:
            beat, is_known = _heartbeat(call, one.task_id, one)
        except (Problem, InvalidInput) as error:
            outcomes[one.task_id] = ExtendedItem(task_id=one.task_id, problem=details_of(error))
            continue
        beats.append(beat)
        if not is_known:
            unknown.append(one.task_id)
    if unknown:
        found = await call.tenant.inspect(unknown)
        for task_id in unknown:
            try:
                check_owner(call, task_id, found.get(task_id))
            except Problem as problem:
                outcomes[task_id] = ExtendedItem(task_id=task_id, problem=problem.details())
        beats = [one for one in beats if one.lease.job_id not in outcomes]
    answers = await call.tenant.extend_many(beats) if beats else []
    for beat, answer in zip(beats, answers, strict=True):
        task_id = beat.lease.job_id
        if isinstance(answer, LeaseError):
            outcomes[task_id] = ExtendedItem(task_id=task_id, problem=details_of(answer))
        else:
            outcomes[task_id] = _extended(ExtendedItem, beat, answer)
    return Reply(content=ExtendedLeases(tasks=[outcomes[one.task_id] for one in requests]))


def _heartbeat(call: Call, task_id: str, request: Heartbeat) -> tuple[Beat, bool]:
    """Return the lease to extend, and whether its owner is known. Raises ``Problem`` or ``InvalidInput``."""
    progress = stored_json(request.progress)
    if progress is not None:
        bounds.check_blob("progress", progress, most=bounds.MAX_NOTE_BYTES)
    lease, lease_for, job = find_lease(call, task_id, request.lease_token)
    if request.lease_seconds is not None:
        lease_for = round(lease_seconds(call.service.serve, request.lease_seconds) * SECOND)
    return Beat(lease, lease_for, progress), job is not None


def _extended(kind: type[E], beat: Beat, lease: Lease) -> E:
    until = instant(lease.expires_at)
    assert until is not None
    return kind(
        task_id=lease.job_id,
        lease_until=until,
        lease_seconds=beat.lease_for / SECOND,
        cancel_requested=lease.cancel_requested,
    )


STALE = (Code.NOT_FOUND, Code.NOT_IN_PROGRESS, Code.LEASE_MISMATCH, Code.LEASE_EXPIRED)

_OF_CLAIM = {"task_id": "$response.body#/task/id"}
_LEASE = {"leaseToken": "$response.body#/leaseToken"}

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="claimTasks",
        method="POST",
        path="/tasks/claim",
        summary="Claim a task, or with a limit several, under a lease",
        handler=claim,
        scope=Scope.CLAIM,
        body=ClaimRequest,
        answers={200: Claim | Claims, 204: None},
        links={
            "heartbeatTask": {"parameters": _OF_CLAIM, "requestBody": _LEASE},
            "submitResult": {"parameters": _OF_CLAIM, "requestBody": {**_LEASE, "status": "COMPLETED"}},
            "nackTask": {"parameters": _OF_CLAIM, "requestBody": _LEASE},
            "abandonTask": {"parameters": _OF_CLAIM, "requestBody": _LEASE},
            "uploadArtifact": {
                "parameters": {**_OF_CLAIM, "lease-token": "$response.body#/leaseToken", "artifact": "report.csv"}
            },
        },
    ),
    Operation(
        name="heartbeatTask",
        method="POST",
        path="/tasks/{task_id}/heartbeat",
        summary="Extend the lease of a task",
        handler=heartbeat,
        scope=Scope.HEARTBEAT,
        body=Heartbeat,
        answers={200: ExtendedLease},
        problems=STALE,
        settles=True,
    ),
    Operation(
        name="heartbeatTasks",
        method="POST",
        path="/tasks/heartbeat/batch",
        summary="Extend the leases of many tasks, each with its own outcome",
        handler=heartbeats,
        scope=Scope.HEARTBEAT,
        body=Heartbeats,
        answers={200: ExtendedLeases},
        settles=True,
    ),
)
