"""The body of a callback: how a task has ended, from its ledger row."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.clock import to_datetime
from holdfast.model.job import JobRecord, State
from holdfast.model.ledger import LedgerRow
from holdfast.wire.stored_json import stored_value

MAX_RESULT_BYTES = 4 << 20  # a larger result is left out: the receiver can read it from the service
STATUSES = {State.DONE: "COMPLETED", State.DEAD: "FAILED", State.CANCELLED: "CANCELLED"}


def callback_body(row: LedgerRow, job: JobRecord, artifacts: Sequence[object] = ()) -> str:
    """Return the JSON text. The job may have been requeued since: only its webhook and result are read from it."""
    assert row.state is not None
    body: dict[str, object] = {
        "taskId": row.job_id,
        "command": row.type,
        "status": STATUSES[row.state],
        "result": stored_value(job.result) if row.state is State.DONE else None,
        "error": _error(row, job),
        "artifacts": artifacts,
        "attempts": row.attempt,
        "completedAt": to_datetime(row.ended_at),
    }
    if row.state is State.DONE and job.result is not None and len(job.result) > MAX_RESULT_BYTES:
        body |= {"result": None, "resultBytes": len(job.result)}
    return msgspec.json.encode(body).decode()


def _error(row: LedgerRow, job: JobRecord) -> str | None:
    if row.state is State.DONE:
        return None
    reason = job.dead_reason if row.state is job.state is State.DEAD else None
    return row.error or reason or row.detail or None
