"""One attempt on its way: what the threads of a worker hand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.model.lease import Note, Reservation


@dataclass(slots=True, eq=False)
class Run:
    """One attempt, from the moment it is handed over."""

    number: int
    reservation: Reservation
    timeout: int | None = None
    cpu: int | None = None  # processor time that it may use
    chunk: int = 1  # how many of its type may share a call with it, itself among them
    started_at: int | None = None  # by the child's wall clock: for the ledger
    note: Note | None = None  # what the handler left since the last heartbeat
    why: str | None = None  # it was asked to stop
    began: float | None = None
    cpu_before: float = 0.0  # seconds that its process had used when it began
    kill_at: float | None = None
    handed: float = 0.0  # when it was handed over

    def keep(self, progress: bytes | None, checkpoint: bytes | None) -> None:
        """What the handler leaves, beside what it left before and no heartbeat has carried yet."""
        old = self.note or Note()
        self.note = Note(progress=progress or old.progress, checkpoint=checkpoint or old.checkpoint)
