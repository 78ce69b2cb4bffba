"""What /proc says of processes that may end at any time."""

from __future__ import annotations

import os
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGESIZE")


def descendants(pid: int) -> list[int]:
    """Every living descendant of a process, parents first."""
    return [each for child in children(pid) for each in (child, *descendants(child))]


def children(pid: int) -> list[int]:
    """The children of a process; none if it has ended."""
    return [int(child) for child in _read(pid, f"task/{pid}/children").split()]


def is_descendant(pid: int, ancestor: int) -> bool:
    """Whether a process was started by another one, or by a descendant of it. Also finds children of threads."""
    while pid > 1 and pid != ancestor:
        fields = _read(pid, "stat").rpartition(")")[2].split()
        pid = int(fields[1]) if fields else 0
    return pid == ancestor


def is_alive(pid: int) -> bool:
    """Whether a process runs or sleeps. One that has ended, and for which nobody has waited, is not alive."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return bool(fields) and fields[0] != "Z"


def resident_bytes(pid: int) -> int:
    """The memory of a process; 0 if it has ended."""
    fields = _read(pid, "statm").split()
    return int(fields[1]) * PAGE_BYTES if fields else 0


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
