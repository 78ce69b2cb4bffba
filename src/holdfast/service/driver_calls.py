"""Carrying out one verb of a driver for a client: in the space of its token, with the answer as bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.clock import monotonic
from holdfast.drivers.contract import Inspection, Store
from holdfast.drivers.optional import CancelWait
from holdfast.drivers.remote import arguments as messages
from holdfast.drivers.remote.arguments import Arguments
from holdfast.drivers.remote.description import DRIVER
from holdfast.drivers.remote.verbs import MAX_ANSWER_BYTES, MAX_RESERVED_BYTES, MAX_WAIT_SECONDS, VERBS, Group, Verb
from holdfast.errors import InvalidInput, Unsupported
from holdfast.model import bounds
from holdfast.model.job import State
from holdfast.model.lease import Reservation
from holdfast.model.settlement import Release
from holdfast.service.driver_rights import check_rights
from holdfast.service.limits import LARGE_BODY_BYTES
from holdfast.service.operation import Call
from holdfast.service.problems import Code, Problem
from holdfast.service.system_queues import hidden_ids, hide_in_answer
from holdfast.service.tenants.tenant import Tenant

FIRST_CANCEL_POLL_SECONDS = 0.1
MAX_CANCEL_POLL_SECONDS = 1.0
INSPECTED_JOBS = 100  # that are read at a time, with their payloads
MAX_MARKS = 100_000  # of the ledger in one answer
MAKE_READY = frozenset(
    {"configure", "enqueue", "enqueue_leased", "forget_domain", "reap", "remove_space", "requeue", "resume"}
)


async def run_verb(call: Call, group: Group) -> bytes:
    """Return the answer of a verb. Raises ``Problem`` or the error of the store."""
    verb = VERBS.get(call.path["verb"])
    if verb is None or verb.group is not group:
        raise Problem(Code.NOT_FOUND, "there is no such verb")
    arguments = check_rights(call.principal, verb, await _decode(call, verb))
    tenant = call.service.tenant(arguments.space or call.principal.space)
    match arguments:
        case messages.WaitArguments():
            return verb.encode_answer(await _wait(call, tenant, arguments))
        case messages.WaitForCancelArguments():
            return verb.encode_answer(await _wait_for_cancel(call, tenant, arguments))
        case _:
            pass
    sees_all = call.principal.is_admin
    if arguments.call_id is None:
        return await _run(tenant, verb, arguments, sees_all=sees_all)
    key = (tenant.name, call.principal.subject, arguments.call_id)
    return await call.service.answers.answer(key, lambda: _run(tenant, verb, arguments, sees_all=sees_all))


async def _decode(call: Call, verb: Verb) -> Arguments:
    try:
        if len(call.body) > LARGE_BODY_BYTES:
            return await call.service.calls.parse(verb.decode_arguments, call.body)
        return verb.decode_arguments(call.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Problem(Code.INVALID_REQUEST, f"wanted the arguments of {verb.name}: {error}") from error


async def _run(tenant: Tenant, verb: Verb, arguments: Arguments, *, sees_all: bool) -> bytes:
    run = tenant.calls.settle if verb.group is Group.LEASES else tenant.calls.run
    answer = await run(_call_store, tenant.store, verb, arguments, sees_all=sees_all)
    match arguments:
        case messages.SettleArguments(settlements=settlements):
            tenant.settled([one.lease.job_id for one in settlements])
        case messages.LeasesArguments(leases=leases):
            tenant.settled([one.job_id for one in leases])
        case messages.TimedJobsArguments(job_ids=job_ids):
            tenant.settled(job_ids)
        case _:
            if verb.name in MAKE_READY:
                tenant.resumed()
    return answer


def _call_store(store: Store, verb: Verb, arguments: Arguments, *, sees_all: bool) -> bytes:
    """Call the store and encode its answer, in a thread. Queues of the system are hidden unless the caller sees all."""
    method = getattr(store, verb.name, None)
    if method is None:
        raise Unsupported(DRIVER, verb.name, "the store of the service does not offer it")
    given = arguments.for_call()
    if isinstance(arguments, messages.LedgerMarksArguments):
        bounds.check_integer("most", arguments.most, least=1, most=max(1, arguments.every) * MAX_MARKS)
    if "max_bytes" in given:
        given["max_bytes"] = min(given["max_bytes"] or MAX_RESERVED_BYTES, MAX_RESERVED_BYTES)
    if verb.name == "cancel" and not sees_all:
        method = partial(_cancel, store)
    if verb.name == "inspect":
        method = partial(_inspect, store)
    answer = method(**given) if sees_all else hide_in_answer(method(**given))
    data = verb.encode_answer(answer)
    if len(data) > MAX_ANSWER_BYTES:
        _give_back(store, answer)
        raise _too_large("limit", len(data))
    return data


def _inspect(store: Store, job_ids: Sequence[str], *, payloads: bool) -> dict[str, Inspection]:
    """Inspect jobs in steps: all payloads together could fill the memory of the service. Raises ``InvalidInput``."""
    bounds.check_batch("job_ids", len(job_ids))
    if not payloads:
        return store.inspect(job_ids, payloads=False)
    found: dict[str, Inspection] = {}
    size = 0
    for start in range(0, len(job_ids), INSPECTED_JOBS):
        part = store.inspect(job_ids[start : start + INSPECTED_JOBS])
        size += sum(len(one.job.payload) + len(one.job.result or b"") for one in part.values())
        if size > MAX_ANSWER_BYTES:
            raise _too_large("job_ids", size)
        found |= part
    return found


def _too_large(field: str, size: int) -> InvalidInput:
    return InvalidInput(field, wanted=f"an answer of at most {MAX_ANSWER_BYTES} bytes", got=f"{size} bytes")


def _cancel(store: Store, job_ids: Sequence[str], *, now: int | None) -> list[State | None]:
    """Cancel jobs, except those of queues of the system."""
    hidden = hidden_ids(store.inspect(list(dict.fromkeys(job_ids)), payloads=False))
    states = iter(store.cancel([job_id for job_id in job_ids if job_id not in hidden], now=now))
    return [None if job_id in hidden else next(states) for job_id in job_ids]


def _give_back(store: Store, answer: Any) -> None:
    """Release jobs whose reservations are too large to be sent."""
    parts: Sequence[Any] = answer if isinstance(answer, tuple) else (answer,)
    leases = [one.lease for part in parts if isinstance(part, list) for one in part if isinstance(one, Reservation)]
    if leases:
        store.settle([Release(lease) for lease in leases])


# Waiting ----------------------------------------------------------------------------------------------------


async def _wait(call: Call, tenant: Tenant, arguments: messages.WaitArguments) -> bool:
    bounds.check_batch("queues", len(arguments.queues))
    queues = tuple(dict.fromkeys(bounds.check_name("queue", queue) for queue in arguments.queues))
    if not queues:
        raise InvalidInput("queues", wanted="at least one queue", got="none")
    with call.service.requests.waiting():
        return await tenant.work.wait(
            queues, _seconds(call, arguments.timeout), fruitless=arguments.fruitless, ends=call.ends()
        )


async def _wait_for_cancel(call: Call, tenant: Tenant, arguments: messages.WaitForCancelArguments) -> bool:
    store = tenant.store
    if not isinstance(store, CancelWait):
        raise Unsupported(DRIVER, "wait_for_cancel", "the store of the service does not offer it")
    deadline, pause = monotonic() + _seconds(call, arguments.timeout), FIRST_CANCEL_POLL_SECONDS
    ending = asyncio.ensure_future(call.ends()())
    try:
        while True:
            if await tenant.calls.settle(store.wait_for_cancel, arguments.job_ids, timeout=0):
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
