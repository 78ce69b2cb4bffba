"""The pipe from a child process to the worker, as the child writes it: one whole frame behind the other.

Several threads of a handler may report at the same time, and a signal handler may raise in the middle of a report. A
part of a frame must not be left in the pipe: the worker would kill the child.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Sequence

from holdfast.worker.processes import protocol
from holdfast.worker.processes.protocol import ChildMessage

ATOMIC_BYTES = select.PIPE_BUF  # the kernel writes so many at once, or none


class ReportPipe:
    """The child's end of the pipe. Any thread may write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        # Reentrant: a signal handler of the user may report while the main thread does. It runs before or after the
        # frame of the main thread, never within it.
        self._lock = threading.RLock()

    def write(self, messages: Sequence[ChildMessage]) -> None:
        """Write messages as one frame, or nothing."""
        data = protocol.pack(messages)
        with self._lock:
            if len(data) <= ATOMIC_BYTES:
                os.write(self._descriptor, data)
            else:
                self._write_long(data)

    def _write_long(self, data: bytes) -> None:
        """Write a frame that the kernel may write in parts. Signals wait: their handler could raise in between."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
