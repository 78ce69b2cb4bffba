"""Counts of tasks by queue, for operators and autoscalers.

Numbers of a large space are estimated. An answer is kept: for a second at least, and for 20 times as long as the count
took. Completed tasks are not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from holdfast.clock import SECOND, monotonic
from holdfast.drivers import requests as r
from holdfast.drivers.answers import QueueCounts
from holdfast.drivers.store import Store
from holdfast.model.job import State
from holdfast.service.schemas.queues import Counts
from holdfast.service.tenants.store_calls import StoreCalls

REST_FACTOR = 20
COUNTED = (State.READY, State.INFLIGHT, State.DEAD)


class QueueCounter:
    """The counts of one space. Requests that come together count once."""

    def __init__(self, store: Store, calls: StoreCalls, *, min_age_seconds: float) -> None:
        self._store = store
        self._calls = calls
        self._min_age_seconds = min_age_seconds
        self._rows: list[QueueCounts] = []
        self._valid_until = 0.0
        self._counting: asyncio.Task[None] | None = None

    async def rows(self) -> list[QueueCounts]:
        """Return one row per queue and type."""
        if monotonic() >= self._valid_until:
            if self._counting is None or self._counting.done():
                self._counting = asyncio.create_task(self._count())
            await asyncio.shield(self._counting)
        return self._rows

    async def _count(self) -> None:
        began = monotonic()
        self._rows = await self._calls.run(self._store.do, r.Counts(states=COUNTED, estimate=True))
        took = monotonic() - began
        self._valid_until = monotonic() + max(self._min_age_seconds, REST_FACTOR * took)


def sum_counts(queue: str, rows: Sequence[QueueCounts]) -> Counts:
    """Return the sum of rows."""
    ages = [row.oldest_ready_age for row in rows if row.oldest_ready_age is not None]
    return Counts(
        queue=queue,
        pending=sum(row.ready for row in rows),
        delayed=sum(row.scheduled for row in rows),
        in_progress=sum(row.inflight for row in rows),
        failed=sum(row.dead for row in rows),
        oldest_age_seconds=max(ages) / SECOND if ages else None,
    )
