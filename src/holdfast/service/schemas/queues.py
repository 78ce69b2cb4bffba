"""Messages of operators and autoscalers."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from holdfast.clock import SECOND
from holdfast.model import bounds
from holdfast.model.queue_settings import Gaps, OnExhausted
from holdfast.service.schemas.fields import Answer, Instant, Name, PositiveSeconds, Request, Text
from holdfast.service.schemas.tasks import Task
from holdfast.service.statuses import Status

MAX_PAGE_TASKS = 1000
MAX_REQUEUED_TASKS = 1000


class Counts(Answer):
    """Tasks of a queue. ``oldestAgeSeconds`` says for how long the oldest pending task has been due."""

    queue: str
    pending: int
    delayed: int
    in_progress: int
    failed: int
    oldest_age_seconds: float | None


class QueueList(Answer):
    """The queues that have open or failed tasks."""

    queues: list[Counts]


class AutoscaleQuery(Request):
    """What to scale by."""

    queue: Name | None = None
    command: Name | None = None
    tasks_per_worker: Annotated[int, Meta(ge=1)] = 1


class AutoscaleStats(Answer):
    """Numbers for an autoscaler. ``desiredWorkers`` is the backlog by ``tasksPerWorker``, rounded up."""

    pending: int
    delayed: int
    in_progress: int
    backlog: int  # pending and in progress
    oldest_age_seconds: float
    desired_workers: int


class SearchQuery(Request):
    """Which tasks to list."""

    status: Status | None = None
    queue: Name | None = None
    command: Name | None = None
    domain: Text | None = None
    idempotency_key: Text | None = None
    reason: Text | None = None  # of a failed task, exact
    created_from: Instant | None = None  # inclusive
    created_before: Instant | None = None  # exclusive
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_TASKS)] = 100
    after: Annotated[str, Meta(max_length=256)] | None = None  # the cursor of the page before


class TaskPage(Answer):
    """A page of tasks. Only a cursor of null is the end: a page may have few tasks and still have a cursor.

    A page ends once its payloads and results have 8 MiB.
    """

    tasks: list[Task]
    cursor: str | None


class RequeueRequest(Request):
    """Failed or cancelled tasks to run again."""

    task_ids: Annotated[list[Name], Meta(min_length=1, max_length=MAX_REQUEUED_TASKS)]


class Requeued(Answer):
    """Whether each task was requeued, in order."""

    requeued: list[bool]


class PauseRequest(Request):
    """A pause of a queue, or of one command in it. Without a length it lasts until the queue is resumed."""

    command: Name | None = None
    for_seconds: PositiveSeconds | None = None


class ResumeRequest(Request):
    """The end of a pause. With a command, its circuit breaker is closed, too."""

    command: Name | None = None


class QueueLimitsChange(Request):
    """Limits of a queue, or of one command in it. A limit that is left out stays; null removes it."""

    command: Name | None = None
    max_in_progress: Annotated[int, Meta(ge=1, le=bounds.MAX_COUNT)] | msgspec.UnsetType | None = msgspec.UNSET
    rate: Annotated[float, Meta(gt=0, le=SECOND)] | msgspec.UnsetType | None = msgspec.UNSET  # claims per second
    burst: Annotated[int, Meta(ge=1, le=bounds.MAX_COUNT)] | msgspec.UnsetType | None = msgspec.UNSET
    # Of a queue, not of a command: what its domains do at a failed task and at a missing offset.
    on_exhausted: OnExhausted | msgspec.UnsetType = msgspec.UNSET
    gaps: Gaps | msgspec.UnsetType = msgspec.UNSET
    gap_report_after_seconds: PositiveSeconds | msgspec.UnsetType | None = msgspec.UNSET
    gap_pass_after_seconds: PositiveSeconds | msgspec.UnsetType | None = msgspec.UNSET


class SettingsQuery(Request):
    """Whose settings to read."""

    command: Name | None = None


class QueueState(Answer):
    """The settings of a queue, or of one command in it."""

    queue: str
    command: str | None
    paused: bool
    paused_until: Instant | None  # None with ``paused``: until it is resumed
    max_in_progress: int | None
    rate: float | None
    burst: int | None
    on_exhausted: OnExhausted
    gaps: Gaps
    gap_report_after_seconds: float | None
    gap_pass_after_seconds: float | None


class Health(Answer):
    """Whether all is well. A service that is ready may have reasons: what fails does not concern every request."""

    ok: bool
    reasons: list[str]
