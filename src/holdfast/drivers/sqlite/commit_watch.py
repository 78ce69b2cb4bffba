"""Waiting for commits of other processes: on Linux, inotify reports each write to the write-ahead log.

A report is an early hint: the commit is visible only once its pages are written, so the caller polls for a short time
after each report. Without inotify, or if the kernel has no watch left, the caller polls every few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
import weakref
from pathlib import Path
from typing import Protocol

from holdfast import linux
from holdfast.clock import monotonic

POLL_SECONDS = 0.002  # between two polls for a commit; one poll takes a few microseconds
IDLE_POLL_SECONDS = 0.050  # the same while inotify reports nothing
BURST_SECONDS, BURST_POLL_SECONDS = 0.005, 0.000_3  # for BURST_SECONDS after a report, a poll every BURST_POLL_SECONDS
ACTIVE_SECONDS = 1.0  # for this long after a report, a poll every POLL_SECONDS

IN_MODIFY = 0x2
READ_BYTES = 1 << 16  # enough for all events that are waiting


class CommitWatch(Protocol):
    """How one thread waits for commits of other processes."""

    def wait(self, timeout: float) -> None:
        """Block until there may be a commit, at most ``timeout`` seconds."""


class PollingWatch:
    """Returns after a short, fixed time."""

    def wait(self, timeout: float) -> None:
        """Sleep for a short, fixed time, at most ``timeout`` seconds."""
        time.sleep(min(timeout, POLL_SECONDS))


class InotifyWatch:
    """Returns when inotify reports a write to the log. For one thread; closed when it is garbage-collected."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "no inotify")
        weakref.finalize(self, os.close, descriptor)
        if libc.inotify_add_watch(descriptor, os.fsencode(path), IN_MODIFY) < 0:
            raise OSError(ctypes.get_errno(), "no watch", str(path))
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._reported_at = -ACTIVE_SECONDS

    def wait(self, timeout: float) -> None:
        """Block until the log was written, at most a short time that depends on when it last was."""
        since = monotonic() - self._reported_at
        if since < BURST_SECONDS:
            time.sleep(min(timeout, BURST_POLL_SECONDS))
        elif self._poll.poll(min(timeout, POLL_SECONDS if since < ACTIVE_SECONDS else IDLE_POLL_SECONDS) * 1000):
            os.read(self._descriptor, READ_BYTES)
            self._reported_at = monotonic()


def watch_commits(log: Path) -> CommitWatch:
    """Return the best watch for this write-ahead log, which must exist."""
    if linux.IS_LINUX:
        try:
            return InotifyWatch(log)
        except (OSError, AttributeError):
            pass
    return PollingWatch()
