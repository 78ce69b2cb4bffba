"""Messages of event streams."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.model.ledger import Ending
from holdfast.service.schemas.fields import Answer, Instant, Name, Request
from holdfast.service.statuses import Status

MAX_STREAM_SECONDS = 86_400
Cursor = Annotated[str, Meta(min_length=1, max_length=256)]
OLDEST = "oldest"


class EventsQuery(Request):
    """Which events to send, and for how long. Without ``after``, those from now on."""

    after: Cursor | None = None  # the id of an event, or ``oldest``
    queue: Name | None = None
    command: Name | None = None
    for_seconds: Annotated[float, Meta(ge=0, le=MAX_STREAM_SECONDS)] = 3600.0


class EventsHeaders(msgspec.Struct, kw_only=True, rename="kebab"):
    """The header of a client that reconnects. It wins over ``after``."""

    last_event_id: Cursor | None = None


class TaskEvent(Answer):
    """The data of one event: how a lease of a task ended, or what else became of the task."""

    task_id: str
    command: str
    queue: str
    ending: Ending
    status: Status | None  # of the task after it; None once the task is purged
    attempt: int
    worker: str | None
    started_at: Instant | None
    ended_at: Instant
    detail: str | None
    error: str | None
