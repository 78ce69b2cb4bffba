"""The outcome rows of ``run_queue``: one row for each attempt. Runs on executors, once for each batch of attempts.

``ending`` is the word that the worker, the bar and the report have: a last attempt that fails is ``dead``, although the
ledger has it as ``retried`` or ``failed``. ``dead`` includes what the worker counts as ``rejected``.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holdfast.model.job import State
from holdfast.model.ledger import LedgerRow
from holdfast.model.settlement import Fail, Retry
from holdfast.spark.column_schemas import ddl, ledger_fields
from holdfast.worker.decide import SKIPPED
from holdfast.worker.status import Settled

SCHEMA = pa.schema(
    [
        *ledger_fields("job_id", "type", "queue", "attempt", "fence", nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("executor", pa.string(), nullable=False),
        *ledger_fields("reserved_at", "started_at"),
        *ledger_fields("ended_at", "ending", nullable=False),
        *ledger_fields("state"),
        pa.field("error_class", pa.string()),
        *ledger_fields("error"),
    ]
)
DDL = ddl(SCHEMA)
STATES = {  # by ending: the state of the job after it
    "acked": State.DONE,
    "skipped": State.DONE,
    "retried": State.READY,
    "released": State.READY,
    "dead": State.DEAD,
    "cancelled": State.CANCELLED,
    "lost": None,  # the store refused the settlement: the lease had ended before; the ledger has its real ending
}


def from_settled(
    settled: Sequence[Settled], ended_at: Sequence[int], *, slot: int, executor: str, lease_for: int
) -> pa.RecordBatch:
    """Return the outcomes of attempts that this slot settled.

    ``reserved_at`` is an instant of the store's clock: the end of the lease minus its length.
    """
    reservations = [each.run.reservation for each in settled]
    jobs = [reservation.job for reservation in reservations]
    leases = [reservation.lease for reservation in reservations]
    endings = ["dead" if each.status == "rejected" else each.status for each in settled]
    return _batch(
        slot=[slot] * len(settled),
        job_id=[job.id for job in jobs],
        type=[job.type for job in jobs],
        queue=[job.queue for job in jobs],
        attempt=[job.attempts for job in jobs],
        fence=[lease.fence for lease in leases],
        executor=[executor] * len(settled),
        reserved_at=[lease.expires_at - lease_for for lease in leases],
        started_at=[each.run.started_at for each in settled],
        ended_at=ended_at,
        ending=endings,
        state=[STATES[ending] for ending in endings],
        error_class=[_error_class(each) for each in settled],
        error=[_error(each) for each in settled],
    )


def _error_class(settled: Settled) -> str | None:
    if settled.refused is not None:
        return type(settled.refused).__name__
    match settled.settlement:
        case Retry() as retry:
            return retry.detail or None
        case Fail() as fail:
            return fail.reason
        case _:
            return None


def _error(settled: Settled) -> str | None:
    if settled.refused is not None:
        return str(settled.refused)
    match settled.settlement:
        case Retry() | Fail() as settlement:
            return settlement.error or None
        case _:
            return None


def from_ledger(rows: Sequence[LedgerRow]) -> pa.RecordBatch:
    """Return the outcomes in these ledger rows. The worker's name, ``run/stage/slot/try``, contains the slot."""
    return _batch(
        slot=[int(row.worker.split("/")[-2]) for row in rows],
        job_id=[row.job_id for row in rows],
        type=[row.type for row in rows],
        queue=[row.queue for row in rows],
        attempt=[row.attempt for row in rows],
        fence=[row.fence or 0 for row in rows],
        executor=[row.worker for row in rows],
        reserved_at=[row.reserved_at for row in rows],
        started_at=[row.started_at for row in rows],
        ended_at=[row.ended_at for row in rows],
        ending=[_ending(row) for row in rows],
        state=[row.state for row in rows],
        error_class=[row.detail or None for row in rows],
        error=[row.error or None for row in rows],
    )


def _ending(row: LedgerRow) -> str:
    if row.detail.startswith(SKIPPED):
        return "skipped"
    return "dead" if row.state is State.DEAD else row.ending


def _batch(**columns: Sequence[object]) -> pa.RecordBatch:
    """Column by column: one Python object for each row would double the cost of reporting."""
    arrays = [pa.array(columns[field.name], type=field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
