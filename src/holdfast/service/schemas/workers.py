"""Messages of workers. Each one but the claim carries the token of a lease."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from holdfast.service.schemas.fields import (
    MAX_BATCH_TASKS,
    MAX_CLAIM_NAMES,
    MAX_CLAIM_TASKS,
    MAX_TASK_ARTIFACTS,
    Answer,
    ArtifactName,
    DelaySeconds,
    ErrorText,
    Instant,
    JsonValue,
    LeaseToken,
    Name,
    PositiveSeconds,
    Request,
)
from holdfast.service.schemas.problem import ProblemDetails
from holdfast.service.schemas.tasks import Task
from holdfast.service.statuses import Status

ArtifactNames = Annotated[list[ArtifactName], Meta(max_length=MAX_TASK_ARTIFACTS)]
Names = Annotated[list[Name], Meta(min_length=1, max_length=MAX_CLAIM_NAMES)]


class ClaimRequest(Request):
    """Which tasks a worker wants, and for how long."""

    commands: Names | None = None  # None: all that the token allows
    queues: Names | None = None  # None: the queue of the settings
    lease_seconds: PositiveSeconds | None = None  # None: the default of the service
    wait_seconds: Annotated[float, Meta(ge=0)] = 0.0
    limit: Annotated[int, Meta(ge=1, le=MAX_CLAIM_TASKS)] | None = None  # with a limit, the answer is a list


class Claim(Answer):
    """A task under a lease. Its attempt counts from now on."""

    task: Task
    lease_token: str
    fence: int
    lease_until: Instant
    lease_seconds: float  # for a worker whose clock differs from that of the store


class Claims(Answer):
    """The answer to a claim with a limit."""

    claims: list[Claim]


class Heartbeat(Request):
    """Extend the lease from now on."""

    lease_token: LeaseToken
    lease_seconds: PositiveSeconds | None = None  # None: as long as it was claimed for
    progress: JsonValue = msgspec.field(default_factory=JsonValue)  # null leaves the stored value


class ExtendedLease(Answer):
    """The lease after a heartbeat. With ``cancelRequested`` the worker should stop and abandon the task."""

    task_id: str
    lease_until: Instant
    lease_seconds: float
    cancel_requested: bool


class Completion(Request):
    """The end of an attempt. ``FAILED`` is final, unless it is ``retryable``, and has no result."""

    lease_token: LeaseToken
    status: Literal["COMPLETED", "FAILED"]
    result: JsonValue = msgspec.field(default_factory=JsonValue)
    error: ErrorText = ""
    retryable: bool = False
    artifacts: ArtifactNames = msgspec.field(default_factory=list)  # of those that this attempt has uploaded


class Nack(Request):
    """The attempt failed, and the task runs again, unless this was its last attempt."""

    lease_token: LeaseToken
    delay_seconds: DelaySeconds | None = None  # None: computed by the retry policy
    reason: ErrorText = ""


class Abandon(Request):
    """Give the task back. The attempt does not count."""

    lease_token: LeaseToken
    delay_seconds: DelaySeconds = 0.0


class SettledTask(Answer):
    """The task after its lease has ended; with ``delaySeconds`` if it runs again."""

    task_id: str
    status: Status
    delay_seconds: float | msgspec.UnsetType = msgspec.UNSET


class BatchCompletion(Completion, kw_only=True):
    """The end of one attempt in a batch."""

    task_id: Name


class Completions(Request):
    """The ends of many attempts, each with its own outcome."""

    results: Annotated[list[BatchCompletion], Meta(min_length=1, max_length=MAX_BATCH_TASKS)]


class BatchNack(Nack, kw_only=True):
    """One failed attempt in a batch."""

    task_id: Name


class Nacks(Request):
    """Many failed attempts, each with its own outcome."""

    tasks: Annotated[list[BatchNack], Meta(min_length=1, max_length=MAX_BATCH_TASKS)]


class SettledItem(Answer):
    """The outcome of one item of a batch: as ``SettledTask``, or a problem."""

    task_id: str
    status: Status | msgspec.UnsetType = msgspec.UNSET
    delay_seconds: float | msgspec.UnsetType = msgspec.UNSET
    problem: ProblemDetails | msgspec.UnsetType = msgspec.UNSET


class SettledResults(Answer):
    """One outcome per result, in order."""

    results: list[SettledItem]


class SettledTasks(Answer):
    """One outcome per task, in order."""

    tasks: list[SettledItem]


class BatchHeartbeat(Heartbeat, kw_only=True):
    """The heartbeat of one task in a batch."""

    task_id: Name


class Heartbeats(Request):
    """The heartbeats of many tasks, each named once, and each with its own outcome."""

    tasks: Annotated[list[BatchHeartbeat], Meta(min_length=1, max_length=MAX_BATCH_TASKS)]


class ExtendedItem(Answer):
    """The outcome of one item of a batch: as ``ExtendedLease``, or a problem."""

    task_id: str
    lease_until: Instant | msgspec.UnsetType = msgspec.UNSET
    lease_seconds: float | msgspec.UnsetType = msgspec.UNSET
    cancel_requested: bool | msgspec.UnsetType = msgspec.UNSET
    problem: ProblemDetails | msgspec.UnsetType = msgspec.UNSET


class ExtendedLeases(Answer):
    """One outcome per task, in order."""

    tasks: list[ExtendedItem]
