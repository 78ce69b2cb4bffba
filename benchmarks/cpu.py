"""Processor time of processes: unlike the clock on the wall, a busy machine changes it little. Linux only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TICK = os.sysconf("SC_CLK_TCK")


class _Process(NamedTuple):
    pid: int
    parent: int
    own: float
    of_the_dead: float  # children that it has waited for


def spent(root: int) -> float:
    """Seconds that a process and all below it have used, those included that are no more and were waited for."""
    return own(root) + below(root)


def own(pid: int) -> float:
    """Seconds that a process itself has used."""
    return _read(pid).own


def below(root: int) -> float:
    """Seconds that everything below a process has used."""
    processes = {process.pid: process for process in _all()}
    total = processes[root].of_the_dead
    for process in processes.values():
        above = process.parent
        while above not in (root, 0) and above in processes:
            above = processes[above].parent
        if above == root:
            total += process.own + process.of_the_dead
    return total


def _all() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield _read(int(entry.name))
            except OSError:
                continue  # gone meanwhile


def _read(pid: int) -> _Process:
    """By ``proc(5)``: the name stands in brackets and may hold anything."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    user, system, dead_user, dead_system = (int(field) / TICK for field in fields[11:15])
    return _Process(pid, int(fields[1]), user + system, dead_user + dead_system)
