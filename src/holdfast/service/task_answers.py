"""Jobs as the tasks of answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.artifacts.manifest import Artifact
from holdfast.drivers.answers import Inspection
from holdfast.model.job import JobRecord
from holdfast.service.schemas.artifacts import ArtifactInfo
from holdfast.service.schemas.fields import instant
from holdfast.service.schemas.tasks import Task, TaskDetails, TaskResult
from holdfast.service.statuses import Status, status_of
from holdfast.wire.stored_json import known_payload_of, payload_of, stored_value


def _fields(job: JobRecord, now: int, read: Callable[[JobRecord], object]) -> dict[str, Any]:
    return {
        "id": job.id,
        "command": job.type,
        "queue": job.queue,
        "status": status_of(job, now),
        "payload": read(job),
        "priority": job.priority,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "created_at": instant(job.created_at),
        "run_at": instant(job.run_at),
        "idempotency_key": job.idempotency_key,
        "domain": job.domain,
        "offset": job.offset,
        "error": job.last_error or None,
        "reason": job.dead_reason,
    }


def task_of(job: JobRecord, now: int) -> Task:
    """Return a task."""
    return Task(**_fields(job, now, payload_of))


def claimed_task_of(job: JobRecord, now: int) -> Task:
    """Return a task that a worker gets: its payload was checked when it was claimed."""
    return Task(**_fields(job, now, known_payload_of))


def details_of(inspected: Inspection, now: int) -> TaskDetails:
    """Return a task with its lease, for its producer."""
    return TaskDetails(
        **_fields(inspected.job, now, payload_of),
        worker=inspected.worker or None,
        lease_until=instant(inspected.expires_at),
        cancel_requested=inspected.cancel_requested,
        progress=None if inspected.note is None else stored_value(inspected.note.progress),
    )


def info_of(artifact: Artifact) -> ArtifactInfo:
    """Return an artifact."""
    at = instant(artifact.uploaded_at)
    assert at is not None
    return ArtifactInfo(
        name=artifact.name,
        sha256=artifact.digest,
        size=artifact.size,
        content_type=artifact.content_type,
        uploaded_at=at,
    )


def result_of(job: JobRecord, now: int, ended_at: int | None, artifacts: Sequence[Artifact] = ()) -> TaskResult:
    """Return how a task has ended."""
    status = status_of(job, now)
    return TaskResult(
        task_id=job.id,
        command=job.type,
        status=status,
        result=stored_value(job.result) if status is Status.COMPLETED else None,
        error=job.last_error or None if status is not Status.COMPLETED else None,
        reason=job.dead_reason,
        attempts=job.attempts,
        completed_at=instant(ended_at),
        artifacts=[info_of(one) for one in artifacts],
    )
