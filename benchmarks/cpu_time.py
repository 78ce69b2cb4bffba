"""Processor time of processes. Unlike wall-clock time, it hardly depends on other load. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class _Process(NamedTuple):
    pid: int
    parent: int
    own: float
    reaped_children: float


def tree_seconds(root: int) -> float:
    """Seconds of a process and all its descendants, including reaped ones."""
    return own_seconds(root) + descendant_seconds(root)


def own_seconds(pid: int) -> float:
    """Seconds of a process without its descendants."""
    return _read(pid).own


def descendant_seconds(root: int) -> float:
    """Seconds of all descendants of a process, including reaped ones."""
    processes = {process.pid: process for process in _all_processes()}
    total = processes[root].reaped_children
    for process in processes.values():
        ancestor = process.parent
        while ancestor not in (root, 0) and ancestor in processes:
            ancestor = processes[ancestor].parent
        if ancestor == root:
            total += process.own + process.reaped_children
    return total


def _all_processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield _read(int(entry.name))
            except OSError:
                continue  # the process has exited meanwhile


def _read(pid: int) -> _Process:
    """See ``proc(5)``: the command name is in brackets and may contain any character."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    user, system, children_user, children_system = (int(field) / TICKS_PER_SECOND for field in fields[11:15])
    return _Process(pid, int(fields[1]), user + system, children_user + children_system)
