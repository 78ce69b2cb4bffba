"""``ProcessHandle``: a process that may be the child of another one. It is killed and awaited without a mix-up.

A process id can come to mean another process as soon as the process was reaped. On Linux a process descriptor (pidfd)
names the same process forever. Elsewhere the process id is used.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal

from holdfast.clock import monotonic

_POLL_SECONDS = 0.005  # between two looks at a process without a process descriptor


def open_process(pid: int) -> int | None:
    """Return a process descriptor for a process that cannot have been reaped yet; None where there are none."""
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):
            return os.pidfd_open(pid)
    return None


class ProcessHandle:
    """One process. ``descriptor`` is a process descriptor, which the handle owns, or None."""

    def __init__(self, pid: int, descriptor: int | None) -> None:
        self.pid = pid
        self._descriptor = descriptor

    def kill(self) -> None:
        """Send SIGKILL, also to a process that is stopped. Nothing happens if it has exited."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._descriptor is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(self._descriptor, signal.SIGKILL)

    def wait(self, timeout: float) -> bool:
        """Wait until the process has exited, at most ``timeout`` seconds; reap it if it is a child of this process."""
        if self._descriptor is not None:
            poll = select.poll()
            poll.register(self._descriptor, select.POLLIN)
            has_exited = bool(poll.poll(timeout * 1000))
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
            return has_exited
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
        """Close the process descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
