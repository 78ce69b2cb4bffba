"""The other face of ``joined``: a driver that enqueues in somebody else's transaction, and does nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from holdfast.drivers.contract import Capabilities
from holdfast.errors import Unsupported
from holdfast.model.job import JobRecord
from holdfast.model.lease import Enqueued


class EnqueueOnly:
    """Every verb but ``enqueue`` is refused: a lease inside a transaction that may roll back would be no lease."""

    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities

    def enqueue(self, jobs: Sequence[JobRecord], *, now: int | None = None) -> list[Enqueued]:
        """See ``Driver.enqueue``; durable when the caller commits."""
        raise NotImplementedError

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise Unsupported(
            self.capabilities.driver,
            "any verb but enqueue in the caller's transaction",
            "use the driver itself for the rest",
        )

    reserve = extend = settle = reap = wait = space = joined = _refuse

    def close(self) -> None:
        """The connection is the caller's: nothing to give back."""
