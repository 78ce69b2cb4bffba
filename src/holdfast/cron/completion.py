"""``Completion``: what the completion hook of a schedule gets when the job of a fire has ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdfast.cron.fire import fire_text
from holdfast.cron.reports import fire_instant
from holdfast.cron.schedule import Schedule
from holdfast.model.job import JobRecord, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The end of the job of a fire: done, dead or cancelled. ``reason`` and ``error`` say why it is dead."""

    schedule: str
    fire: datetime  # in the time zone of the schedule
    job_id: str
    state: State
    attempts: int
    reason: str | None = None
    error: str = ""


def completion_of(schedule: Schedule, fire: int, job: JobRecord) -> Completion:
    """Return what the hook of a schedule gets."""
    return Completion(
        schedule=schedule.name,
        fire=fire_instant(schedule, fire),
        job_id=job.id,
        state=job.state,
        attempts=job.attempts,
        reason=job.dead_reason,
        error=job.last_error,
    )


def follow_up_payload(schedule: Schedule, fire: int, job: JobRecord) -> dict[str, object]:
    """Return the same as the payload of the job that ``on_complete`` names."""
    return {
        "schedule": schedule.name,
        "fire": fire_text(fire),
        "job_id": job.id,
        "state": str(job.state),
        "attempts": job.attempts,
        "reason": job.dead_reason,
        "error": job.last_error,
    }
