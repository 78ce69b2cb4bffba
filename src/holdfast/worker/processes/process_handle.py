"""``ProcessHandle``: a process that may be the child of another one. It is killed and awaited without a mix-up.

A process id can come to mean another process as soon as the process was reaped. On Linux a process descriptor (pidfd)
names the same process forever. Elsewhere the process id is used.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from holdfast import linux
from holdfast.clock import monotonic

_POLL_SECONDS = 0.005  # between two looks at a process without a process descriptor


def open_process(pid: int) -> int | None:
    """Return a process descriptor for a process that cannot have been reaped yet; None where there are none."""
    if linux.IS_LINUX:
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


class ProcessHandle:
    """One process. ``descriptor`` is a process descriptor, which the handle owns, or None."""

    def __init__(self, pid: int, descriptor: int | None) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._has_exited = False  # as far as is known: its id may be another process's by now

    def kill(self) -> None:
        """Send SIGKILL, also to a process that is stopped. Nothing happens if it has exited."""
        if self._has_exited:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._descriptor is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """Send a signal by the process descriptor. Nothing without one: the id may be another process's by now."""
        if self._descriptor is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has exited, at most ``timeout`` seconds; reap it if it is a child of this process."""
        if not self._has_exited:
            descriptor = self._descriptor
            self._has_exited = self._wait_by_id(timeout) if descriptor is None else self._wait(descriptor, timeout)
        return self._has_exited

    def _wait(self, descriptor: int, timeout: float) -> bool:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(timeout * 1000):
            return False
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, os.WNOHANG)
        return True

    def _wait_by_id(self, timeout: float) -> bool:
        deadline = monotonic() + timeout
        while self._is_alive():
            if monotonic() >= deadline:
                return False
            select.select([], [], [], _POLL_SECONDS)
        return True

    def _is_alive(self) -> bool:
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:  # the child of another process
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 0)
                return True
            return False

    def close(self) -> None:
        """Close the process descriptor. Later calls of the other methods do nothing."""
        self._has_exited = True
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
