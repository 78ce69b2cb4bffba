"""What all calls under a lease share: the lease in the request, its length, and who may use it."""

from __future__ import annotations

from holdfast.clock import SECOND, from_timedelta, monotonic
from holdfast.drivers.answers import Inspection
from holdfast.errors import LeaseError
from holdfast.model.job import State
from holdfast.model.lease import Lease
from holdfast.service.operation import Call
from holdfast.service.problems import Code, Problem, not_found, refused
from holdfast.service.system_queues import hide
from holdfast.service.tenants.handed_out import NamedLease
from holdfast.service.tenants.tenant import Heartbeat
from holdfast.settings.serve import ServeSettings

MIN_LEASE_SECONDS = 1.0  # of a claim


def token_of(lease: Lease, lease_for: int) -> str:
    """Return the token that a worker gets: that of the store, and the length of the lease.

    So every process of the service knows how long the worker wants its lease to be. The store keeps only its end.
    """
    return f"{lease.token}.{lease_for}"


def find_lease(call: Call, task_id: str, token: str) -> NamedLease:
    """Return the lease that a request names."""
    known = call.tenant.handed_out.find(token, task_id, call.principal.subject)
    return known or NamedLease(lease_of(task_id, token), kept_length(call.service.serve, token))


def lease_of(task_id: str, token: str) -> Lease:
    """Return the lease with a token that a worker has. The store compares the token, and knows the rest."""
    fence, _, rest = token.partition(".")
    secret, _, _ = rest.partition(".")
    return Lease(job_id=task_id, token=f"{fence}.{secret}", fence=_number(fence) or 0, expires_at=0)


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


def kept_length(settings: ServeSettings, token: str) -> int:
    """Return the length for which a lease was claimed, in microseconds, within the bounds of the settings."""
    lease_for = _number(token.rpartition(".")[2]) if token.count(".") > 1 else None
    length = from_timedelta(settings.lease) if lease_for is None else lease_for
    return min(max(length, round(MIN_LEASE_SECONDS * SECOND)), from_timedelta(settings.max_lease))


def lease_seconds(settings: ServeSettings, asked: float | None) -> float:
    """Return the length of a lease. Raises ``Problem`` if it is outside of the bounds of the settings."""
    least, most = MIN_LEASE_SECONDS, settings.max_lease.total_seconds()
    seconds = settings.lease.total_seconds() if asked is None else asked
    if not least <= seconds <= most:
        raise Problem(Code.INVALID_REQUEST, f"wanted {least:g} to {most:g} seconds", field="leaseSeconds")
    return seconds


async def read_owned(call: Call, task_id: str) -> Inspection:
    """Return the job of a call. Raises ``Problem`` if there is none, or if another subject has claimed it."""
    return check_owner(call, task_id, await call.tenant.inspect_one(task_id))


def check_owner(call: Call, task_id: str, found: Inspection | None) -> Inspection:
    """Return the job that was found. Raises ``Problem`` if there is none, or if another subject has claimed it.

    The token of a lease is the proof of ownership; the subject must be that of the claim besides.
    """
    found = hide(call.principal, found)
    if found is None:
        raise not_found(task_id)
    if found.job.state is State.INFLIGHT and found.worker != call.principal.subject:
        raise Problem(Code.LEASE_MISMATCH, "another worker has claimed the task; nothing was changed", task_id=task_id)
    return found


class LeaseKeeper:
    """Keeps the lease of a long call valid: it has at least the time that it had at the start of the call."""

    def __init__(self, call: Call, lease: Lease, lease_for: int) -> None:
        self.lease = lease
        self._call = call
        self._lease_for = lease_for
        self._extended_at = 0.0

    @classmethod
    async def start(cls, call: Call, task_id: str, token: str) -> LeaseKeeper:
        """Check the lease by extending it. Raises ``Problem`` if the store refuses it."""
        found = await read_owned(call, task_id)
        settings = call.service.serve
        left = (found.expires_at or 0) - call.tenant.clock.now()
        lease_for = min(max(left, from_timedelta(settings.lease)), from_timedelta(settings.max_lease))
        keeper = cls(call, lease_of(task_id, token), lease_for)
        await keeper.extend()
        return keeper

    async def extend(self) -> None:
        """Extend the lease. Raises ``Problem`` if the store refuses it."""
        answer = await self._call.tenant.extend(Heartbeat(self.lease, self._lease_for))
        if isinstance(answer, LeaseError):
            raise refused(answer)
        self.lease = answer
        self._extended_at = monotonic()

    async def extend_if_due(self) -> None:
        """Extend the lease if a third of it has passed."""
        if (monotonic() - self._extended_at) * SECOND * 3 >= self._lease_for:
            await self.extend()
