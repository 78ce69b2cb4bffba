"""The base of drivers that ``joined`` returns: they enqueue in the caller's transaction, and do nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from holdfast.drivers.capabilities import Capabilities
from holdfast.errors import Unsupported
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued
from holdfast.model.registry import Change


class EnqueueOnly:
    """Refuses every verb but ``enqueue``: a lease in a transaction that may be rolled back would protect nothing."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities

    def enqueue(
        self,
        jobs: Sequence[JobRecord],
        *,
        writes: Sequence[Change] = (),
        replace_dead_before: int | None = None,
        now: int | None = None,
    ) -> list[Enqueued]:
        """Store new jobs and return one answer per record, in order; durable when the caller commits."""
        raise NotImplementedError

    def _check_replace_dead(self, replace_dead_before: int | None) -> None:
        if replace_dead_before is not None:
            self._refuse()

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise Unsupported(
            self.capabilities.driver,
            "any verb but enqueue in the caller's transaction",
            "use the driver itself for the rest",
        )

    reserve = extend = settle = reap = report_outage = wait = space = joined = _refuse

    def close(self) -> None:
        """Do nothing: the connection belongs to the caller."""
