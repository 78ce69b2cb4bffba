"""Whether a process has run out of file descriptors, memory or threads.

Such a process is damaged: attempts fail in it that would succeed in another one. What it has run out of ends with the
process, so a new child has it again. A full disk does not end: an attempt that fails because of one has failed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

MAX_OPEN_SHARE = 0.8  # of the file descriptors that a process may have: with more open ones it is damaged
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
NO_THREAD = "can't start new thread"  # what ``threading`` says; there is no exception for it


class OpenFiles:
    """Whether this process has used up most of its file descriptors. One that was born so is not damaged."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` is one that stays open."""
        self._descriptor = descriptor
        limit = os.sysconf("SC_OPEN_MAX")  # -1: none
        self._limit = limit if 0 <= self._lowest_free() < MAX_OPEN_SHARE * limit else None

    def shortage(self) -> str:
        """Return what is short; an empty text if nothing is. Costs two system calls."""
        if self._limit is None:
            return ""
        free = self._lowest_free()
        if 0 <= free < MAX_OPEN_SHARE * self._limit:
            return ""
        return f"{self._limit if free < 0 else free} of {self._limit} file descriptors are open"

    def _lowest_free(self) -> int:
        """Return the lowest number that no open file has; -1 if there is none. The numbers below it are open files."""
        try:
            free = os.dup(self._descriptor)
        except OSError as error:
            return -1 if error.errno in OUT_OF_DESCRIPTORS else 0
        os.close(free)
        return free


def shortage_of(errors: Iterable[BaseException]) -> str:
    """Return what the process had run out of, if one of these exceptions says so; else an empty text."""
    for error in errors:
        match error:
            case MemoryError() | OSError(errno=errno.ENOMEM):
                return "out of memory"
            case OSError(errno=number) if number in OUT_OF_DESCRIPTORS:
                return os.strerror(number)
            case RuntimeError(args=(text,)) if text == NO_THREAD:
                return NO_THREAD
    return ""
