"""``HandedOutLeases``: to whom this process has handed out leases lately, so that their owner need not be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.model.job import JobRecord
from holdfast.model.lease import Lease, Reservation
from holdfast.model.request import META_RETRY

MAX_LEASES = 20_000


class NamedLease(NamedTuple):
    """The lease that a request names by the token of a worker."""

    lease: Lease
    lease_for: int  # for which the worker has claimed it
    job: JobRecord | None = (
        None  # if this process has handed the lease out to the caller: without payload, with its retry policy
    )

    @property
    def is_known(self) -> bool:
        """Whether this process has handed the lease out to the caller, so that its owner need not be read."""
        return self.job is not None


class HandedOutLeases:
    """The last leases of one space. A lease that is not among them is unknown, not refused."""

    def __init__(self) -> None:
        self._leases: OrderedDict[str, tuple[NamedLease, str]] = OrderedDict()  # with subjects, by workers' tokens

    def remember(self, reservations: Mapping[str, Reservation], lease_for: int, subject: str) -> None:
        """Remember who has got these leases, by the tokens of the answer."""
        for token, one in reservations.items():
            policy = {name: value for name, value in one.job.meta.items() if name == META_RETRY}
            job = replace(one.job, payload=b"", meta=policy)
            self._leases[token] = (NamedLease(one.lease, lease_for, job), subject)
        while len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)

    def forget(self, token: str) -> None:
        """Forget a lease that has ended: what a repeated call is told is read."""
        self._leases.pop(token, None)

    def find(self, token: str, task_id: str, subject: str) -> NamedLease | None:
        """Return the lease of a task that the subject has got with this token. The store says whether it is valid."""
        named, owner = self._leases.get(token, (None, None))
        return named if named is not None and owner == subject and named.lease.job_id == task_id else None
