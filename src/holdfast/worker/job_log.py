"""The job of the running attempt, for the log.

Its fields are on the records of ``ctx.log``; with the filter ``holdfast.observability.JobFields``, on every record that
a handler logs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

from holdfast.model.job import Job
from holdfast.wire.job_message import PayloadMessage

_worker_name = ""

JobInLog: TypeAlias = Job | PayloadMessage  # what the log shows of a job is in both

# The jobs that the running code works for: one, or all jobs of a chunk. Fields are made from them only for a record.
current_jobs: ContextVar[Sequence[JobInLog]] = ContextVar("holdfast_current_jobs", default=())


def set_worker_name(name: str) -> None:
    """Set the worker in whose name this process runs handlers."""
    global _worker_name  # noqa: PLW0603 - a process runs handlers for one worker
    _worker_name = name


def fields_of(job: JobInLog) -> dict[str, object]:
    """Return the fields of a record about this job."""
    return {
        "job_id": job.id,
        "type": job.type,
        "queue": job.queue,
        "attempt": job.attempt,
        "fence": job.fence,
        "worker": _worker_name,
    }


def current_fields() -> Mapping[str, object]:
    """Return the fields of a record of the running code; empty outside a handler.

    A chunk of several jobs has their type, their queue and their number.
    """
    jobs = current_jobs.get()
    if len(jobs) > 1:
        first = jobs[0]
        return {"type": first.type, "queue": first.queue, "jobs": len(jobs), "worker": _worker_name}
    return fields_of(jobs[0]) if jobs else {}


class JobLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose records carry the fields of one job. ``extra`` of a call adds fields, and replaces none."""

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        """Add the fields of the job to the ``extra`` of a call."""
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs


def logger_of(job: JobInLog) -> JobLogger:
    """Return the logger of one attempt."""
    return JobLogger(logging.getLogger(f"holdfast.job.{job.type}"), fields_of(job))
