"""New jobs as a message: a list of records, or a batch by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch


class JobBatchMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A ``JobBatch``, by columns: a store works on whole columns, too, and leases only such batches quickly."""

    template: JobRecord
    ids: list[str]
    payloads: list[bytes]
    keys: list[str | None] | None
    signatures: list[str | None] | None
    limit_keys: list[str | None] | None


JobsMessage: TypeAlias = list[JobRecord] | JobBatchMessage


def pack_jobs(jobs: Sequence[JobRecord]) -> JobsMessage:
    """Return new jobs as a message."""
    if not isinstance(jobs, JobBatch):
        return list(jobs)
    return JobBatchMessage(
        template=jobs.template,
        ids=list(jobs.ids),
        payloads=list(jobs.payloads),
        keys=None if jobs.keys is None else list(jobs.keys),
        signatures=None if jobs.signatures is None else list(jobs.signatures),
        limit_keys=None if jobs.limit_keys is None else list(jobs.limit_keys),
    )


def read_jobs(message: JobsMessage) -> Sequence[JobRecord]:
    """Return the jobs in a message. Raises ``InvalidInput`` for columns of different lengths."""
    if not isinstance(message, JobBatchMessage):
        return message
    return JobBatch(
        message.template,
        message.ids,
        message.payloads,
        message.keys,
        message.signatures,
        limit_keys=message.limit_keys,
    )


def names_of_jobs(message: JobsMessage, field: str) -> set[str]:
    """Return the values of a field that is a name, such as ``queue``, of all jobs of a message."""
    jobs = [message.template] if isinstance(message, JobBatchMessage) else message
    return {getattr(job, field) for job in jobs}
