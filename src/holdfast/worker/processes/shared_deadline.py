"""``SharedDeadline``: an instant that the worker writes and its children read, in memory that they share.

The children see it also while the worker is stopped, and cannot send messages.
"""

from __future__ import annotations

import math
import mmap


class SharedDeadline:
    """Until when all leases are valid that a worker holds, by ``boot_time``. Create it before the children."""

    def __init__(self) -> None:
        # Eight aligned bytes: they are written and read at once. Children inherit the memory by fork.
        self._word = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")
        self.set(-math.inf)

    def set(self, deadline: float) -> None:
        """Publish the deadline."""
        self._word[0] = deadline

    def get(self) -> float:
        """Return the deadline that was published last."""
        return self._word[0]
