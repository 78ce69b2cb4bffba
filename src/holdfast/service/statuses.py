"""The words of this interface for the states of a job."""

from __future__ import annotations

from enum import StrEnum

from holdfast.model.job import JobRecord, State


class Status(StrEnum):
    """The status of a task. A delayed task is pending and not due yet."""

    PENDING = "PENDING"
    DELAYED = "DELAYED"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def has_ended(self) -> bool:
        """Whether the task is completed, failed or cancelled."""
        return self in _ENDED


_ENDED = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
OF_STATE = {
    State.READY: Status.PENDING,
    State.INFLIGHT: Status.IN_PROGRESS,
    State.DONE: Status.COMPLETED,
    State.DEAD: Status.FAILED,
    State.CANCELLED: Status.CANCELLED,
}
STATE_OF = {status: state for state, status in OF_STATE.items()} | {Status.DELAYED: State.READY}


def status_of(record: JobRecord, now: int) -> Status:
    """Return the status of a job. ``now`` only tells ``DELAYED`` from ``PENDING``, for people."""
    if record.state is State.READY and record.run_at is not None and record.run_at > now:
        return Status.DELAYED
    return OF_STATE[record.state]
