"""``HandedOutLeases``: to whom this process has handed out leases lately, so that their owner need not be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from holdfast.model.lease import Reservation

MAX_LEASES = 20_000


class HandedOutLeases:
    """The last leases of one space. A lease that is not among them is unknown, not refused."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, tuple[str, str]] = OrderedDict()  # token to task id and subject

    def remember(self, reservations: Iterable[Reservation], subject: str) -> None:
        """Remember who has got these leases."""
        for one in reservations:
            self._owners[one.lease.token] = (one.job.id, subject)
        while len(self._owners) > MAX_LEASES:
            self._owners.popitem(last=False)

    def knows(self, token: str, task_id: str, subject: str) -> bool:
        """Whether the subject has got the lease with this token, of this task. The store says whether it is valid."""
        return self._owners.get(token) == (task_id, subject)
