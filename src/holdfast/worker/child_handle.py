"""The worker's side of one child process: its connections, its buffers, and the runs that it has."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.worker import protocol
from holdfast.worker.forkserver import ChildStarted
from holdfast.worker.protocol import Message
from holdfast.worker.running import Run


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
    reports_closed: bool = False
    _incoming: protocol.Unpacker = field(default_factory=protocol.Unpacker)
    _outgoing: bytearray = field(default_factory=bytearray)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.connections.pid

    def queue(self, messages: Sequence[Message]) -> None:
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

    def send_interrupt(self, message: Message) -> None:
        """Send a message on the interrupt socket. A child that reads no interrupts may lose it, and is killed later."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            self.connections.interrupts.send(protocol.pack([message]))

    def read(self) -> Iterator[list[Message]]:
        """Yield the messages that have arrived, without blocking. Sets ``reports_closed`` at the end of the pipe."""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.connections.reports, protocol.READ_BYTES):
                yield self._incoming.feed(data)
            self.reports_closed = True

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()
