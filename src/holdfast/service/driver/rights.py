"""What a token allows of the requests of a driver. The scope ``driver`` is for producers and workers of one space."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from holdfast import approvals
from holdfast.artifacts.manifest import MANIFEST_KIND
from holdfast.artifacts.uploads import UPLOAD_KIND
from holdfast.artifacts.usage import USAGE_KIND
from holdfast.drivers import requests as r
from holdfast.model import retention
from holdfast.model.job_batch import representatives
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.service.auth.principal import Principal
from holdfast.service.problems import Code, Problem
from holdfast.service.system_queues import check_visible
from holdfast.webhooks import subscription, turn

KINDS_OF_ADMINS = frozenset(  # entries that would let a token do more than it may
    {
        approvals.KIND,
        retention.KIND,
        subscription.KIND,
        turn.KIND,
        MANIFEST_KIND,
        UPLOAD_KIND,
        USAGE_KIND,
    }
)


def check_rights(principal: Principal, space: str | None, request: r.Request[Any]) -> r.Request[Any]:
    """Return the request, with the types of jobs that the token allows. Raises ``Problem``.

    The role admin allows everything. The groups of verbs are checked by the operations themselves.
    """
    if not principal.is_admin:
        if space not in {None, principal.space}:
            raise _forbidden("another space than that of the token needs the role admin")
        _check_request(principal, request)
    return _limit_types(principal, request)


def _check_request(principal: Principal, request: r.Request[Any]) -> None:
    for queue in request.named_queues():
        check_visible(principal, queue)
    for change in _writes_of(request):
        if change.kind in KINDS_OF_ADMINS:
            raise _forbidden(f"entries of the kind {change.kind} need the role admin")
    match request:
        case r.Spaces():
            raise _forbidden("other spaces need the role admin")
        case r.Configure(only=only):
            if only is None or "paused_until" in only:
                raise _forbidden("a call that may begin or end a pause needs the role admin")
        case r.Trim(ended_for=ended_for, ledger_for=ledger_for):
            if ended_for is not None or ledger_for is not None:
                raise _forbidden("other times than those of the space need the role admin")
        case _:
            pass


def _writes_of(request: r.Request[Any]) -> Iterable[Change]:
    """Return the registry writes of a request."""
    match request:
        case r.Write(changes=changes):
            return changes
        case r.Enqueue(writes=writes):
            return writes
        case r.Settle(settlements=settlements):
            return (write for one in settlements if isinstance(one, Ack) for write in one.writes)
        case _:
            return ()


def _limit_types(principal: Principal, request: r.Request[Any]) -> r.Request[Any]:
    """Apply the types of the token (``eventTypes``): reserve finds no others, and enqueue refuses others."""
    if principal.event_types is None:
        return request
    match request:
        case r.Reserve(types=wanted):
            types = principal.claimable(None if wanted is None else list(wanted))
            if not types:
                raise _forbidden("the token allows none of these types")
            return replace(request, types=types)
        case r.Enqueue(jobs=jobs):
            others = {job.type for job in representatives(jobs)} - principal.event_types
            if others:
                raise _forbidden(f"the token does not allow the type {min(others)}")
        case _:
            pass
    return request


def _forbidden(reason: str) -> Problem:
    return Problem(Code.FORBIDDEN, reason)
