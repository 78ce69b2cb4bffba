"""``DeadLetterRetention``: removes dead letters that are older than the retention of the space says, if it says so.

``trim`` never removes a dead letter. This purges them, so each one leaves a ``purged`` row in the ledger, and one that
is requeued meanwhile stays.
"""

from __future__ import annotations

from holdfast.clock import MINUTE
from holdfast.drivers.requests import Purge, Write
from holdfast.drivers.store import Store
from holdfast.model.filters import JobFilter
from holdfast.model.job import State
from holdfast.model.registry import Change

CLOCK_KIND, CLOCK_KEY = "retention", "clock"


class DeadLetterRetention:
    """Looks at the dead letters of one space in steps, the oldest jobs first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._after: str | None = None

    def step(self, dead_for: int, *, limit: int) -> tuple[int, bool]:
        """Purge those of the next ``limit`` that are old enough; return how many, and whether there may be more."""
        before = self._now() - dead_for
        if before < 0:
            return 0, False
        where = JobFilter(states=(State.DEAD,), created_before=before)  # a job dies after it was created
        page = self._store.find(where, limit=limit, after=self._after)
        self._after = page.cursor
        old = [job.id for job in page if job.dead_at is not None and job.dead_at <= before]
        removed = sum(self._store.do(Purge(job_ids=old))) if old else 0
        return removed, page.cursor is not None

    def _now(self) -> int:
        """Return the clock of the store: it adds the TTL of an entry to its own clock."""
        [entry] = self._store.do(Write(changes=[Change(kind=CLOCK_KIND, key=CLOCK_KEY, value=b"", ttl=MINUTE)]))
        assert entry is not None
        assert entry.expires_at is not None
        return entry.expires_at - MINUTE
