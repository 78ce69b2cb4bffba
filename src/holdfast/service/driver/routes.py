"""Calls of ``connect("https://...")``: every request of the driver contract, in a binary form (ADR 0042)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.drivers.http.description import DriverDescription, describe
from holdfast.drivers.http.errors import pack_error
from holdfast.drivers.http.protocol import CONTENT_TYPE, Group
from holdfast.errors import CallerClockRefused, HoldfastError, LedgerTrimmed, SpaceInUse, WriteRefused
from holdfast.model import bounds
from holdfast.service.auth.principal import Scope
from holdfast.service.driver.calls import run_request
from holdfast.service.operation import Call, Handler, Operation, Reply
from holdfast.service.problems import CONTENT_TYPE as PROBLEM_TYPE
from holdfast.service.problems import Code, Problem, problem_of
from holdfast.service.schemas.fields import Request
from holdfast.service.schemas.problem import ProblemDetails

_CODES: dict[type[HoldfastError], Code] = {
    WriteRefused: Code.WRITE_REFUSED,
    SpaceInUse: Code.SPACE_IN_USE,
    LedgerTrimmed: Code.EVENTS_TRIMMED,
    CallerClockRefused: Code.INVALID_REQUEST,
}


class DriverQuery(Request):
    """The space of a call, if it is another than that of the token."""

    space: Annotated[str, Meta(max_length=bounds.MAX_NAME_CHARACTERS)] | None = None


class DriverHeaders(msgspec.Struct, kw_only=True, rename="kebab"):
    """A call that is repeated under the same key gets the first answer."""

    idempotency_key: Annotated[str, Meta(max_length=64)] | None = None


class DriverProblem(ProblemDetails, kw_only=True):
    """A problem that a driver raises again as the same error."""

    error: str
    facts: dict[str, str | int | float | None]


async def show_driver(call: Call) -> Reply:
    """Return what the driver of this token offers."""
    description = await call.service.calls.run(
        describe,
        call.tenant.store,
        space=call.principal.space,
        all_spaces=call.principal.is_admin,
    )
    return Reply(content=description)


def _handler(group: Group) -> Handler:
    async def handle(call: Call) -> Reply:
        """Carry out one request."""
        try:
            return Reply(content=await run_request(call, group), content_type=CONTENT_TYPE)
        except HoldfastError as error:
            return _problem(error)

    return handle


def _problem(error: HoldfastError) -> Reply:
    """Return an error with its facts. Raises ``Problem`` for an error that does not travel."""
    code = _CODES.get(type(error))
    problem = problem_of(error) if code is None else Problem(code, str(error))
    packed = pack_error(error)
    if packed is None:
        raise problem
    details = msgspec.structs.asdict(problem.details())
    body = msgspec.json.encode(DriverProblem(**details, error=packed.error, facts=packed.facts))
    return Reply(content=body, status=problem.status, headers=problem.headers, content_type=PROBLEM_TYPE)


_PROBLEMS = (Code.WRITE_REFUSED, Code.SPACE_IN_USE, Code.EVENTS_TRIMMED, Code.STORE_FULL)

OPERATIONS: Sequence[Operation] = (
    Operation(
        name="showDriver",
        method="GET",
        path="/driver",
        summary="Show what the driver of this token offers",
        handler=show_driver,
        scope=Scope.DRIVER,
        answers={200: DriverDescription},
    ),
    Operation(
        name="callDriver",
        method="POST",
        path=f"/driver/{Group.CALLS}/{{verb}}",
        summary="Call a verb of producers and workers",
        handler=_handler(Group.CALLS),
        scope=Scope.DRIVER,
        binary=CONTENT_TYPE,
        query=DriverQuery,
        headers=DriverHeaders,
        answers={200: bytes},
        problems=_PROBLEMS,
    ),
    Operation(
        name="callDriverLeases",
        method="POST",
        path=f"/driver/{Group.LEASES}/{{verb}}",
        summary="Call a verb that extends or ends leases",
        handler=_handler(Group.LEASES),
        scope=Scope.DRIVER,
        binary=CONTENT_TYPE,
        query=DriverQuery,
        headers=DriverHeaders,
        answers={200: bytes},
        problems=_PROBLEMS,
        settles=True,
    ),
    Operation(
        name="callDriverAdmin",
        method="POST",
        path=f"/driver/{Group.ADMIN}/{{verb}}",
        summary="Call a verb of operators",
        handler=_handler(Group.ADMIN),
        scope=Scope.ADMIN,
        binary=CONTENT_TYPE,
        query=DriverQuery,
        headers=DriverHeaders,
        answers={200: bytes},
        problems=_PROBLEMS,
        audited=True,
    ),
)
