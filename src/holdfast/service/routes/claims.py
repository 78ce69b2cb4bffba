"""Calls by which a worker gets tasks and keeps them: claim, heartbeat."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.clock import SECOND
from holdfast.errors import LeaseError
from holdfast.model import bounds
from holdfast.model.lease import Lease, Reservation
from holdfast.service.auth.principal import Scope
from holdfast.service.lease_calls import check_owned, lease_of, lease_seconds
from holdfast.service.operation import Call, Operation, Reply
from holdfast.service.problems import Code, Problem, refused
from holdfast.service.schemas.fields import instant
from holdfast.service.schemas.workers import Claim, ClaimRequest, Claims, ExtendedLease, Heartbeat
from holdfast.service.task_answers import task_of
from holdfast.service.tenants.waiting_claims import Want
from holdfast.service.webhook_checks import check_queue
from holdfast.wire.codec import JSON


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
        queues=tuple(dict.fromkeys(map(check_queue, request.queues or [call.service.settings.queue]))),
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
    call.tenant.handed_out.remember(reservations, call.principal.subject)
    now = call.tenant.clock.now()
    claims = [_claim(one, now, seconds) for one in reservations]
    return Reply(content=claims[0] if request.limit is None else Claims(claims=claims))


def _claim(reservation: Reservation, now: int, seconds: float) -> Claim:
    lease = reservation.lease
    until = instant(lease.expires_at)
    assert until is not None
    return Claim(
        task=task_of(reservation.job, now),
        lease_token=lease.token,
        fence=lease.fence,
        lease_until=until,
        lease_seconds=seconds,
    )


async def heartbeat(call: Call) -> Reply:
    """Extend a lease, and store the progress of the attempt."""
    request: Heartbeat = call.body
    task_id = call.path["task_id"]
    progress = None if request.progress is None else JSON.encode(request.progress, field="progress")
    if progress is not None:
        bounds.check_blob("progress", progress, most=bounds.MAX_NOTE_BYTES)
    seconds = lease_seconds(call.service.serve, request.lease_seconds)
    lease = lease_of(task_id, request.lease_token)
    await check_owned(call, lease)
    answer: Lease | LeaseError = await call.tenant.extend(lease, round(seconds * SECOND), progress)
    if isinstance(answer, LeaseError):
        raise refused(answer)
    until = instant(answer.expires_at)
    assert until is not None
    return Reply(
        content=ExtendedLease(
            task_id=task_id, lease_until=until, lease_seconds=seconds, cancel_requested=answer.cancel_requested
        )
    )


STALE = (Code.NOT_FOUND, Code.NOT_IN_PROGRESS, Code.LEASE_MISMATCH, Code.LEASE_EXPIRED)

_OF_CLAIM = {"task_id": "$response.body#/task/id"}
_LEASE = {"leaseToken": "$response.body#/leaseToken"}
_LEASE_HEADER = {"lease-token": "$response.body#/leaseToken"}

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
            "uploadArtifact": {"parameters": {**_OF_CLAIM, **_LEASE_HEADER, "artifact": "report.csv"}},
            "showPayload": {"parameters": {**_OF_CLAIM, **_LEASE_HEADER}},
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
)
