"""``Run``: one attempt in progress, shared by the threads of a worker."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from holdfast.clock import SECOND
from holdfast.model.lease import Note, Reservation
from holdfast.worker.context import LEASE_LOST
from holdfast.worker.outcome import Cancelled, Interrupted, Outcome, OutOfCpu, TimedOut
from holdfast.worker.output import Output

LEASE_MARGIN = 0.2  # of the lease time: so long before its lease can end, an attempt is interrupted
LEASE_KILL_MARGIN = 0.1  # of the lease time: so long before its lease can end, its process is killed


class StopReason(StrEnum):
    """Why a running attempt is interrupted."""

    TIMEOUT = "timeout"
    CPU = "cpu"
    SHUTDOWN = "shutdown"
    CANCEL = "cancel"
    LOST = LEASE_LOST


ExitReason: TypeAlias = Literal["recycled", "damaged", "killed", "crashed"]


class ExitedChild(NamedTuple):
    """A child process that has exited and will be replaced.

    It was *recycled* after so many jobs, *damaged* because it had run out of something (``shortage``), *killed* because
    a run in it did not stop, or it *crashed*.
    """

    pid: int
    code: int  # as in ``subprocess``: a negative number is a signal
    reason: ExitReason
    finished: int  # runs that ended in it
    shortage: str = ""  # what it had run out of


@dataclass(eq=False)
class Run:
    """One attempt, from its reservation to its end. Hashed by identity; a field at its default takes no memory."""

    number: int  # unique in this worker: names the run in the messages between worker and child
    reservation: Reservation
    timeout: int | None = field(default=None, init=False)  # microseconds
    cpu_limit: int | None = field(default=None, init=False)  # microseconds of processor time
    chunk: int = field(default=1, init=False)  # how many jobs of its type, this one included, may share one call
    alone: bool = field(default=False, init=False)  # no other run is in its child at the same time
    is_start_known: bool = field(default=False, init=False)  # to the store: a last attempt does not begin before
    submitted_at: float = field(default=0.0, init=False)  # monotonic seconds: when the pool got the run
    asked_at: float | None = field(default=None, init=False)  # monotonic seconds: when a last attempt could begin
    began_at: float | None = field(default=None, init=False)  # monotonic seconds: when the pool saw the handler begin
    started_at: int | None = field(default=None, init=False)  # the child's wall clock, for the ledger
    seconds: float | None = field(default=None, init=False)  # how long the handler ran; None if it did not begin
    cpu_seconds_before: float = field(default=0.0, init=False)  # processor time of the child when the handler began
    note: Note | None = field(default=None, init=False)  # progress and checkpoint that no heartbeat has sent yet
    output: Output | None = field(default=None, init=False)  # of a handler with ``capture_output``
    reruns: int = field(default=0, init=False)  # because its child had run out of something before the run began
    damaged_at: float = field(default=-math.inf, init=False)  # monotonic seconds: it needs a child that started later
    stop_reason: StopReason | None = field(default=None, init=False)  # set once a stop was requested
    kill_at: float | None = field(default=None, init=False)  # monotonic seconds: when its child is killed
    lease_deadline: float = field(default=math.inf, init=False)  # by ``boot_time``: when the attempt is interrupted
    lease_kill_at: float = field(default=math.inf, init=False)  # by ``boot_time``: when its child is killed

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job has no attempt left after this one."""
        job = self.reservation.job
        return job.attempts >= job.max_attempts

    def set_lease(self, granted_after: float, lease_seconds: float) -> None:
        """Move the deadlines. The lease was granted or extended by a call that began at ``granted_after``.

        The store counts the lease from an instant inside that call, so the lease cannot end before these deadlines.
        The answer to an earlier call, which comes after that to a later one, moves nothing back.
        """
        deadline = granted_after + (1 - LEASE_MARGIN) * lease_seconds
        if self.lease_deadline < deadline or self.lease_deadline == math.inf:
            self.lease_deadline = deadline
            self.lease_kill_at = granted_after + (1 - LEASE_KILL_MARGIN) * lease_seconds

    def begin_again(self, now: float) -> None:
        """Forget that the run began: its child was damaged, and it runs in another one, which started after ``now``."""
        self.reruns += 1
        self.damaged_at = self.submitted_at = now
        self.began_at = self.started_at = self.seconds = self.output = None
        self.alone = True

    def add_note(self, progress: bytes | None, checkpoint: bytes | None) -> None:
        """Keep progress or a checkpoint for the next heartbeat; the newest of each wins."""
        old = self.note or Note()
        self.note = Note(progress=progress or old.progress, checkpoint=checkpoint or old.checkpoint)

    def set_output(self, output: Output) -> None:
        """Keep what the handler printed."""
        self.output = output

    def deadline(self) -> float | None:
        """When the attempt times out, in monotonic seconds; None if it has no timeout, or was asked to stop."""
        if self.timeout is None or self.began_at is None or self.stop_reason is not None:
            return None
        return self.began_at + self.timeout / SECOND

    def has_cpu_limit(self) -> bool:
        """Whether the processor time of this attempt is to be watched now."""
        return self.cpu_limit is not None and self.began_at is not None and self.stop_reason is None

    def cpu_seconds_left(self, cpu_seconds_now: float) -> float:
        """Seconds of processor time that are left, from the processor time that its child has used so far."""
        return (self.cpu_limit or 0) / SECOND - (cpu_seconds_now - self.cpu_seconds_before)

    def outcome_when_stopped(self, reason: str | None) -> Outcome:
        """Return the outcome of this run if it was stopped for ``reason``, a ``StopReason`` or an empty text."""
        match reason:
            case StopReason.TIMEOUT:
                return TimedOut(after=self.timeout or 0)
            case StopReason.CPU:
                return OutOfCpu(limit=self.cpu_limit or 0)
            case StopReason.CANCEL:
                return Cancelled()
            case StopReason.LOST | StopReason.SHUTDOWN:
                return Interrupted(reason=reason)
            case _:
                return Interrupted()
