"""Jobs as rows: the fields of a record in order, without their names. A sixth of the bytes, in half of the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import msgspec

from holdfast.model.fast_construction import compile_packer, compile_reader
from holdfast.model.job import JobRecord
from holdfast.model.job_batch import JobBatch
from holdfast.model.lease import Lease, Reservation

_JOB_FIELDS: Sequence[str] = JobRecord.__slots__
_JOB_TYPES = get_type_hints(JobRecord)

if TYPE_CHECKING:
    JobRow = tuple[Any, ...]
else:  # the number and the type of the values are checked when a row is decoded
    JobRow = tuple.__class_getitem__(tuple(_JOB_TYPES[name] for name in _JOB_FIELDS))

pack_job: Callable[[JobRecord], JobRow] = compile_packer(_JOB_FIELDS)
read_job: Callable[[JobRow], JobRecord] = compile_reader(JobRecord, _JOB_FIELDS)


class ReservationRow(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A ``Reservation``."""

    job: JobRow
    lease: Lease
    checkpoint: bytes | None
    isolated: bool


def pack_reservations(reservations: Iterable[Reservation]) -> list[ReservationRow]:
    """Return reservations as rows."""
    return [ReservationRow(pack_job(one.job), one.lease, one.checkpoint, one.isolated) for one in reservations]


def read_reservations(rows: Iterable[ReservationRow]) -> list[Reservation]:
    """Return the reservations in rows."""
    return [
        Reservation(job=read_job(row.job), lease=row.lease, checkpoint=row.checkpoint, isolated=row.isolated)
        for row in rows
    ]


class JobBatchMessage(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A ``JobBatch``, by columns: a store works on whole columns, too, and leases only such batches quickly."""

    template: JobRow
    ids: list[str]
    payloads: list[bytes]
    keys: list[str | None] | None
    signatures: list[str | None] | None
    limit_keys: list[str | None] | None


JobsMessage: TypeAlias = list[JobRow] | JobBatchMessage


def pack_jobs(jobs: Sequence[JobRecord]) -> JobsMessage:
    """Return new jobs as a message."""
    if not isinstance(jobs, JobBatch):
        return [pack_job(job) for job in jobs]
    return JobBatchMessage(
        template=pack_job(jobs.template),
        ids=list(jobs.ids),
        payloads=list(jobs.payloads),
        keys=None if jobs.keys is None else list(jobs.keys),
        signatures=None if jobs.signatures is None else list(jobs.signatures),
        limit_keys=None if jobs.limit_keys is None else list(jobs.limit_keys),
    )


def read_jobs(message: JobsMessage) -> Sequence[JobRecord]:
    """Return the jobs in a message. Raises ``InvalidInput`` for columns of different lengths."""
    if not isinstance(message, JobBatchMessage):
        return [read_job(row) for row in message]
    return JobBatch(
        read_job(message.template),
        message.ids,
        message.payloads,
        message.keys,
        message.signatures,
        limit_keys=message.limit_keys,
    )


def names_of_jobs(message: JobsMessage, field: str) -> set[str]:
    """Return the values of a field that is a name, such as ``queue``, of all jobs of a message."""
    place = _JOB_FIELDS.index(field)
    rows = [message.template] if isinstance(message, JobBatchMessage) else message
    return {row[place] for row in rows}
