"""The worker's side of one child process: its connections, its buffers, and the runs that it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from holdfast.worker.processes import protocol
from holdfast.worker.processes.forkserver import ChildStarted
from holdfast.worker.processes.protocol import ChildMessage, ProtocolError, WorkerMessage
from holdfast.worker.processes.running import Run

MAX_READS = 24  # of one event: more than a pipe holds, so that the rest of a child that has exited is read at once


@dataclass(slots=True, eq=False)
class ChildHandle:
    """One child process as the pool sees it."""

    connections: ChildStarted
    started_at: float  # monotonic seconds
    runs: dict[int, Run] = field(default_factory=dict)  # in the order in which they were sent: they begin in this order
    finished: int = 0  # runs that ended in this child
    recalled_at: float = 0.0  # monotonic seconds: when the child was last asked to return its queued runs
    is_killed: bool = False  # by the pool, because one of its runs did not stop
    killed_at: float = 0.0  # monotonic seconds: when the pool last asked for that
    is_blocked: bool = False  # the child does not read: the pool waits until the work socket is writable
    reports_closed: bool = False  # nothing more is read from the child
    bad_report: str = ""  # why the child is killed: it sent bytes or a message that it must not send
    _highest_run: int = -1  # the highest number of a run that it ever had
    _incoming: protocol.Unpacker[ChildMessage] = field(
        default_factory=partial(protocol.Unpacker, protocol.decode_child_messages)
    )
    _outgoing: bytearray = field(default_factory=bytearray)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.connections.pid

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Keep the runs that the child is about to get."""
        self.runs.update({run.number: run for run in runs})
        self._highest_run = max(self._highest_run, *(run.number for run in runs))

    def may_have_had(self, number: int) -> bool:
        """Whether a run that the child does not have may be one that has ended. If not, the child made it up."""
        return 0 <= number <= self._highest_run

    def queue(self, messages: Sequence[WorkerMessage]) -> None:
        """Add messages to the output buffer. ``flush`` sends them."""
        self._outgoing += protocol.pack(messages)

    def flush(self) -> bool:
        """Send as much as the child accepts now, without blocking. Return whether the output buffer is empty."""
        try:
            while self._outgoing:
                sent = self.connections.work.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):  # it has exited: another child gets what it has not begun
            self._outgoing.clear()
        return not self._outgoing

    def send_interrupt(self, message: WorkerMessage) -> None:
        """Send a message on the interrupt socket. A child that reads no interrupts may lose it, and is killed later."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self.connections.interrupts.send(protocol.pack([message]))

    def read(self) -> Iterator[list[ChildMessage]]:
        """Yield messages that have arrived, without blocking. Sets ``reports_closed`` at the end of the pipe.

        Raises ``ProtocolError`` for bytes that cannot be read, after the messages before them. A child that sends
        without end is not read without end: the next event goes on.
        """
        with contextlib.suppress(BlockingIOError):
            for _ in range(0 if self.reports_closed else MAX_READS):
                data = os.read(self.connections.reports, protocol.READ_BYTES)
                if not data:
                    self.reports_closed = True
                    return
                yield self._incoming.feed(data)
                if self._incoming.error is not None:
                    raise self._incoming.error

    def stop_reading(self, error: ProtocolError) -> None:
        """Read no more: the child sent what it must not send, and is to be killed."""
        self.reports_closed = True
        self.bad_report = str(error)

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()
