"""``HandedOutLeases``: to whom this process has handed out leases lately, so that their owner need not be read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from holdfast.model.lease import Lease

MAX_LEASES = 20_000


class HandedOutLeases:
    """The last leases of one space. A lease that is not among them is unknown, not refused."""

    def __init__(self) -> None:
        self._leases: OrderedDict[str, tuple[Lease, str]] = (
            OrderedDict()
        )  # by the token that the worker has, with its subject

    def remember(self, leases: Mapping[str, Lease], subject: str) -> None:
        """Remember who has got these leases, by the tokens of the answer."""
        self._leases.update((token, (lease, subject)) for token, lease in leases.items())
        while len(self._leases) > MAX_LEASES:
            self._leases.popitem(last=False)

    def find(self, token: str, task_id: str, subject: str) -> Lease | None:
        """Return the lease of this task that the subject has got with this token. The store says whether it is valid."""
        found = self._leases.get(token)
        return found[0] if found is not None and found[1] == subject and found[0].job_id == task_id else None
