"""``HandedOutLeases``: to whom this process has handed out leases lately, so that their owner need not be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

from holdfast.model.lease import Lease

MAX_LEASES = 20_000


class NamedLease(NamedTuple):
    """The lease that a request names by the token of a worker."""

    lease: Lease
    lease_for: int  # for which the worker has claimed it
    is_known: bool  # this process has handed it out to the subject of the request, so its owner need not be read


class HandedOutLeases:
    """The last leases of one space. A lease that is not among them is unknown, not refused."""

    def __init__(self) -> None:
        self._leases: OrderedDict[str, tuple[NamedLease, str]] = OrderedDict()  # with subjects, by workers' tokens

    def remember(self, leases: Mapping[str, Lease], lease_for: int, subject: str) -> None:
        """Remember who has got these leases, by the tokens of the answer."""
        self._leases.update(
            (token, (NamedLease(one, lease_for, is_known=True), subject)) for token, one in leases.items()
        )
        while len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)

    def find(self, token: str, task_id: str, subject: str) -> NamedLease | None:
        """Return the lease of a task that the subject has got with this token. The store says whether it is valid."""
        named, owner = self._leases.get(token, (None, None))
        return named if named is not None and owner == subject and named.lease.job_id == task_id else None
