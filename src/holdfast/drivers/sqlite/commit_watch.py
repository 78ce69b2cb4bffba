"""Hearing of commits by other processes: on Linux the kernel tells when the write-ahead log is written to.

A hint, and an early one: the commit shows only once its pages are on disk, so after a sound there are quick looks.
Where there is no such kernel, or it has no watch left to give, looking every few milliseconds takes its place.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import time
import weakref
from pathlib import Path
from typing import Protocol

from holdfast.clock import monotonic

LOOK_EVERY = 0.002  # seconds between two looks for commits of other processes; a look takes a few microseconds
SURE = 0.050  # seconds after which one who hears nothing looks all the same
AT_ONCE, QUICK = 0.005, 0.000_3  # for so long after a sound the looks are this close
SOON = 1.0  # seconds after a sound in which there are looks at the usual pace

IN_MODIFY = 0x2


class Ear(Protocol):
    """What a thread waits with for commits of others."""

    def listen(self, timeout: float) -> None:
        """Until there may be one, or for a while that is shorter than ``timeout``."""


class DeafEar:
    """Hears nothing, and looks often."""

    def listen(self, timeout: float) -> None:
        """See ``Ear``."""
        time.sleep(min(timeout, LOOK_EVERY))


class KernelEar:
    """Told by inotify. For one thread; closed when it is forgotten."""

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
        self._heard = -SOON

    def listen(self, timeout: float) -> None:
        """See ``Ear``."""
        since = monotonic() - self._heard
        if since < AT_ONCE:
            time.sleep(min(timeout, QUICK))
        elif self._poll.poll(min(timeout, LOOK_EVERY if since < SOON else SURE) * 1000):
            os.read(self._descriptor, 1 << 16)
            self._heard = monotonic()


def ear_for(log: Path) -> Ear:
    """The best ear for this write-ahead log, which must be there."""
    if sys.platform == "linux":
        try:
            return KernelEar(log)
        except (OSError, AttributeError):
            pass
    return DeafEar()
