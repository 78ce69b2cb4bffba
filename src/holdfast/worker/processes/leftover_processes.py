"""The processes that an attempt has started and left behind: they are ended with the attempt.

Runs in a child process, on Linux only. The child is a subreaper: a process whose parent has exited (a daemon) becomes a
child of this process, and is found too. Not ended are processes that a resource has started when it was made, and the
helper processes of ``multiprocessing``, which serve the whole process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import linux
from holdfast.clock import monotonic
from holdfast.worker.processes.process_tree import children_of, descendants_of, kill_tree

PR_SET_CHILD_SUBREAPER = 36  # of Linux
POLL_SECONDS = 0.005  # between two looks at processes that are to exit
KILL_SECONDS = 1.0  # for processes to exit after SIGKILL
MAX_ROUNDS = 3  # a process that ends may leave children behind, which are ended in the next round
MAX_NAMED = 5  # processes in a report


class LeftoverProcesses:
    """Finds and ends the processes that attempts leave behind. Safe to share between threads."""

    def __init__(self, *, term_seconds: float) -> None:
        """Become a subreaper. ``term_seconds`` is the time from SIGTERM to SIGKILL."""
        self._term_seconds = term_seconds
        self._kept: set[int] = set()  # process ids
        if linux.IS_LINUX:
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the processes that are started inside: they belong to a resource."""
        before = children_of(os.getpid())
        yield
        self._kept |= children_of(os.getpid()) - before

    def find(self, *, thread: int | None = None) -> set[int]:
        """Return the processes that are left behind: all, or those that one thread of this process has started.

        Costs a system call if this process has no children.
        """
        if not _has_children():
            return set()
        children = children_of(os.getpid(), thread=thread)
        if thread is None:
            self._kept &= children
        return {pid for pid in children - self._kept - _multiprocessing_helpers() if not _has_exited(pid)}

    def end(self, found: set[int], *, thread: int | None = None) -> str:
        """End the processes that ``find`` returned, with their descendants; return their names.

        They get SIGTERM, and SIGKILL if they do not exit in time. What does not even then exit is not ended again.
        """
        names = _describe(found)
        for number in range(MAX_ROUNDS):
            everything = found.union(*map(descendants_of, found))
            if number == 0:
                for pid in everything:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGTERM)
                everything = _wait(everything, self._term_seconds)
            for pid in everything:
                kill_tree(pid)
            self._kept |= _wait(everything, KILL_SECONDS)
            found = self.find(thread=thread)
            if not found:
                break
        return names


def _has_children() -> bool:
    if not linux.IS_LINUX:
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _has_exited(pid: int) -> bool:
    """Whether a process has exited; reaps it if it is a child of this process, so that no zombie is left."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # another thread has reaped it; or it is the child of another process
        return _state(pid) in ("", "Z")


def _state(pid: int) -> str:
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return ""


def _wait(pids: Collection[int], seconds: float) -> set[int]:
    """Wait until these processes have exited, at most ``seconds``; return those that have not."""
    deadline = monotonic() + seconds
    living = set(pids)
    while True:
        living = {pid for pid in living if not _has_exited(pid)}
        if not living or monotonic() >= deadline:
            return living
        time.sleep(POLL_SECONDS)


def _describe(pids: set[int]) -> str:
    names = []
    for pid in sorted(pids)[:MAX_NAMED]:
        name = "?"
        with contextlib.suppress(OSError):
            name = Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
        names.append(f"{name} ({pid})")
    more = f" and {len(pids) - MAX_NAMED} more" if len(pids) > MAX_NAMED else ""
    return f"{', '.join(names)}{more}"


def _multiprocessing_helpers() -> set[int | None]:
    """Return the processes that ``multiprocessing`` starts once, and uses until this process ends."""
    tracker = sys.modules.get("multiprocessing.resource_tracker")
    server = sys.modules.get("multiprocessing.forkserver")
    return {
        getattr(getattr(tracker, "_resource_tracker", None), "_pid", None),
        getattr(getattr(server, "_forkserver", None), "_forkserver_pid", None),
    }
