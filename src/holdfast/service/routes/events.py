"""The call of dashboards: the ledger as server-sent events."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.drivers.answers import Page
from holdfast.drivers.requests import LedgerEnd
from holdfast.errors import LedgerTrimmed
from holdfast.model.ledger import LedgerRow
from holdfast.service.auth.principal import Scope
from holdfast.service.event_stream import read_page
from holdfast.service.operation import EVENT_STREAM, Call, Operation, Reply
from holdfast.service.problems import Code, Problem
from holdfast.service.schemas.events import OLDEST, EventsHeaders, EventsQuery, TaskEvent
from holdfast.service.system_queues import check_visible


async def events(call: Call) -> Reply:
    """Send the ends of leases as they happen, from a cursor on. The stream has those of the space of the token."""
    if call.query.queue is not None:
        check_visible(call.principal, call.query.queue)
    streams = call.service.event_streams
    streams.check(call.tenant.name)
    page = await _first_page(call, call.headers.last_event_id or call.query.after)
    if call.is_head:
        return Reply(content=b"", content_type=EVENT_STREAM)
    stream = streams.stream(call.tenant, call.query, page, is_still_allowed=call.is_still_allowed)
    return Reply(content=stream, content_type=EVENT_STREAM, headers={"X-Accel-Buffering": "no"})


async def _first_page(call: Call, after: str | None) -> Page[LedgerRow]:
    """Return the page after a cursor: before anything is sent, so that a bad cursor is a 400."""
    tenant = call.tenant
    if after is None:
        return Page([], await tenant.calls.run(tenant.store.do, LedgerEnd()))
    try:
        return await read_page(tenant, None if after == OLDEST else after)
    except LedgerTrimmed:
        detail = "the rows after this event were removed; begin with after=oldest"
        raise Problem(Code.EVENTS_TRIMMED, detail, field="after") from None


OPERATIONS: Sequence[Operation] = (
    Operation(
        name="events",
        method="GET",
        path="/events",
        summary="Ends of tasks and leases as server-sent events",
        handler=events,
        scope=Scope.READ,
        query=EventsQuery,
        headers=EventsHeaders,
        answers={200: TaskEvent},
        event_stream=True,
        problems=(Code.EVENTS_TRIMMED,),
    ),
)
