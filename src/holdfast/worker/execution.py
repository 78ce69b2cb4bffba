"""Keeps the ``ExecutionResult`` of the last attempt of jobs whose handlers have ``capture_output``."""

from __future__ import annotations

from holdfast.clock import wall_clock
from holdfast.drivers.requests import Read
from holdfast.drivers.store import Store
from holdfast.errors import InvalidInput, StoreError
from holdfast.model import bounds, retention
from holdfast.model.execution import MAX_EXECUTION_ERROR_CHARACTERS
from holdfast.model.registry import Change
from holdfast.model.retention import Retention, read_retention
from holdfast.model.settlement import Ack, Settlement
from holdfast.wire.execution_entry import EXECUTION_KIND, ExecutionEntry
from holdfast.worker.catalogue import Catalogue
from holdfast.worker.processes.running import Run


class Executions:
    """Makes the registry entries of ended attempts. An entry is kept as long as the store keeps an ended job."""

    def __init__(self, store: Store, catalogue: Catalogue) -> None:
        self._store = store
        self._types = frozenset(handler.type for handler in catalogue if handler.capture_output)
        self._ttl: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether any handler has its output captured."""
        return bool(self._types)

    def changes(self, run: Run, settlement: Settlement) -> list[Change]:
        """Return the change that keeps this attempt; none if it did not begin, or nothing is captured."""
        job = run.reservation.job
        if job.type not in self._types or run.seconds is None:
            return []
        output = run.output
        entry = ExecutionEntry(
            success=isinstance(settlement, Ack),
            handler=job.type,
            attempt=job.attempts,
            ended=wall_clock(),
            seconds=run.seconds,
            output="" if output is None else output.text,
            error=bounds.truncate_text(getattr(settlement, "error", ""), MAX_EXECUTION_ERROR_CHARACTERS),
            truncated=output is not None and output.truncated,
        )
        return [Change(kind=EXECUTION_KIND, key=job.id, value=entry.encode(), ttl=self._keep_for())]

    def _keep_for(self) -> int:
        """Return for how long the store keeps ended jobs. Read once: a worker need not follow a later change."""
        if self._ttl is None:
            try:
                [entry] = self._store.do(Read(kind=retention.KIND, keys=[retention.KEY]))
                self._ttl = (read_retention(entry) or Retention()).ended_for
            except (InvalidInput, StoreError):  # the settlement goes on, and maintenance reports a bad entry
                return Retention().ended_for
        return self._ttl
