"""Messages of operators about retention and schedules."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from holdfast.service.schemas.fields import MAX_DELAY_SECONDS, Answer, Instant, Name, Request

DAY_SECONDS = 86_400
MAX_CLEANUP_ROWS = 10_000
MAX_PAGE_SCHEDULES = 1000


class CleanupRequest(Request):
    """What to remove. A length that is left out is that of the retention of the space.

    Failed tasks stay, unless ``keepFailedSeconds`` or the retention of the space says how long.
    """

    keep_ended_seconds: Annotated[float, Meta(ge=DAY_SECONDS, le=MAX_DELAY_SECONDS)] | None = None
    keep_failed_seconds: Annotated[float, Meta(ge=DAY_SECONDS, le=MAX_DELAY_SECONDS)] | None = None
    keep_ledger_seconds: Annotated[float, Meta(ge=1, le=MAX_DELAY_SECONDS)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_CLEANUP_ROWS)] = 1000  # rows of each kind


class Cleanup(Answer):
    """What was removed. With ``more``, call again."""

    tasks: int  # completed or cancelled
    failed_tasks: int
    ledger_rows: int
    idempotency_keys: int
    registry_entries: int
    more: bool


class SchedulesQuery(Request):
    """Which page of the schedules to list."""

    after: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_SCHEDULES)] = 100


class ScheduleState(Answer):
    """A schedule. ``status`` is ``active``, ``paused``, ``disabled`` or ``not declared``."""

    name: str
    command: str
    queue: str | None
    expression: str
    timezone: str
    status: str
    source: str
    next_fire: Instant | None
    last_fire: Instant | None
    last_task_id: str | None


class ScheduleList(Answer):
    """A page of schedules, ordered by name. The name of the last one leads to the next page."""

    schedules: list[ScheduleState]


class ScheduleRun(Answer):
    """The task of a schedule that was run now."""

    name: str
    task_id: str
