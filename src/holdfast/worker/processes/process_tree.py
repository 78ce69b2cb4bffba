"""Kill a process with all its descendants, also those that have left its process group and its session."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from holdfast import linux

MAX_ROUNDS = 100  # of looking for descendants: a process that is not stopped yet may fork again


def kill_tree(pid: int) -> None:
    """Kill a child of this process that was not reaped yet, its process group, and all its descendants.

    Each process is stopped before its children are listed: a stopped process cannot fork. A descendant whose parent has
    exited is found by its process group only; one that has left the group as well is not found (a daemon).
    Descendants are listed on Linux only.
    """
    _signal(pid, signal.SIGSTOP)
    stopped: set[int] = set()
    for _ in range(MAX_ROUNDS):
        found = descendants_of(pid) - stopped
        if not found:
            break
        for one in found:
            _signal(one, signal.SIGSTOP)
        stopped |= found
    kill_group(pid)
    for one in (pid, *stopped):
        _signal(one, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """Kill the process group of a child of this process that was not reaped yet."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # everything has left the group; or only zombies
        os.killpg(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def descendants_of(pid: int) -> set[int]:
    """Return the children of a process, their children, and so on. Linux only; empty elsewhere."""
    found: set[int] = set()
    unseen = [pid]
    while unseen:
        children = children_of(unseen.pop()) - found
        found |= children
        unseen += children
    return found


def children_of(pid: int, *, thread: int | None = None) -> set[int]:
    """Return the children of a process, or of one of its threads. Linux only; empty elsewhere."""
    children: set[int] = set()
    if not linux.IS_LINUX:
        return children
    with contextlib.suppress(OSError):  # it has exited, or the system has no such files
        tasks = Path(f"/proc/{pid}/task")
        for one in tasks.iterdir() if thread is None else [tasks / str(thread)]:
            children.update(map(int, (one / "children").read_text().split()))
    return children
