"""The floor of free disk space: below it enqueue is refused, so that settlements still fit."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.clock import monotonic
from holdfast.errors import StoreFull

MAX_UNCHECKED_SECONDS = 0.1  # between two readings: other programs write to the disk, too
MAX_UNCHECKED_BYTES = 4 << 20  # that enqueue writes between two readings
COMMIT_BYTES = 16 << 10  # of a commit with one job, beside its payload: four pages of the write-ahead log


class FreeSpace:
    """Reads the free space of the disk that has a folder.

    A reading costs as much as all other checks of an enqueue, so that single jobs share readings. Safe to share between
    threads: two that read at the same time read once too often.
    """

    __slots__ = ("_folder", "_least", "_next_reading_at", "_unchecked_bytes")

    def __init__(self, folder: Path, *, least: int) -> None:
        """``least``: the bytes that must be free."""
        self._folder = str(folder)
        self._least = least
        self._next_reading_at = 0.0
        self._unchecked_bytes = 0

    def check(self) -> None:
        """Raise ``StoreFull`` while the disk is nearly full."""
        try:
            disk = os.statvfs(self._folder)
        except FileNotFoundError:  # the write itself says that the file has gone
            return
        free = disk.f_bavail * disk.f_frsize
        if free < self._least:
            raise StoreFull(free=free, floor=self._least)
        self._next_reading_at = monotonic() + MAX_UNCHECKED_SECONDS
        self._unchecked_bytes = 0

    def check_for_one(self, payload_bytes: int) -> None:
        """Do the same before the enqueue of one job; the last reading counts for a short time and for few bytes."""
        self._unchecked_bytes += COMMIT_BYTES + payload_bytes
        if self._unchecked_bytes > MAX_UNCHECKED_BYTES or monotonic() >= self._next_reading_at:
            self.check()
