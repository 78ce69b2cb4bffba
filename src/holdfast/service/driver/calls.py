"""Carrying out one request of a driver: in the space of its token, with the answer as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from holdfast.clock import monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.answers import Inspection, Reserved, Stored
from holdfast.drivers.http.protocol import (
    MAX_ANSWER_BYTES,
    MAX_RESERVED_BYTES,
    MAX_WAIT_SECONDS,
    VERBS,
    Group,
    decode_request,
    encode_answer,
    group_of,
)
from holdfast.drivers.requests import Inspect
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.settlement import Release
from holdfast.service.driver.rights import check_rights
from holdfast.service.limits import LARGE_BODY_BYTES
from holdfast.service.operation import Call
from holdfast.service.problems import Code, Problem
from holdfast.service.system_queues import hidden_ids, hide_in_answer
from holdfast.service.tenants.tenant import Tenant

FIRST_CANCEL_POLL_SECONDS = 0.1
MAX_CANCEL_POLL_SECONDS = 1.0
INSPECTED_JOBS = 100  # that are read at a time, with their payloads
MAX_MARKS = 100_000  # of the ledger in one answer


async def run_request(call: Call, group: Group) -> bytes:
    """Return the answer of a request. Raises ``Problem`` or the error of the store."""
    request = await _decode(call)
    if group_of(request) is not group:
        raise _no_such_verb()
    space = call.query.space
    request = check_rights(call.principal, space, request)
    tenant = call.service.tenant(call.principal.space if space is None else bounds.check_name("space", space))
    match request:
        case r.Wait():
            await _wait(call, tenant, request)
            return encode_answer(None)
        case r.WaitForCancel():
            return encode_answer(await _wait_for_cancel(call, tenant, request))
        case _:
            pass
    sees_all, call_id = call.principal.is_admin, call.headers.idempotency_key
    if call_id is None:
        return await _run(tenant, request, sees_all=sees_all)
    key = (tenant.name, call.principal.subject, call_id)
    return await call.service.answers.answer(key, lambda: _run(tenant, request, sees_all=sees_all))


async def _decode(call: Call) -> r.Request[Any]:
    verb = call.path["verb"]
    if verb not in VERBS:
        raise _no_such_verb()
    try:
        if len(call.body) > LARGE_BODY_BYTES:
            return await call.service.calls.parse(decode_request, verb, call.body)
        return decode_request(verb, call.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem(Code.INVALID_REQUEST, f"wanted a request {verb}: {error}") from error


def _no_such_verb() -> Problem:
    return Problem(Code.NOT_FOUND, "there is no such verb")


async def _run(tenant: Tenant, request: r.Request[Any], *, sees_all: bool) -> bytes:
    run = tenant.calls.settle if group_of(request) is Group.LEASES else tenant.calls.run
    answer = await run(_call_store, tenant.driver_store, request, sees_all=sees_all)
    match request:
        case r.Settle(settlements=settlements):
            tenant.settled([one.lease.job_id for one in settlements])
        case r.Reap(leases=leases) if leases is not None:
            tenant.settled([one.job_id for one in leases])
        case r.Requeue(job_ids=job_ids) | r.Cancel(job_ids=job_ids) | r.Purge(job_ids=job_ids):
            tenant.settled(job_ids)
        case r.Configure() | r.Enqueue() | r.ForgetDomain() | r.Reap() | r.RemoveSpace() | r.Resume():
            tenant.resumed()
        case _:
            pass
    return answer


def _call_store(store: Store, request: r.Request[Any], *, sees_all: bool) -> bytes:
    """Call the store and encode its answer, in a thread. Queues of the system are hidden unless the caller sees all."""
    answer = _execute(store, request, sees_all=sees_all)
    data = encode_answer(answer if sees_all else hide_in_answer(answer))
    if len(data) > MAX_ANSWER_BYTES:
        if isinstance(answer, Reserved | Stored) and answer.reservations:
            store.settle([Release(one.lease) for one in answer.reservations])
        raise _too_large("limit", len(data))
    return data


def _execute(store: Store, request: r.Request[Any], *, sees_all: bool) -> object:
    """Carry out a request within the bounds of one answer."""
    match request:
        case r.LedgerMarks(every=every, most=most):
            bounds.check_integer("most", most, least=1, most=max(1, every) * MAX_MARKS)
        case r.Reserve(max_bytes=wanted):
            most = MAX_RESERVED_BYTES if wanted is None else min(wanted, MAX_RESERVED_BYTES)
            return store.do(replace(request, max_bytes=most))
        case r.Inspect(payloads=True):
            return _inspect(store, request)
        case r.Cancel() if not sees_all:
            return _cancel(store, request)
        case _:
            pass
    return cast("object", store.do(request))


def _inspect(store: Store, request: r.Inspect) -> dict[str, Inspection]:
    """Inspect jobs in steps: all payloads together could fill the memory of the service. Raises ``InvalidInput``."""
    bounds.check_batch("job_ids", len(request.job_ids))
    found: dict[str, Inspection] = {}
    size = 0
    for start in range(0, len(request.job_ids), INSPECTED_JOBS):
        part = store.do(replace(request, job_ids=request.job_ids[start : start + INSPECTED_JOBS]))
        size += sum(len(one.job.payload) + len(one.job.result or b"") for one in part.values())
        if size > MAX_ANSWER_BYTES:
            raise _too_large("job_ids", size)
        found |= part
    return found


def _too_large(field: str, size: int) -> InvalidInput:
    return InvalidInput(field, wanted=f"an answer of at most {MAX_ANSWER_BYTES} bytes", got=f"{size} bytes")


def _cancel(store: Store, request: r.Cancel) -> Sequence[State | None]:
    """Cancel jobs, except those of queues of the system."""
    hidden = hidden_ids(store.do(Inspect(job_ids=r.distinct(request.job_ids), payloads=False)))
    shown = [job_id for job_id in request.job_ids if job_id not in hidden]
    cancelled = store.do(replace(request, job_ids=shown))
    states = iter(cancelled)
    return [None if job_id in hidden else next(states) for job_id in request.job_ids]


# Waiting ----------------------------------------------------------------------------------------------------


async def _wait(call: Call, tenant: Tenant, request: r.Wait) -> None:
    request.check(tenant.store.capabilities)
    with call.service.requests.waiting():
        await tenant.work.wait(request, _seconds(call, request.timeout), ends=call.ends())


async def _wait_for_cancel(call: Call, tenant: Tenant, request: r.WaitForCancel) -> bool:
    deadline, pause = monotonic() + _seconds(call, request.timeout), FIRST_CANCEL_POLL_SECONDS
    look = replace(request, timeout=0)
    ending = asyncio.ensure_future(call.ends()())
    try:
        while True:
            if await tenant.calls.settle(tenant.store.do, look):
                return True
            left = deadline - monotonic()
            if left <= 0 or ending.done():
                return False
            with call.service.requests.waiting():
                await asyncio.wait({ending}, timeout=min(left, pause))
            pause = min(2 * pause, MAX_CANCEL_POLL_SECONDS)
    finally:
        ending.cancel()


def _seconds(call: Call, timeout: float) -> float:
    return min(max(0.0, timeout), MAX_WAIT_SECONDS, call.service.serve.max_wait.total_seconds())
