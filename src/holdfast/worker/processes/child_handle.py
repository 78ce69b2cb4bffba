"""The worker's side of one child process: its connections, its buffers, and the runs that it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from holdfast.worker.processes import dispatch, protocol
from holdfast.worker.processes.forkserver import ChildStarted
from holdfast.worker.processes.protocol import ChildMessage, ProtocolError, WorkerMessage
from holdfast.worker.processes.running import Run

MAX_READS = 24  # of one event: more than a pipe holds, so that the rest of a child that has exited is read at once


@dataclass(slots=True, eq=False)
class ChildHandle:
    """One child process as the pool sees it."""

    connections: ChildStarted
    started_at: float  # monotonic seconds
    runs: dict[int, Run] = field(default_factory=dict)  # by ticket, as they were sent: they begin in this order
    finished: int = 0  # runs that ended in this child
    active_at: float = 0.0  # monotonic seconds: when it last got runs, began or returned one, or lost those that wait
    is_silent: bool = False  # it did not begin its runs in time, and gets no more until it sends a message
    stuck_after: float = dispatch.STUCK_SECONDS  # without a begin; longer after each time in vain: the machine is slow
    is_killed: bool = False  # by the pool, because one of its runs did not stop; it gets no more
    killed_at: float = 0.0  # monotonic seconds: when the pool last asked for that
    is_blocked: bool = False  # the child does not read: the pool waits until the work socket is writable
    reports_closed: bool = False  # nothing more is read from the child
    shortage: str = ""  # what the process has run out of: it exits after the runs that it has begun
    bad_report: str = ""  # why the child is killed: it sent bytes or a message that it must not send
    _next_ticket: int = 1
    _incoming: protocol.Unpacker[ChildMessage] = field(
        default_factory=partial(protocol.Unpacker, protocol.decode_child_messages)
    )
    _outgoing: bytearray = field(default_factory=bytearray)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.connections.pid

    def add_runs(self, runs: Sequence[Run], now: float) -> dict[int, Run]:
        """Issue tickets for runs that the child is about to get; return the runs that got one, by ticket."""
        count = self.connections.tickets.issue(range(self._next_ticket, self._next_ticket + len(runs)))
        added = dict(enumerate(runs[:count], self._next_ticket))
        self.runs.update(added)
        self._next_ticket += count
        self.active_at = now
        return added

    def withdraw(self, now: float) -> list[Run]:
        """Take back the runs that have not begun, except those whose ticket the child has: those may begin.

        Raises ``ProtocolError`` if a handler has read from the pipe of tickets.
        """
        self.active_at = now
        return [self.runs.pop(ticket) for ticket in self.connections.tickets.withdraw() if ticket in self.runs]

    def began_run(self, now: float) -> None:
        """Note that a run has begun: the child works."""
        self.active_at, self.stuck_after = now, dispatch.STUCK_SECONDS

    def is_stuck(self, now: float) -> bool:
        """Whether runs wait in the child, and it has not begun one for ``stuck_after`` seconds."""
        return now - self.active_at > self.stuck_after and dispatch.has_waiting(self.runs)

    def may_have_had(self, ticket: int) -> bool:
        """Whether a run that the child does not have may be one that has ended. If not, the child made it up."""
        return 0 < ticket < self._next_ticket

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
