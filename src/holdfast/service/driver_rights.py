"""What a token allows of the verbs of a driver. The scope ``driver`` is for producers and workers of one space."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import approvals
from holdfast.artifacts.manifest import MANIFEST_KIND
from holdfast.artifacts.uploads import UPLOAD_KIND
from holdfast.artifacts.usage import USAGE_KIND
from holdfast.drivers.remote import arguments as messages
from holdfast.drivers.remote.arguments import Arguments
from holdfast.drivers.remote.rows import names_of_jobs
from holdfast.drivers.remote.verbs import Verb
from holdfast.model import retention
from holdfast.model.filters import JobFilter
from holdfast.model.registry import Change
from holdfast.model.settlement import Ack
from holdfast.service.auth.principal import Principal
from holdfast.service.problems import Code, Problem
from holdfast.service.system_queues import check_visible
from holdfast.webhooks import subscription, turn

OF_ADMINS = frozenset({"ledger_delay", "spaces", "table_sizes"})  # they tell about other spaces
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


def check_rights(principal: Principal, verb: Verb, arguments: Arguments) -> Arguments:
    """Return the arguments, with the types of jobs that the token allows. Raises ``Problem``.

    The role admin allows everything. The groups of verbs are checked by the operations themselves.
    """
    if not principal.is_admin:
        _check_space(principal, arguments)
        if verb.name in OF_ADMINS:
            raise _forbidden(f"{verb.name} needs the role admin")
        _check_arguments(principal, arguments)
    return _limit_types(principal, arguments)


def _check_space(principal: Principal, arguments: Arguments) -> None:
    if arguments.space not in {None, principal.space}:
        raise _forbidden("another space than that of the token needs the role admin")


def _check_arguments(principal: Principal, arguments: Arguments) -> None:
    for queue in _queues_of(arguments):
        check_visible(principal, queue)
    for change in _writes_of(arguments):
        if change.kind in KINDS_OF_ADMINS:
            raise _forbidden(f"entries of the kind {change.kind} need the role admin")
    match arguments:
        case messages.ConfigureArguments(only=only):
            if only is None or "paused_until" in only:
                raise _forbidden("a call that may begin or end a pause needs the role admin")
        case messages.TrimArguments(ended_for=ended_for, ledger_for=ledger_for):
            if ended_for is not None or ledger_for is not None:
                raise _forbidden("other times than those of the space need the role admin")
        case _:
            pass


def _queues_of(arguments: Arguments) -> Iterable[str]:
    """Return the queues that a call names."""
    match arguments:
        case messages.EnqueueArguments(jobs=jobs) | messages.EnqueueLeasedArguments(jobs=jobs):
            return names_of_jobs(jobs, "queue")
        case messages.ReserveArguments(queues=queues):
            return queues
        case messages.WaitArguments(queues=queues) | messages.AnyOpenArguments(queues=queues):
            return queues
        case messages.CountsArguments(queues=named) | messages.ReapArguments(queues=named):
            return named or ()
        case messages.ConfigureArguments(queue=queue) | messages.SettingsArguments(queue=queue):
            return [queue]
        case messages.DomainsArguments(queue=str(queue)) | messages.FindArguments(where=JobFilter(queue=str(queue))):
            return [queue]
        case _:
            return ()


def _writes_of(arguments: Arguments) -> Iterable[Change]:
    """Return the registry writes of a call."""
    match arguments:
        case messages.WriteArguments(changes=changes):
            return changes
        case messages.EnqueueArguments(writes=writes):
            return writes
        case messages.SettleArguments(settlements=settlements):
            return (write for one in settlements if isinstance(one, Ack) for write in one.writes)
        case _:
            return ()


def _limit_types(principal: Principal, arguments: Arguments) -> Arguments:
    """Apply the types of the token (``eventTypes``): reserve finds no others, and enqueue refuses others."""
    if principal.event_types is None:
        return arguments
    match arguments:
        case messages.ReserveArguments():
            types = principal.claimable(arguments.types)
            if not types:
                raise _forbidden("the token allows none of these types")
            arguments.types = types
        case messages.EnqueueArguments(jobs=jobs) | messages.EnqueueLeasedArguments(jobs=jobs):
            others = set(names_of_jobs(jobs, "type")) - principal.event_types
            if others:
                raise _forbidden(f"the token does not allow the type {min(others)}")
        case _:
            pass
    return arguments


def _forbidden(reason: str) -> Problem:
    return Problem(Code.FORBIDDEN, reason)
