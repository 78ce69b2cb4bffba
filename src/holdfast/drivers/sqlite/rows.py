"""Conversions between rows of this driver's tables and values, built from the columns of a job."""

from __future__ import annotations

from operator import attrgetter

from holdfast.drivers.packing import (
    GAP_COLUMNS,
    SETTINGS_COLUMNS,
    Row,
    pack_meta,
)
from holdfast.drivers.statements import ENDED_ONLY
from holdfast.drivers.unreadable import make_job_reader
from holdfast.model.columns import JOB_COLUMNS, names_of
from holdfast.model.job import JobRecord, State
from holdfast.model.lease import Reservation, make_reservation
from holdfast.model.order import Lane

_LANE = tuple(name for name in Lane._fields if name != "isolated")
_STORED = tuple(name for name in names_of(JOB_COLUMNS) if name != "state" and name not in ENDED_ONLY)

_PACKED = ("meta", "payload")
INSERT_COLUMNS = (*_PACKED, "payload_seq", *(name for name in _STORED if name not in _PACKED))
"""The columns of a new job; those that are not simply a field of it come first."""

DUE_COLUMNS = tuple(name for name in _STORED if name not in _LANE)
"""The columns of a due job that ``reserve/due.sql`` reads; the lane is known."""

STORED_SETTINGS = (*SETTINGS_COLUMNS, *GAP_COLUMNS)

SEQ, ID, NOTED = 1, 2, -1  # positions in a row of ``reserve/due.sql``
PAYLOAD = 2 + DUE_COLUMNS.index("payload")
LIMIT_KEY = 2 + DUE_COLUMNS.index("limit_key")

_plain_fields = attrgetter(*INSERT_COLUMNS[3:])
_read_due = make_job_reader(
    ("_", "_", *DUE_COLUMNS, "_"),
    arguments=_LANE,
    constants={"state": State.INFLIGHT, **dict.fromkeys(ENDED_ONLY)},
)


def insert_row(job: JobRecord, space: str, now: int, payload_seq: int | None = None) -> Row:
    """Return the parameters of ``enqueue/insert.sql``. ``payload_seq`` names the row of a large payload."""
    return (
        space,
        1 if job.domain is None else 0,
        now if job.run_at is None else job.run_at,
        now,
        pack_meta(job.meta) if job.meta else None,
        job.payload if payload_seq is None else b"",
        payload_seq,
        *_plain_fields(job),
    )


def insert_leased_row(reservation: Reservation, space: str, now: int, worker: str, payload_seq: int | None) -> Row:
    """Return the parameters of ``enqueue/insert_leased.sql``."""
    lease, row = reservation.lease, insert_row(reservation.job, space, now, payload_seq)
    return lease.fence, lease.token, lease.expires_at, now, worker, *row


def read_reservation(
    lane: Lane, row: Row, *, token: str, fence: int, expires_at: int, checkpoint: bytes | None
) -> Reservation:
    """Return the job in a row of ``reserve/due.sql`` with its new lease; the row has the attempt counted.

    Raises ``UnreadableJob``.
    """
    queue, type_, priority, isolated = lane
    job = _read_due(row, queue, type_, priority)
    return make_reservation(job, token, fence, expires_at, checkpoint, isolated=isolated)
