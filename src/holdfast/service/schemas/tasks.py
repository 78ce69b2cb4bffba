"""Messages of producers."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.model import bounds
from holdfast.service.schemas.artifacts import ArtifactInfo
from holdfast.service.schemas.fields import (
    MAX_BATCH_TASKS,
    Answer,
    DelaySeconds,
    Instant,
    JsonValue,
    Name,
    Offset,
    Request,
    Text,
    WebhookUrl,
)
from holdfast.service.schemas.problem import ProblemDetails
from holdfast.service.statuses import Status


class NewTask(Request):
    """A task to enqueue. ``payload`` is any JSON value."""

    command: Name
    payload: JsonValue = msgspec.field(default_factory=partial(JsonValue, b"null"))
    queue: Name | None = None  # None: the queue of the settings
    priority: Annotated[int, Meta(ge=0, le=bounds.PRIORITIES[-1])] = 0  # 9 comes first
    max_attempts: Annotated[int, Meta(ge=1, le=bounds.MAX_COUNT)] | None = None  # runs, not retries
    idempotency_key: Text | None = None
    run_at: Instant | None = None
    delay_seconds: DelaySeconds | None = None
    domain: Text | None = None
    offset: Offset | None = None
    webhook: WebhookUrl | None = None  # called with the result when the task has ended


class EnqueuedTask(Answer):
    """The task that a request has stored, or has found by its idempotency key or offset.

    ``past`` says that the offset has ended in its domain; a task that was removed since is not found.
    """

    task_id: str
    existed: bool
    past: bool


class NewTasks(Request):
    """Tasks to enqueue in one transaction. Each one has its own outcome."""

    tasks: Annotated[list[JsonValue], Meta(min_length=1, max_length=MAX_BATCH_TASKS)]


class BatchItem(Answer):
    """The outcome of one item of a batch: a task, or a problem."""

    task_id: str | msgspec.UnsetType = msgspec.UNSET
    existed: bool | msgspec.UnsetType = msgspec.UNSET
    past: bool | msgspec.UnsetType = msgspec.UNSET
    problem: ProblemDetails | msgspec.UnsetType = msgspec.UNSET


class BatchOutcome(Answer):
    """One outcome per task, in order."""

    tasks: list[BatchItem]


class Task(Answer):
    """A task."""

    id: str
    command: str
    queue: str
    status: Status
    payload: Any
    priority: int
    attempts: int
    max_attempts: int
    created_at: Instant
    run_at: Instant | None
    idempotency_key: str | None
    domain: str | None
    offset: int | None
    error: str | None  # of the last failed attempt
    reason: str | None  # why the task failed for good


class TaskDetails(Task):
    """A task with its lease, for producers and operators. The lease token is not among them."""

    worker: str | None
    lease_until: Instant | None
    cancel_requested: bool
    progress: Any


class TaskResult(Answer):
    """How a task has ended; ``status`` says whether it has."""

    task_id: str
    command: str
    status: Status
    result: Any
    error: str | None
    reason: str | None
    attempts: int
    completed_at: Instant | None
    artifacts: list[ArtifactInfo]  # named by the attempt that has ended the task


class ResultQuery(Request):
    """How long to wait for the end of the task."""

    wait: Annotated[float, Meta(ge=0)] = 0.0  # seconds


class CancelledTask(Answer):
    """The task after the call. A task in progress is cancelled when its worker gives it up."""

    task_id: str
    status: Status
    cancel_requested: bool
