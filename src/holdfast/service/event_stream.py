"""``event_stream``: the ledger of a space as server-sent events, from a cursor on.

Each event is one ledger row. Its id is the cursor after the row, so a client that reconnects with ``Last-Event-ID``
misses nothing and gets nothing twice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from holdfast.clock import monotonic
from holdfast.drivers.answers import Page
from holdfast.errors import HoldfastError, LedgerTrimmed
from holdfast.model.fair_share import may_take_another
from holdfast.model.ledger import LedgerRow
from holdfast.service.problems import BUSY_SECONDS, Code, Problem
from holdfast.service.schemas.events import EventsQuery, TaskEvent
from holdfast.service.schemas.fields import instant
from holdfast.service.statuses import OF_STATE
from holdfast.service.system_queues import is_system
from holdfast.service.tenants.tenant import Tenant
from holdfast.service.timing import ServiceTiming

MAX_STREAMS = 200  # of one process, half of them of one space: each one reads the ledger about once a second
PAGE_ROWS = 500
FIRST_POLL_SECONDS, MAX_POLL_SECONDS = 0.1, 1.0  # between two reads of a ledger without new rows
RETRY = b"retry: 2000\n\n"  # milliseconds after which a client reconnects
HEARTBEAT = b": heartbeat\n\n"
TRIMMED = b"event: trimmed\ndata: {}\n\n"

_encode = msgspec.json.Encoder().encode


class EventStreams:
    """Bounds the streams of a process and of each space."""

    def __init__(self, timing: ServiceTiming) -> None:
        self._timing = timing
        self._open: Counter[str] = Counter()  # by space
        self._stops = False

    def stop(self) -> None:
        """End all streams: the service is about to stop."""
        self._stops = True

    def check(self, space: str) -> None:
        """Raise ``Problem`` if the space has too many streams."""
        if not may_take_another(self._open[space], MAX_STREAMS - self._open.total()):
            raise Problem(Code.OVERLOADED, "too many event streams of this space", retry_after=BUSY_SECONDS)

    async def stream(
        self,
        tenant: Tenant,
        query: EventsQuery,
        page: Page[LedgerRow],
        *,
        is_still_allowed: Callable[[], Awaitable[bool]],
    ) -> AsyncIterator[bytes]:
        """Yield the events of a first page, and those that follow, until the time of the query or of the token is over.

        A client whose token is no longer valid reconnects, and learns why it is refused.
        """
        self._open[tenant.name] += 1
        try:
            yield RETRY
            deadline = monotonic() + query.for_seconds
            pause, silent_since, checked_at = FIRST_POLL_SECONDS, monotonic(), monotonic()
            while not self._stops:
                if monotonic() - checked_at >= self._timing.token_check_seconds:
                    if not await is_still_allowed():
                        return
                    checked_at = monotonic()
                events = [
                    _event(cursor, row)
                    for cursor, row in zip(page.cursors, page.items, strict=True)
                    if _is_wanted(query, row)
                ]
                if events:
                    yield b"".join(events)
                    pause, silent_since = FIRST_POLL_SECONDS, monotonic()
                elif monotonic() - silent_since >= self._timing.heartbeat_seconds:
                    yield HEARTBEAT
                    silent_since = monotonic()
                if monotonic() >= deadline:
                    return
                if len(page) < PAGE_ROWS:
                    await asyncio.sleep(min(pause, max(0.0, deadline - monotonic())))
                    pause = min(2 * pause, MAX_POLL_SECONDS)
                try:
                    page = await read_page(tenant, page.cursor)
                except LedgerTrimmed:  # retention was faster than the client
                    yield TRIMMED
                    page = await read_page(tenant, None)
                except (HoldfastError, Problem):
                    return  # the client reconnects, and learns of the outage
        finally:
            self._open[tenant.name] -= 1


async def read_page(tenant: Tenant, cursor: str | None) -> Page[LedgerRow]:
    """Return a page of the ledger."""
    return await tenant.calls.run(tenant.store.ledger, cursor, PAGE_ROWS)


def _is_wanted(query: EventsQuery, row: LedgerRow) -> bool:
    """Whether a row is sent. Those of a queue of the system are sent only if the queue is named."""
    if query.queue is None and is_system(row.queue):
        return False
    return query.queue in (None, row.queue) and query.command in (None, row.type)


def _event(cursor: str, row: LedgerRow) -> bytes:
    ended_at = instant(row.ended_at)
    assert ended_at is not None
    data = TaskEvent(
        task_id=row.job_id,
        command=row.type,
        queue=row.queue,
        ending=row.ending,
        status=None if row.state is None else OF_STATE[row.state],
        attempt=row.attempt,
        worker=row.worker or None,
        started_at=instant(row.started_at or row.reserved_at),
        ended_at=ended_at,
        detail=row.detail or None,
        error=row.error or None,
    )
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (cursor.encode(), row.ending.encode(), _encode(data))
