"""One attempt on its way: what the threads of a worker hand to each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.model.lease import Note, Reservation


@dataclass(eq=False)
class Run:
    """One attempt, from the moment it is handed over. What most never need costs nothing until it is set."""

    number: int
    reservation: Reservation
    timeout: int | None = field(default=None, init=False)
    cpu: int | None = field(default=None, init=False)  # processor time that it may use
    chunk: int = field(default=1, init=False)  # how many of its type may share a call with it, itself among them
    alone: bool = field(default=False, init=False)  # shares its child with nobody
    started_at: int | None = field(default=None, init=False)  # by the child's wall clock: for the ledger
    note: Note | None = field(default=None, init=False)  # what the handler left since the last heartbeat
    why: str | None = field(default=None, init=False)  # it was asked to stop
    began: float | None = field(default=None, init=False)
    cpu_before: float = field(default=0.0, init=False)  # seconds that its process had used when it began
    kill_at: float | None = field(default=None, init=False)
    handed: float = field(default=0.0, init=False)  # when it was handed over

    def keep(self, progress: bytes | None, checkpoint: bytes | None) -> None:
        """What the handler leaves, beside what it left before and no heartbeat has carried yet."""
        old = self.note or Note()
        self.note = Note(progress=progress or old.progress, checkpoint=checkpoint or old.checkpoint)
